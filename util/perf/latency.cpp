// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// One message at a time.
#include "common/latency.hpp"

#include "burst.hpp"
#include "pipeline.hpp"

namespace gaudi::perf {
namespace {

// The answer's receive is posted before its question leaves, so no message is unexpected. Half of
// the round trip is reported. When checking, a burst is one round trip, so filling and comparing
// are not in the time.
class ping_pong final : public burst {
 public:
  ping_pong(pair& here, const step& s, const burst_range& range)
      : burst(here, s, range),
        // Two: the next receive is posted when its slot's last message has been answered.
        receiving_(range.count, 1, 2),
        sending_(range.count, 1, 1) {}

  bool advance() override {
    receiving_.collect([&](const ticket& done) { received(done); });
    post_receives();
    sending_.collect([](const ticket&) {});
    if (may_send())
      sending_.refill([&](std::size_t, ticket& t) {
        watch_ = {};
        return pair_.post_send(step_, 0, t);
      });
    return receiving_.all_done() && sending_.all_done();
  }

 protected:
  bool gives() const override { return true; }
  bool gets() const override { return true; }
  void post_first() override { post_receives(); }

 private:
  void received(const ticket& done) {
    if (pair_.is_client()) times_.push_back(watch_.microseconds() / 2);
    expect_length(step_, done);
  }
  void post_receives() {
    receiving_.refill(
        [&](std::size_t slot, ticket& t) { return pair_.post_receive(step_, slot, t); });
  }
  // The client asks when the last question was answered, the server answers each.
  bool may_send() const {
    return sending_.posted() < receiving_.finished() + (pair_.is_client() ? 1 : 0);
  }

  pipeline receiving_;
  pipeline sending_;
  common::stopwatch watch_;
};

}  // namespace

std::unique_ptr<burst> make_ping_pong(pair& here, const step& s, const burst_range& range) {
  return std::make_unique<ping_pong>(here, s, range);
}

}  // namespace gaudi::perf
