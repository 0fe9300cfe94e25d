// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

namespace gaudi::test {

/// How long this machine lets a thread wait that should run: a thread of its own sleeps for 2 ms
/// over and over, and notes by how much it woke too late. What promises a time is given several
/// times this on top, as each thread on its way may wait as long.
class lateness {
 public:
  lateness() : thread_([this] { measure(); }) {}
  ~lateness() {
    ends_ = true;
    thread_.join();
  }
  lateness(const lateness&) = delete;
  lateness& operator=(const lateness&) = delete;

  /// The worst so far, that of a sleep which has not ended yet included.
  [[nodiscard]] std::chrono::nanoseconds worst() const {
    return std::max(worst_.load(), clock::now() - due_.load());
  }

 private:
  using clock = std::chrono::steady_clock;

  void measure() {
    while (!ends_) {
      due_ = clock::now() + std::chrono::milliseconds(2);
      std::this_thread::sleep_until(due_.load());
      worst_ = std::max(worst_.load(), clock::now() - due_.load());
    }
  }

  std::atomic<bool> ends_{false};
  std::atomic<std::chrono::nanoseconds> worst_{std::chrono::nanoseconds{0}};
  std::atomic<clock::time_point> due_{clock::now()};
  std::thread thread_;
};

}  // namespace gaudi::test
