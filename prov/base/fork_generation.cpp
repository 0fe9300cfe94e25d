// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/fork_generation.hpp"

#include <pthread.h>

#include <atomic>

namespace gaudi::base {
namespace {

std::atomic<unsigned> forks{0};

bool watch() noexcept {
  return ::pthread_atfork(nullptr, nullptr,
                          [] { forks.fetch_add(1, std::memory_order_relaxed); }) == 0;
}

}  // namespace

unsigned fork_generation() noexcept {
  static const bool watching = watch();
  static_cast<void>(watching);
  return forks.load(std::memory_order_relaxed);
}

}  // namespace gaudi::base
