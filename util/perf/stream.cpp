// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Many messages in flight.
#include "burst.hpp"
#include "pipeline.hpp"

namespace gaudi::perf {
namespace {

// The sender is done with the receiver's acknowledgement, not with its own completions, which may
// only mean that the bytes have been taken over.
class message_stream final : public burst {
 public:
  message_stream(pair& here, const step& s, const burst_range& range)
      : burst(here, s, range),
        sends_(here.is_client() || s.bidirectional),
        receives_(!here.is_client() || s.bidirectional),
        sending_(sends_ ? range.count : 0, s.window, s.slots),
        receiving_(receives_ ? range.count : 0, s.slots, s.slots),
        ack_received_(sends_ ? 1 : 0, 1, 1),
        ack_sent_(receives_ ? 1 : 0, 1, 1) {}

  bool advance() override {
    receiving_.collect([&](const ticket& done) { expect_length(step_, done); });
    post_first();
    sending_.collect([](const ticket&) {});
    sending_.refill([&](std::size_t slot, ticket& t) { return pair_.post_send(step_, slot, t); });
    return receiving_.all_done() && acknowledge() && sending_.all_done() && acknowledged();
  }

 protected:
  bool gives() const override { return sends_; }
  bool gets() const override { return receives_; }
  void post_first() override {
    ack_received_.refill([&](std::size_t, ticket& t) { return pair_.await_ack(t); });
    receiving_.refill(
        [&](std::size_t slot, ticket& t) { return pair_.post_receive(step_, slot, t); });
  }

 private:
  bool acknowledge() {
    ack_sent_.refill([&](std::size_t, ticket& t) { return pair_.post_ack(t); });
    ack_sent_.collect([](const ticket&) {});
    return ack_sent_.all_done();
  }
  bool acknowledged() {
    ack_received_.collect([](const ticket&) {});
    return ack_received_.all_done();
  }

  const bool sends_;
  const bool receives_;
  pipeline sending_;
  pipeline receiving_;
  pipeline ack_received_;
  pipeline ack_sent_;
};

}  // namespace

std::unique_ptr<burst> make_stream(pair& here, const step& s, const burst_range& range) {
  return std::make_unique<message_stream>(here, s, range);
}

}  // namespace gaudi::perf
