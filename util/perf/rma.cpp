// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Writes and reads.
#include "burst.hpp"
#include "common/latency.hpp"
#include "pipeline.hpp"

namespace gaudi::perf {
namespace {

// One-sided: who does not act is done at once, and only polls until the sides meet. An operation's
// time is that to the completion, which for a write says that the bytes are visible at the target.
class rma_burst final : public burst {
 public:
  rma_burst(pair& here, const step& s, const burst_range& range)
      : burst(here, s, range),
        latency_(range.part == phase::latency),
        acts_(here.is_client() || (s.bidirectional && !latency_)),
        is_target_(!here.is_client() || (s.bidirectional && !latency_)),
        acting_(acts_ ? range.count : 0, latency_ ? 1 : s.window, latency_ ? 1 : s.slots) {}

  bool advance() override {
    acting_.collect([&](const ticket&) {
      if (latency_) times_.push_back(watch_.microseconds());
    });
    acting_.refill([&](std::size_t slot, ticket& t) {
      if (latency_) watch_ = {};
      const std::size_t place = slot * step_.size;
      return pair_.post_rma(step_, place, place, t);
    });
    return acting_.all_done();
  }

 protected:
  bool gives() const override { return step_.op == operation::write ? acts_ : is_target_; }
  bool gets() const override { return step_.op == operation::write ? is_target_ : acts_; }

 private:
  const bool latency_;
  const bool acts_;
  const bool is_target_;
  pipeline acting_;
  common::stopwatch watch_;
};

}  // namespace

std::unique_ptr<burst> make_rma(pair& here, const step& s, const burst_range& range) {
  return std::make_unique<rma_burst>(here, s, range);
}

}  // namespace gaudi::perf
