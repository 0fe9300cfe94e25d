// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <vector>

#include "endpoint.hpp"

namespace gaudi::perf {

/// Posts operations 0 .. count-1, each in the slot of its number, never more than `window` in
/// flight. An operation's slot is free again when the one before it there has finished, so results
/// appear in order.
class pipeline {
 public:
  pipeline(std::uint64_t count, std::size_t window, std::size_t slots)
      : count_(count), window_(window), tickets_(slots) {}

  bool all_done() const { return finished_ == count_; }
  std::uint64_t posted() const { return posted_; }
  std::uint64_t finished() const { return finished_; }

  /// Gives each finished operation to `finish`, in order.
  template <class Finish>
  void collect(Finish finish) {
    while (finished_ != posted_ && !oldest().busy()) {
      finish(oldest());
      ++finished_;
    }
  }

  /// Lets `post` start what the window allows, until it gives false.
  template <class Post>
  void refill(Post post) {
    while (posted_ < count_ && posted_ - finished_ < window_) {
      const std::size_t slot = posted_ % tickets_.size();
      if (!post(slot, tickets_[slot])) return;
      ++posted_;
    }
  }

 private:
  const ticket& oldest() const { return tickets_[finished_ % tickets_.size()]; }

  std::uint64_t count_;
  std::size_t window_;
  std::vector<ticket> tickets_;
  std::uint64_t posted_ = 0;
  std::uint64_t finished_ = 0;
};

}  // namespace gaudi::perf
