// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <memory>

#include "hl/mapping_watch.hpp"

namespace gaudi::device {

class device;

/// Makes what the application maps on a device of its own known there, and forgets it before it is
/// unmapped: the driver refuses to unmap what is exported. Only with libgaudi-fi-preload.so
/// preloaded; else the application says so itself (device::adopt_range).
class app_mappings final : private hl::mapping_listener {
 public:
  /// Null where nobody tells. `on` outlives it, and holds no lock in this call. Throws
  /// std::bad_alloc.
  static std::unique_ptr<app_mappings> follow(device& on);

 private:
  explicit app_mappings(device& on);
  void mapped(int fd, std::uint64_t va, std::uint64_t len) noexcept override;
  void unmapping(int fd, std::uint64_t va) noexcept override;
  [[nodiscard]] std::shared_ptr<device> owner_if_of(int fd) const noexcept;

  const std::weak_ptr<device> device_;
  struct stat own_ {};
  bool warned_ = false;  // a region covered what was unmapped
  std::unique_ptr<hl::mapping_subscription> told_;
};

}  // namespace gaudi::device
