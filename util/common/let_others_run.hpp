// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <pthread.h>
#include <sched.h>

#include <chrono>
#include <thread>

namespace gaudi::common {

/// For who polls and has found nothing: gives the processor up, to a peer on the same machine
/// perhaps. The thread is not cancelled here: where it polls it is not, either. `yield` is
/// sched_yield(2).
///
/// A yield that takes long has let somebody run who does not stop by himself. Where the processors
/// are that busy, each one costs a turn of the scheduler, milliseconds, and so does the peer's; who
/// has slept is let in at once. Where they are not, to sleep would be what is measured.
inline void let_others_run(int (*yield)() = ::sched_yield) noexcept {
  using clock = std::chrono::steady_clock;
  constexpr std::chrono::microseconds slow_yield{500};
  constexpr std::chrono::seconds busy_for{1};
  constexpr std::chrono::microseconds nap{10};
  static thread_local clock::time_point busy_until{};
  const auto before = clock::now();
  if (before < busy_until) {
    int cancellable = PTHREAD_CANCEL_ENABLE;
    ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellable);
    std::this_thread::sleep_for(nap);
    ::pthread_setcancelstate(cancellable, nullptr);
    return;
  }
  yield();
  if (clock::now() - before > slow_yield) busy_until = before + busy_for;
}

}  // namespace gaudi::common
