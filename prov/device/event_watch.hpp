// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <sys/types.h>

#include <memory>
#include <thread>

#include "base/scoped_fd.hpp"

namespace gaudi::device {

class device;

/// Sleeps until the driver tells of a reset, and then has the device lost, whether or not anybody
/// uses it at that moment: the driver kills a process that keeps the device for longer than it
/// takes to hear of it. A thread of its own, because nothing else of the provider's is sure to run.
/// Who opened the device has its notifier, of which there is one: of a device of the application's
/// or Synapse's it asks for the status instead, 20 times a second.
class event_watch {
 public:
  /// None where an owned device's library has no notifier, or no thread can be had: then only the
  /// next call tells.
  /// `on` outlives it.
  static std::unique_ptr<event_watch> start(device& on) noexcept;
  event_watch(const event_watch&) = delete;
  event_watch& operator=(const event_watch&) = delete;
  ~event_watch();

 private:
  event_watch(device& on, base::scoped_fd notifier, base::scoped_fd stop);
  static base::scoped_fd notifier_of(device& on) noexcept;
  void run() noexcept;
  [[nodiscard]] int what_is_told() const noexcept;
  [[nodiscard]] int what_is_seen() const noexcept;

  device& device_;
  const base::scoped_fd notifier_;  // none: the status is asked for
  const base::scoped_fd stop_;
  const pid_t owner_;
  std::thread thread_;
};

}  // namespace gaudi::device
