// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "base/result.hpp"
#include "device/device.hpp"

namespace gaudi::device {

/// The process's device. Gaudi2 resets at each last close, so it is opened on demand, once, and
/// kept until clear(). All members may be called from any thread.
class table {
 public:
  static table& instance();

  /// What opening needs to know: the values of FI_GAUDI_HLTHUNK, FI_GAUDI_DEVICE and of the reset
  /// time-out.
  struct settings {
    std::string library;
    std::string device;
    std::chrono::milliseconds reset_timeout = device::default_reset_timeout;
  };

  /// The library, loaded at the first call. -FI_ENOSYS: there is none, said by one warning only.
  base::result<std::shared_ptr<const hl::thunk>> library(const std::string& path);

  /// The device in use, opened if there is none yet. Errors of thunk::load, selector::parse and
  /// device::open. `settings` matter only to the call that opens.
  base::result<std::shared_ptr<device>> current(const settings& how);
  /// The device in use, or null; opens nothing.
  [[nodiscard]] std::shared_ptr<device> opened() const;
  /// Uses the application's device. -FI_EBUSY: another one is in use; else errors of device::adopt.
  base::result<std::shared_ptr<device>> adopt(const std::string& library_path, int fd);

  /// The same without a lock. Valid until clear().
  [[nodiscard]] device* in_use() const noexcept {
    return published_.load(std::memory_order_acquire);
  }
  /// The device in use if `addr` is in memory known to it, else null. Takes no lock. Valid until
  /// clear().
  [[nodiscard]] device* find_device(std::uint64_t addr) const noexcept;

  /// Whether `addr` can only be device memory: a Gaudi2's or Gaudi3's address, or in memory known
  /// to the device in use while nothing of this process's lies at that address (which a Gaudi1's
  /// may). At most one system call, which host addresses do not cost but by that coincidence.
  [[nodiscard]] bool is_surely_device(std::uint64_t addr) const noexcept;

  /// Lets go of the device and closes it if nobody else holds it. For the provider's cleanup, when
  /// no other call runs.
  void clear();

 private:
  base::result<std::shared_ptr<const hl::thunk>> library_locked(const std::string& path);
  void use(std::shared_ptr<device> found);

  mutable std::mutex mutex_;
  std::shared_ptr<const hl::thunk> library_;
  int library_failure_ = 0;
  std::shared_ptr<device> current_;
  std::atomic<device*> published_{nullptr};
};

}  // namespace gaudi::device
