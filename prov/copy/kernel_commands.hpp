// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/result.hpp"
#include "device/device.hpp"

namespace gaudi::copy {

/// A command buffer of the driver's, mapped here, as Gaudi1's queues want them
/// (prov/docs/device.md, 5.2). The driver copies it at submission, so it may be written anew when
/// that has returned. A child process does not inherit the mapping. Move-only. Holds its device.
class kernel_commands {
 public:
  /// `len` bytes, at most 2 MiB - 32. -FI_ENOMEM; device::lost(); -FI_ENOSYS: the library has no
  /// such function.
  static base::result<kernel_commands> request(std::shared_ptr<device::device> owner,
                                               std::uint32_t len);

  kernel_commands(kernel_commands&& other) noexcept;
  kernel_commands& operator=(kernel_commands&&) = delete;
  ~kernel_commands();

  /// The device is lost: the driver's buffer goes, and other memory takes its place, so that who
  /// writes to it at this moment does no harm.
  void abandon() const noexcept;

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  /// Names it in a submission.
  [[nodiscard]] std::uint64_t handle() const noexcept { return handle_; }

 private:
  kernel_commands(std::shared_ptr<device::device> owner, std::uint64_t handle, std::uint32_t len)
      : owner_(std::move(owner)), handle_(handle), len_(len) {}

  std::shared_ptr<device::device> owner_;  // null when moved from
  std::uint64_t handle_;
  std::uint32_t len_;
  std::byte* data_ = nullptr;  // null: not mapped
};

}  // namespace gaudi::copy
