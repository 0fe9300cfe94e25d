// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "base/scoped_fd.hpp"

namespace hlsim {

class context;

/// Tells the user of a context of its events, as the driver does through an eventfd. What happens
/// may be another process's doing or the fault file's, so a thread looks for it.
class notifier {
 public:
  /// The eventfd for the user, or -errno; and what makes it readable for as long as it lives.
  /// `of` outlives it.
  static std::pair<int, std::unique_ptr<notifier>> create(const context& of);
  notifier(const notifier&) = delete;
  notifier& operator=(const notifier&) = delete;
  ~notifier();

 private:
  notifier(const context& of, gaudi::base::scoped_fd event) noexcept
      : of_(of), event_(std::move(event)) {}
  void watch();

  const context& of_;
  const gaudi::base::scoped_fd event_;  // a dup: the user may close his
  std::mutex mutex_;
  std::condition_variable ends_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace hlsim
