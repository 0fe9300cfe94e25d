// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "hbm.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace hlsim {
namespace {

scoped_fd make_memfd(device_state& state) {
  scoped_fd fd(::memfd_create("hlsim-hbm", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  std::snprintf(state.hbm_path, sizeof state.hbm_path, "/proc/%d/fd/%d", ::getpid(), fd.get());
  return fd;
}

scoped_fd make_file(device_state& state) {
  std::snprintf(state.hbm_path, sizeof state.hbm_path, "%s.hbm", state.name);
  return scoped_fd(::open(state.hbm_path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
}

}  // namespace

bool have_udmabuf() noexcept {
  return ::access("/dev/udmabuf", R_OK | W_OK) == 0;
}

hbm_store hbm_store::create(device_state& state, uint64_t sram_bytes) {
  hbm_store store(have_udmabuf() ? make_memfd(state) : make_file(state));
  const auto size = static_cast<off_t>(state.pages * state.page_size + sram_bytes);
  if (!store || ::ftruncate(store.fd(), size) != 0) return hbm_store(scoped_fd());
  // udmabuf insists on a file that cannot shrink; an ordinary file refuses the seal and needs none.
  ::fcntl(store.fd(), F_ADD_SEALS, F_SEAL_SHRINK);
  return store;
}

hbm_store hbm_store::attach(const device_state& state) {
  return hbm_store(scoped_fd(::open(state.hbm_path, O_RDWR | O_CLOEXEC)));
}

bool hbm_store::read(uint64_t offset, void* host, uint64_t size) const noexcept {
  auto* at = static_cast<char*>(host);
  while (size > 0) {
    const ssize_t n = ::pread(fd_.get(), at, size, static_cast<off_t>(offset));
    if (n == 0) errno = EIO;
    if (n <= 0) return false;
    at += n, offset += static_cast<uint64_t>(n), size -= static_cast<uint64_t>(n);
  }
  return true;
}

bool hbm_store::write(uint64_t offset, const void* host, uint64_t size) const noexcept {
  const auto* at = static_cast<const char*>(host);
  while (size > 0) {
    const ssize_t n = ::pwrite(fd_.get(), at, size, static_cast<off_t>(offset));
    if (n <= 0) return false;
    at += n, offset += static_cast<uint64_t>(n), size -= static_cast<uint64_t>(n);
  }
  return true;
}

void hbm_store::discard(uint64_t offset, uint64_t size) const noexcept {
  ::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
              static_cast<off_t>(size));
}

}  // namespace hlsim
