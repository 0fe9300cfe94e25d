// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "device/table.hpp"

#include <rdma/fi_errno.h>

#include <utility>

#include "device/host_page.hpp"

namespace gaudi::device {

using base::error;
using base::result;

table& table::instance() {
  // Never destroyed: at the process's end the library behind the device may be gone before us, and
  // the kernel closes everything anyway.
  static table* const all = std::make_unique<table>().release();
  return *all;
}

result<std::shared_ptr<const hl::thunk>> table::library_locked(const std::string& path) {
  if (library_) return library_;
  if (library_failure_ != 0) return error{library_failure_};
  auto loaded = hl::thunk::load(path);
  if (!loaded) {
    library_failure_ = loaded.code();
    return loaded;
  }
  library_ = *std::move(loaded);
  return library_;
}

result<std::shared_ptr<const hl::thunk>> table::library(const std::string& path) {
  const std::lock_guard lock(mutex_);
  return library_locked(path);
}

void table::use(std::shared_ptr<device> found) {
  current_ = std::move(found);
  published_.store(current_.get(), std::memory_order_release);
}

result<std::shared_ptr<device>> table::current(const settings& how) {
  const std::lock_guard lock(mutex_);
  if (current_) return current_;
  const auto which = selector::parse(how.device);
  if (!which) return which.failure();
  const auto loaded = library_locked(how.library);
  if (!loaded) return loaded.failure();
  auto found = device::open(*loaded, *which, how.reset_timeout);
  if (found) use(*found);
  return found;
}

std::shared_ptr<device> table::opened() const {
  const std::lock_guard lock(mutex_);
  return current_;
}

result<std::shared_ptr<device>> table::adopt(const std::string& library_path, int fd) {
  const std::lock_guard lock(mutex_);
  if (current_) return error{-FI_EBUSY};
  const auto loaded = library_locked(library_path);
  if (!loaded) return loaded.failure();
  auto found = device::adopt(*loaded, fd);
  if (found) use(*found);
  return found;
}

device* table::find_device(std::uint64_t addr) const noexcept {
  device* const used = published_.load(std::memory_order_acquire);
  return used != nullptr && used->find(addr, 1) ? used : nullptr;
}

bool table::is_surely_device(std::uint64_t addr) const noexcept {
  return is_device_address(addr) || (find_device(addr) != nullptr && !has_host_page(addr));
}

void table::clear() {
  const std::lock_guard lock(mutex_);
  use(nullptr);
}

}  // namespace gaudi::device
