// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "exports.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "memory.hpp"
#include "settings.hpp"

namespace hlsim {
namespace {

constexpr uint64_t alignment = 4096;

// linux/udmabuf.h, in our own words: the header is not on every build machine's kernel.
struct udmabuf_range {
  uint32_t memfd;
  uint32_t flags;
  uint64_t offset;
  uint64_t size;
};
constexpr uint32_t udmabuf_cloexec = 1;
constexpr unsigned long udmabuf_create = _IOW('u', 0x42, udmabuf_range);

// Of tests/vm/fakegaudi.
constexpr unsigned long fakegaudi_wrap = _IO('G', 1);

std::string fifo_path(const device_state& state, uint64_t number) {
  return std::string(state.name) + ".export" + std::to_string(number);
}

/// flock on a dma-buf can only be asked for in the kernel's list, as no other open file
/// description of it can be had. Lines end in "MAJOR:MINOR:INODE START END", with two
/// hexadecimal digits at least; inodes of other filesystems have the same numbers.
bool is_udmabuf_alive(const export_record& e) {
  std::array<char, 64> name{};
  std::snprintf(name.data(), name.size(), " %02x:%02x:%llu ", gnu_dev_major(e.filesystem),
                gnu_dev_minor(e.filesystem), static_cast<unsigned long long>(e.number));
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);)
    if (line.find("FLOCK") != std::string::npos && line.find(name.data()) != std::string::npos)
      return true;
  return false;
}

bool is_fifo_alive(const device_state& state, uint64_t number) {
  const std::string path = fifo_path(state, number);
  const scoped_fd fd(::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!fd) return false;
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return true;
  ::unlink(path.c_str());
  return false;
}

bool is_alive(const device_state& state, const export_record& e) {
  return e.filesystem != 0 ? is_udmabuf_alive(e) : is_fifo_alive(state, e.number);
}

void forget_if_gone(const device_state& state, export_record& e) {
  if (e.key != 0 && !is_alive(state, e)) e = {};
}

export_record* free_slot(device_state& state) {
  const auto find = [&] {
    return std::find_if(std::begin(state.exports), std::end(state.exports),
                        [](const export_record& e) { return e.key == 0; });
  };
  if (find() == std::end(state.exports)) has_exports(state);  // forgets those that are gone
  return find() == std::end(state.exports) ? nullptr : find();
}

int make_fifo(device_state& state, export_record& e) {
  e.number = ++state.last_export;
  const std::string path = fifo_path(state, e.number);
  ::unlink(path.c_str());
  if (::mkfifo(path.c_str(), 0600) != 0) return -errno;
  scoped_fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd || ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return -errno;
  return fd.release();
}

/// With the module of tests/vm a dma-buf over the same memory that nothing can mmap, as the
/// driver's.
scoped_fd hide_from_cpu(scoped_fd plain) {
  if (!plain) return plain;
  const scoped_fd maker(::open("/dev/fakegaudi", O_RDWR | O_CLOEXEC));
  return maker ? scoped_fd(::ioctl(maker.get(), fakegaudi_wrap, plain.get())) : std::move(plain);
}

int make_udmabuf(export_record& e, const hbm_store& hbm, uint64_t offset, uint64_t size) {
  const scoped_fd maker(::open("/dev/udmabuf", O_RDWR | O_CLOEXEC));
  udmabuf_range range{static_cast<uint32_t>(hbm.fd()), udmabuf_cloexec, offset, size};
  scoped_fd fd =
      hide_from_cpu(scoped_fd(maker ? ::ioctl(maker.get(), udmabuf_create, &range) : -1));
  struct stat s {};
  if (!fd || ::fstat(fd.get(), &s) != 0 || ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    const int rc = -errno;
    std::fprintf(stderr,
                 "hlsim: /dev/udmabuf gives no dma-buf of %llu bytes (error %d); raise "
                 "/sys/module/udmabuf/parameters/size_limit_mb\n",
                 static_cast<unsigned long long>(size), -rc);
    return rc;
  }
  e.number = s.st_ino;
  e.filesystem = s.st_dev;
  return fd.release();
}

/// udmabuf takes one range of the store: the pages behind the export must be neighbours.
bool is_one_piece(const device_state& state, const mapping& m, uint64_t offset, uint64_t size) {
  const uint64_t first = offset / state.page_size;
  const uint64_t last = (offset + size - 1) / state.page_size;
  const uint32_t base = page_of(state, m.target, first);
  for (uint64_t n = first; n <= last; ++n)
    if (page_of(state, m.target, n) != base + (n - first)) return false;
  return true;
}

/// Every page of the allocation must be, not only those of the part that is exported.
bool is_behind_bar(const device_state& state, uint64_t handle) {
  const std::vector<page_run> runs = runs_of(state, handle);
  return std::all_of(runs.begin(), runs.end(), [&](const page_run& r) {
    return (r.first + r.pages) * state.page_size <= current_settings().bar;
  });
}

int make_export(device_state& state, const hbm_store& hbm, const mapping& m, uint64_t offset,
                uint64_t size, export_record& e) {
  if (!have_udmabuf()) return make_fifo(state, e);
  if (!is_one_piece(state, m, offset, size)) return -ENOMEM;
  const uint64_t at = page_of(state, m.target, offset / state.page_size) * state.page_size +
                      offset % state.page_size;
  return make_udmabuf(e, hbm, at, size);
}

/// Notes what `make` (which fills in the record) has exported under `key`. The fd, or -errno.
template <class Make>
int record_export(device_state& state, uint64_t key, Make make) {
  export_record* const slot = free_slot(state);
  if (!slot) return -ENOMEM;
  export_record e{};
  const int fd = make(e);
  if (fd < 0) return fd;
  e.key = key;
  *slot = e;
  return fd;
}

}  // namespace

int export_range(device_state& state, const hbm_store& hbm, uint64_t address, uint64_t size,
                 uint64_t offset) {
  const bool aligned = ((address | size | offset) % alignment) == 0;
  const mapping* const m = find_key(state, address);
  if (!aligned || size == 0 || !m || m->kind != mapping_kind::hbm) return -EINVAL;
  if (size > m->size || offset > m->size - size || !is_behind_bar(state, m->target)) return -EINVAL;
  return record_export(state, address, [&](export_record& e) {
    return make_export(state, hbm, *m, offset, size, e);
  });
}

int export_physical(device_state& state, const model& m, const hbm_store& hbm, uint64_t address,
                    uint64_t size) {
  const va_range user = m.physical_range(hbm_bytes(state));
  const bool aligned = ((address | size) % alignment) == 0;
  if (!aligned || size == 0 || !user.holds(address, size)) return -EINVAL;
  if (address + size - m.physical_base > current_settings().bar) return -EINVAL;
  return record_export(state, address, [&](export_record& e) {
    return have_udmabuf() ? make_udmabuf(e, hbm, address - user.first, size) : make_fifo(state, e);
  });
}

bool is_exported(device_state& state, uint64_t key) {
  bool alive = false;
  for (export_record& e : state.exports) {
    if (e.key != key) continue;
    forget_if_gone(state, e);
    alive = alive || e.key != 0;
  }
  return alive;
}

bool has_exports(device_state& state) {
  bool alive = false;
  for (export_record& e : state.exports) forget_if_gone(state, e), alive = alive || e.key != 0;
  return alive;
}

}  // namespace hlsim
