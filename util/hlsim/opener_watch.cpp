// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "opener_watch.hpp"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>

#include "context.hpp"
#include "exports.hpp"
#include "settings.hpp"

namespace hlsim {
namespace {

constexpr std::chrono::milliseconds look_every{10};
/// The driver waits so much longer for a process that it can tell of the reset.
constexpr uint64_t patience_with_notified = 30;

bool has_open(const char* path) {
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", gone))
    if (std::filesystem::read_symlink(entry, gone) == path) return true;
  return false;
}

}  // namespace

opener_watch::opener_watch(const context& of)
    : of_(of), thread_([this](const std::stop_token& stop) { watch(stop); }) {}

/// An export holds the device's file.
bool opener_watch::is_kept() const {
  if (has_open(of_.state().name)) return true;
  const state_lock lock(of_.state());
  return has_exports(of_.state());
}

void opener_watch::watch(const std::stop_token& stop) {
  const uint64_t patience_ns = current_settings().kill_ns;
  uint64_t began_ns = 0;
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested() && !of_.has_followed()) {
    if (began_ns == 0 && is_in_reset(of_.state())) began_ns = now_ns();
    const uint64_t longest_ns =
        of_.has_notifier() ? patience_with_notified * patience_ns : patience_ns;
    if (began_ns != 0 && now_ns() - began_ns > longest_ns) {
      if (!is_kept()) return;
      std::fprintf(stderr, "hlsim: %s is in reset and still open; its opener is killed\n",
                   of_.state().name);
      ::kill(::getpid(), SIGKILL);
    }
    ends_.wait_for(lock, stop, look_every, [] { return false; });
  }
}

}  // namespace hlsim
