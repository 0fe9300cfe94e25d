// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Many operations in flight.
#include <algorithm>
#include <numeric>

#include "session.hpp"

namespace gaudi::perf {
namespace {

constexpr std::uint64_t ack_tag = 0xacc;

// Posts operations 0 .. count-1, each in the slot of its number, never more than `window` in
// flight. An operation's slot is free again when the one before it there has finished, so results
// appear in order.
class pipeline {
 public:
  pipeline(std::uint64_t count, std::size_t window, std::size_t slots)
      : count_(count), window_(window), tickets_(slots) {}

  bool all_done() const { return finished_ == count_; }
  bool can_post() const { return posted_ < count_ && posted_ - finished_ < window_; }
  std::size_t next_slot() const { return posted_ % tickets_.size(); }
  ticket& post() { return tickets_[posted_++ % tickets_.size()]; }

  // The oldest operation if it has finished; it is then counted.
  const ticket* take_finished() {
    if (finished_ == posted_ || oldest().busy()) return nullptr;
    const ticket* done = &oldest();
    ++finished_;
    return done;
  }

 private:
  const ticket& oldest() const { return tickets_[finished_ % tickets_.size()]; }

  std::uint64_t count_;
  std::size_t window_;
  std::vector<ticket> tickets_;
  std::uint64_t posted_ = 0;
  std::uint64_t finished_ = 0;
};

// Lets `post` start what the window allows and gives each finished operation to `finish`.
template <class Post, class Finish>
void advance(pipeline& line, Post post, Finish finish) {
  while (const ticket* done = line.take_finished()) finish(*done);
  while (line.can_post()) {
    const std::size_t slot = line.next_slot();
    post(slot, line.post());
  }
}

// Without checking everything is one burst; with it a burst ends when each slot has been used once.
std::uint64_t burst_length(const step& s, std::uint64_t count) {
  return s.check ? std::min<std::uint64_t>(count, s.slots) : count;
}

}  // namespace

void session::fill_burst(const step& s, std::uint64_t first, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i)
    tx_->fill(outgoing(s, phase::stream, first + i), (i % s.slots) * s.size, s.size);
}

void session::verify_burst(const step& s, std::uint64_t first, std::uint64_t count) const {
  for (std::uint64_t i = 0; i < count; ++i) verify(s, phase::stream, first + i, *rx_, i % s.slots);
}

double session::message_stream(const step& s, std::uint64_t count) {
  double elapsed = 0;
  const std::uint64_t length = burst_length(s, count);
  for (std::uint64_t first = 0; first < count; first += length)
    elapsed += message_burst(s, first, std::min(length, count - first));
  return elapsed;
}

// The sender's time ends with the receiver's acknowledgement, not with its own completions, which
// may only mean that the bytes have been taken over.
double session::message_burst(const step& s, std::uint64_t first, std::uint64_t count) {
  const bool sends = client_ || s.bidirectional;
  const bool receives = !client_ || s.bidirectional;
  pipeline sending(sends ? count : 0, s.window, s.slots);
  pipeline receiving(receives ? count : 0, s.slots, s.slots);
  ticket ack_received;
  ticket ack_sent;
  const auto post_receives = [&](std::size_t slot, ticket& t) { post_receive(s, slot, t); };
  const auto post_sends = [&](std::size_t slot, ticket& t) { post_send(s, slot, t); };

  if (s.check && sends) fill_burst(s, first, count);
  if (sends) ep_.tagged_receive(control_.local(1), 1, ack_tag, ack_received);
  advance(receiving, post_receives, [](const ticket&) {});
  oob_.barrier();

  const common::stopwatch watch;
  bool acknowledged = false;
  ep_.wait_until(
      [&] {
        advance(receiving, post_receives, [&](const ticket& done) { finish_receive(s, done); });
        advance(sending, post_sends, [](const ticket&) {});
        if (receives && receiving.all_done() && !acknowledged) {
          ep_.tagged_send(control_.local(0), 1, ack_tag, ack_sent);
          acknowledged = true;
        }
        return receiving.all_done() && sending.all_done() && !ack_received.busy() &&
               !ack_sent.busy();
      },
      "a stream of messages");
  const double elapsed = watch.microseconds();

  oob_.barrier();
  if (s.check && receives) verify_burst(s, first, count);
  return elapsed;
}

double session::rma_stream(const step& s, std::uint64_t count) {
  double elapsed = 0;
  const std::uint64_t length = burst_length(s, count);
  for (std::uint64_t first = 0; first < count; first += length)
    elapsed += rma_burst(s, first, std::min(length, count - first));
  return elapsed;
}

double session::rma_burst(const step& s, std::uint64_t first, std::uint64_t count) {
  const bool acts = client_ || s.bidirectional;
  const bool is_target = !client_ || s.bidirectional;
  const bool gives = s.op == operation::write ? acts : is_target;
  const bool gets = s.op == operation::write ? is_target : acts;
  pipeline acting(acts ? count : 0, s.window, s.slots);

  if (s.check && gives) fill_burst(s, first, count);
  oob_.barrier();
  const common::stopwatch watch;
  ep_.wait_until(
      [&] {
        advance(
            acting, [&](std::size_t slot, ticket& t) { post_rma(s, slot, t); },
            [](const ticket&) {});
        return acting.all_done();
      },
      name_of(s.op));
  const double elapsed = watch.microseconds();
  oob_.barrier();
  if (s.check && gets) verify_burst(s, first, count);
  return elapsed;
}

}  // namespace gaudi::perf
