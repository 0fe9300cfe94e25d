// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/fork_generation.hpp"

#include <pthread.h>

namespace gaudi::base {

std::atomic<unsigned> forks_so_far{0};

namespace {

bool watch() noexcept {
  return ::pthread_atfork(nullptr, nullptr,
                          [] { forks_so_far.fetch_add(1, std::memory_order_relaxed); }) == 0;
}

}  // namespace

unsigned fork_generation() noexcept {
  static const bool watching = watch();
  static_cast<void>(watching);
  return current_fork_generation();
}

}  // namespace gaudi::base
