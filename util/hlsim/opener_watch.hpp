// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

namespace hlsim {

class context;

/// Kills the process that opened a device where it keeps it open for too long after a reset, as the
/// driver does (reference, section 2.5): see hlsim(7), HLSIM_KILL. Nobody but the stand-in itself
/// is there to do it, so a thread of the process looks whether it has let go.
class opener_watch {
 public:
  /// `of` outlives it.
  explicit opener_watch(const context& of);

 private:
  void watch(const std::stop_token& stop);
  [[nodiscard]] bool is_kept() const;

  const context& of_;
  std::mutex mutex_;
  std::condition_variable_any ends_;
  std::jthread thread_;  // last: ends first
};

}  // namespace hlsim
