// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "counter_books.hpp"
#include "counts.hpp"
#include "dice.hpp"
#include "image.hpp"
#include "loss_rules.hpp"
#include "placed_messages.hpp"
#include "station.hpp"
#include "ticket.hpp"

namespace gaudi::stress {

/// The buffers in which a worker takes many messages (FI_MULTI_RECV) in a round: two for each peer
/// whose untagged messages are of that mode. Messages fill the first one, unless that is cancelled
/// after its first message; what is left of the second one is cancelled once all have come.
class multi_receives {
 public:
  multi_receives(station& own, const round_plan& plan, unsigned self, const loss_rules& rules);

  void prepare();

  /// Posts a buffer. False when there is none to post, or no room for it.
  bool post_next(counts& counted, bool cancels, dice& random);
  bool is_posted() const { return next_ == buffers_.size(); }

  /// A completion with one of its tickets.
  void take(const ticket& t, const completion& c, counts& counted, traffic& moved,
            counter_books& books);
  std::uint64_t arrived() const { return arrived_; }

  /// Cancels what takes no more: all messages of the peer have come, or it is lost.
  void cancel_done(const std::function<bool(std::size_t number)>& is_uncertain);
  bool are_released() const;

  /// Has the bytes be what the messages leave there.
  void expect(image& bytes) const;

  /// What is missing, in words; empty: nothing.
  std::string pending() const;

 private:
  struct buffer {
    ticket own;
    unsigned peer = 0;
    place at{};
    bool is_last = false;
    bool is_to_be_cancelled = false;
    std::vector<placed_message> come;
  };
  struct sender {
    std::vector<std::size_t> messages;  // by number
    place all{};
    std::size_t ended = 0;
  };

  void release(buffer& b, bool cancelled, counts& counted);
  void cancel(buffer& b);
  std::vector<placed_message> messages_from(unsigned peer) const;

  station& own_;
  const round_plan& plan_;
  const loss_rules& rules_;
  std::map<unsigned, sender> senders_;
  std::deque<buffer> buffers_;  // in the order of posting
  std::size_t next_ = 0;
  std::uint64_t arrived_ = 0;
};

}  // namespace gaudi::stress
