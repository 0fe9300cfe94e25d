// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <pthread.h>

#include <chrono>
#include <thread>

namespace gaudi::test {

/// For who looks again and again for what another process is to do. Ranks that only look, or yield,
/// keep the CPU from those they wait for: with the machine's CPUs busy a message takes two turns of
/// the scheduler, milliseconds, where one that has slept is let in at once.
///
/// Not thread safe.
class idle_looks {
 public:
  /// After each look: whether there was something. Returns at once, or after a short sleep, in
  /// which the thread is not cancelled: where it looks it is not, either.
  void looked(bool found) noexcept {
    in_a_row_ = found ? 0 : in_a_row_ + 1;
    if (in_a_row_ > before_nap) take_nap();
  }

 private:
  static constexpr int before_nap = 200;
  static constexpr std::chrono::microseconds nap{10};

  static void take_nap() noexcept {
    int before = 0;
    ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    std::this_thread::sleep_for(nap);
    ::pthread_setcancelstate(before, nullptr);
  }

  int in_a_row_ = 0;
};

}  // namespace gaudi::test
