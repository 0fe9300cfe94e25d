// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "pace.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <ctime>

namespace hlsim {
namespace {

constexpr uint64_t spin_ns = 4'000;
constexpr uint64_t step_ns = 10'000'000;

void sleep_to(uint64_t at_ns) noexcept {
  const timespec t{static_cast<time_t>(at_ns / 1'000'000'000),
                   static_cast<long>(at_ns % 1'000'000'000)};
  ::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, nullptr);
}

}  // namespace

uint64_t pace::book(direction link, uint64_t bytes, uint64_t ready_ns) {
  const double rate = rates_[static_cast<size_t>(link)];
  if (rate == 0) return ready_ns;
  const std::lock_guard lock(mutex_);
  uint64_t& busy = busy_until_[static_cast<size_t>(link)];
  busy = std::max(busy, ready_ns) + static_cast<uint64_t>(static_cast<double>(bytes) / rate);
  return busy;
}

void sleep_until(uint64_t due_ns, const std::atomic<bool>& stop) noexcept {
  for (uint64_t now = now_ns(); now + spin_ns < due_ns && !stop; now = now_ns())
    sleep_to(std::min(due_ns - spin_ns, now + step_ns));
  while (now_ns() < due_ns && !stop) {
  }
}

void prepare_to_sleep() noexcept {
  ::prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
}

}  // namespace hlsim
