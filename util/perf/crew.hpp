// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string_view>
#include <thread>
#include <vector>

#include "common/patience.hpp"
#include "pair.hpp"

namespace gaudi::perf {

using pairs = std::vector<std::unique_ptr<pair>>;

/// The threads that drive a side's pairs, the caller's among them. Each pair belongs to one thread,
/// which polls it all the time, also between two tasks: a provider with manual progress answers the
/// peer's operations only then. While a crew exists nobody else uses the pairs.
class crew {
 public:
  /// The pairs of one thread.
  using group = std::vector<pair*>;
  using task = std::function<void(const group&)>;

  /// Pair i belongs to thread i % threads. `peer_gone` is asked now and then by the caller's thread
  /// during long waits; true ends them with a failure, as the time-out without progress does.
  crew(const pairs& all, std::size_t threads, std::chrono::seconds timeout,
       std::function<bool()> peer_gone);
  crew(const crew&) = delete;
  crew& operator=(const crew&) = delete;

  /// Each thread does the task with its pairs. Returns when all have, and fails as the first of
  /// them that did.
  void run(const task& todo);

  /// The caller's pairs.
  const group& own() const { return groups_.front(); }

  /// True when an operation of these pairs finished.
  static bool poll(const group& some);

  /// For a task: polls its pairs until `done`.
  template <class Predicate>
  void wait_until(const group& some, Predicate done, std::string_view what) {
    common::patience waited(timeout_);
    while (!done()) {
      if (poll(some))
        waited.reward();
      else if (waited.spend(what))
        look_around(some, what);
    }
  }

 private:
  void serve(const std::stop_token& ending, const group& some);
  void wait_for_workers();
  void look_around(const group& some, std::string_view what) const;
  template <class Work>
  void attempt(Work work) noexcept;

  const std::chrono::seconds timeout_;
  const std::function<bool()> peer_gone_;
  std::vector<group> groups_;

  // The task is valid while threads are at it. A new turn starts it.
  const task* todo_ = nullptr;
  std::atomic<std::uint64_t> turn_{0};
  std::atomic<std::size_t> at_work_{0};

  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::exception_ptr first_failure_;  // guarded by mutex_

  std::vector<std::jthread> workers_;  // last: they use all of the above until they have ended
};

}  // namespace gaudi::perf
