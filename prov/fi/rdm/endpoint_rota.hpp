// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <atomic>
#include <vector>

#include "base/make_room.hpp"
#include "proto/endpoint.hpp"

namespace gaudi::fi {

/// The enabled endpoints of a domain, and whom of them a poll of the application progresses. What
/// others have to do is no concern of a queue (fi_domain(3), manual progress), and HCL has dozens,
/// each with a queue of its own. But all have their turn now and then, so that an application that
/// waits at one queue for what another endpoint of its own does gets it all the same.
///
/// Not thread safe, but for the numbers: the caller holds the domain lock.
class endpoint_rota {
 public:
  using list = std::vector<proto::endpoint*>;

  [[nodiscard]] const list& all() const noexcept { return all_; }
  /// False: there is no memory for it.
  [[nodiscard]] bool add(proto::endpoint& e) noexcept {
    if (!base::make_room(all_)) return false;
    all_.push_back(&e);
    return true;
  }
  /// Whether it was there.
  bool remove(proto::endpoint& e) noexcept { return std::erase(all_, &e) != 0; }

  /// Of a queue to which these report.
  void poll_for(const list& concerned) noexcept {
    const unsigned now = polls() + 1;
    polls_.store(now, std::memory_order_relaxed);
    if (now % polls_for_each_of_all == 0) return go_round();
    for (proto::endpoint* e : concerned) e->progress();
  }
  /// Of something that concerns all.
  void poll_for_all() noexcept {
    polls_.store(polls() + 1, std::memory_order_relaxed);
    go_round();
  }
  /// Not by the application.
  void progress_all() noexcept {
    for (proto::endpoint* e : all_) e->progress();
  }

  // How often the application has polled, and how often that was for all; these wrap around. Thread
  // safe.

  [[nodiscard]] unsigned polls() const noexcept { return polls_.load(std::memory_order_relaxed); }
  [[nodiscard]] unsigned rounds() const noexcept { return rounds_.load(std::memory_order_relaxed); }

 private:
  static constexpr unsigned polls_for_each_of_all = 4;

  void go_round() noexcept {
    rounds_.store(rounds() + 1, std::memory_order_relaxed);
    progress_all();
  }

  list all_;
  std::atomic<unsigned> polls_{0};
  std::atomic<unsigned> rounds_{0};
};

}  // namespace gaudi::fi
