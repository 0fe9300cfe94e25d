// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "opener_watch.hpp"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <thread>

#include "exports.hpp"
#include "settings.hpp"

namespace hlsim {
namespace {

constexpr std::chrono::milliseconds look_at_opener_every{10};
/// The driver waits so much longer for a process that it can tell of the reset.
constexpr uint64_t patience_with_notified = 30;

bool has_open(const char* path) {
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", gone))
    if (std::filesystem::read_symlink(entry, gone) == path) return true;
  return false;
}

/// An export holds the device's file.
bool is_kept(const context& device) {
  if (has_open(device.state().name)) return true;
  const state_lock lock(device.state());
  return has_exports(device.state());
}

class opener_watch {
 public:
  explicit opener_watch(const context_ref& of) : of_(of) {}

  void run() {
    ::pthread_setname_np(::pthread_self(), "hlsim-opener");
    while (goes_on()) std::this_thread::sleep_for(look_at_opener_every);
  }

 private:
  bool goes_on() {
    const std::shared_ptr<const context> device = of_.lock();
    if (!device || device->has_followed()) return false;
    if (began_ns_ == 0 && is_in_reset(device->state())) began_ns_ = now_ns();
    const uint64_t max_ns = patience_ns_ * (device->has_notifier() ? patience_with_notified : 1);
    if (began_ns_ == 0 || now_ns() - began_ns_ <= max_ns) return true;
    if (is_kept(*device)) {
      std::fprintf(stderr, "hlsim: %s is in reset and still open; its opener is killed\n",
                   device->state().name);
      ::kill(::getpid(), SIGKILL);
    }
    return false;
  }

  const std::weak_ptr<const context> of_;
  const uint64_t patience_ns_ = current_settings().kill_ns;
  uint64_t began_ns_ = 0;  ///< of the reset, 0: none
};

}  // namespace

void watch_opener(const context_ref& of) {
  if (current_settings().kill_ns == 0) return;
  std::thread([watch = opener_watch(of)]() mutable { watch.run(); }).detach();
}

}  // namespace hlsim
