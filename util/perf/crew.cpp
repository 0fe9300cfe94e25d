// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "crew.hpp"

#include <fmt/format.h>

#include "common/let_others_run.hpp"

namespace gaudi::perf {

crew::crew(const pairs& all, std::size_t threads, std::chrono::seconds timeout,
           std::function<bool()> peer_gone)
    : timeout_(timeout), peer_gone_(std::move(peer_gone)), groups_(threads) {
  for (std::size_t i = 0; i < all.size(); ++i) groups_[i % threads].push_back(all[i].get());
  for (std::size_t i = 1; i < threads; ++i)
    workers_.emplace_back([this, i](const std::stop_token& ending) { serve(ending, groups_[i]); });
}

bool crew::poll(const group& some) {
  bool found = false;
  for (pair* one : some) found |= one->ep().progress();
  return found;
}

void crew::run(const task& todo) {
  todo_ = &todo;
  at_work_ = workers_.size();
  ++turn_;
  attempt([&] {
    todo(own());
    wait_for_workers();
  });
  // They see a failure as well, and use the task no longer than until then.
  while (at_work_ != 0) common::let_others_run();
  const std::lock_guard hold(mutex_);
  if (first_failure_) std::rethrow_exception(first_failure_);
}

// However long they take: each has a time-out of its own.
void crew::wait_for_workers() {
  for (unsigned turn = 1; at_work_ != 0 && !failed_; ++turn) {
    if (!poll(own())) common::let_others_run();
    if (turn % 1024 == 0) look_around(own(), "the other threads");
  }
}

void crew::serve(const std::stop_token& ending, const group& some) {
  for (std::uint64_t seen = 0;; ++seen) {
    while (turn_ == seen) {
      if (ending.stop_requested()) return;
      if (!failed_) attempt([&] { poll(some); });
      common::let_others_run();
    }
    attempt([&] { (*todo_)(some); });
    --at_work_;
  }
}

void crew::look_around(const group& some, std::string_view what) const {
  if (failed_) throw failure("another thread of this side has failed");
  if (&some == &own() && peer_gone_ && peer_gone_())
    throw failure(fmt::format("the peer is gone, in {}", what));
}

template <class Work>
void crew::attempt(Work work) noexcept {
  try {
    work();
  } catch (...) {
    const std::lock_guard hold(mutex_);
    if (!first_failure_) first_failure_ = std::current_exception();
    failed_ = true;
  }
}

}  // namespace gaudi::perf
