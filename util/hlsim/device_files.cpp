// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "device_files.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "settings.hpp"
#include "sysfs_tree.hpp"

namespace hlsim {
namespace {

constexpr uint64_t huge_page = 2 << 20;

std::string path_of(const char* prefix, uint32_t index) {
  return current_settings().folder + "/" + prefix + std::to_string(index);
}

bool is_current(const std::string& path) {
  const scoped_fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  auto id = std::make_unique<device_state>();
  return fd && read_identity(fd.get(), *id) && id->model_kind == current_settings().devices_are;
}

void fill_identity(device_state& state, uint32_t index, bool control) {
  state.magic = state_magic;
  state.index = index;
  state.model_kind = current_settings().devices_are;
  state.is_control = control;
  std::snprintf(state.name, sizeof state.name, "%s", device_path(index).c_str());
}

/// Makes the file under another name first: nobody sees it half-made.
int create(const std::string& path, uint32_t index, bool control) {
  const std::string draft = path + ".new";
  const scoped_fd fd(::open(draft.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!fd) return -errno;
  // Memory is taken now: a mapping of what the machine has none for ends in SIGBUS.
  if (const int rc = ::posix_fallocate(fd.get(), 0, static_cast<off_t>(state_bytes)); rc != 0) {
    ::unlink(draft.c_str());
    return -rc;
  }
  const state_mapping state(fd.get());
  if (!state) return -errno;
  fill_identity(*state, index, control);
  initialise_sync(*state);
  reset_context(*state);
  choose_hbm(*state, configured_model());
  return ::rename(draft.c_str(), path.c_str()) == 0 ? 0 : -errno;
}

}  // namespace

state_mapping::state_mapping(int fd) noexcept {
  void* at = ::mmap(nullptr, state_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at != MAP_FAILED) state_ = static_cast<device_state*>(at);
}

state_mapping::~state_mapping() {
  if (state_) ::munmap(state_, state_bytes);
}

void choose_hbm(device_state& state, const model& m) {
  const settings& s = current_settings();
  const uint64_t total = s.hbm ? s.hbm : m.hbm_page * m.hbm_pages;
  const uint64_t page = s.page ? s.page : std::min(m.hbm_page, total);
  if (m.smallest_page != 0) {
    state.default_page = std::clamp(std::bit_floor(page), m.smallest_page, m.largest_page);
    state.page_size = m.smallest_page;
  } else {
    state.default_page = state.page_size = std::max(page / huge_page, uint64_t{1}) * huge_page;
  }
  state.pages = static_cast<uint32_t>(std::clamp<uint64_t>(total / state.page_size, 1, max_pages));
}

folder_lock::folder_lock() {
  const std::string& folder = current_settings().folder;
  std::error_code ignored;  // a missing folder shows when its files are opened
  std::filesystem::create_directories(folder, ignored);
  fd_.reset(::open((folder + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd_) failure_ = -errno;
  while (fd_ && ::flock(fd_.get(), LOCK_EX) != 0 && errno == EINTR) {
  }
}

std::string device_path(uint32_t index) {
  return path_of("device", index);
}
std::string control_path(uint32_t index) {
  return path_of("control", index);
}

// A file that cannot be opened, as no descriptor is left, may be somebody's.
bool is_locked(const std::string& path) {
  const scoped_fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  return fd ? ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0 : errno != ENOENT;
}

int ensure_device_files(uint32_t index) {
  show_sysfs_tree();
  const std::string compute = device_path(index);
  const std::string control = control_path(index);
  if (!is_current(compute)) {
    if (is_locked(compute)) return -EBUSY;
    if (const int rc = create(compute, index, false); rc != 0) return rc;
  }
  return is_current(control) ? 0 : create(control, index, true);
}

bool read_identity(int fd, device_state& id) noexcept {
  return ::pread(fd, &id, identity_bytes, 0) == static_cast<ssize_t>(identity_bytes) &&
         id.magic == state_magic;
}

}  // namespace hlsim
