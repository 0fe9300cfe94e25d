// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/operation/latency_sampler.hpp"

#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include <vector>

namespace gaudi::proto {
namespace {

using base::counters::latency_histogram;
using kind = latency_sampler::kind;
using stream = latency_sampler::stream;

struct driven : base::clock::source {
  base::clock::time_point now() noexcept override {
    ++reads;
    return time;
  }
  base::clock::time_point time{std::chrono::hours(1)};
  int reads = 0;
};

class latencies : public testing::Test {
 protected:
  latencies() {
    for (std::size_t i = 0; i < kinds.size(); ++i) histograms.of_kind[i] = &kinds[i];
  }

  latency_histogram& of(kind what) { return kinds[static_cast<std::size_t>(what)]; }
  void pass(std::uint64_t nanoseconds) { machine.time += std::chrono::nanoseconds(nanoseconds); }
  completion_spec timed(kind what = kind::message) {
    completion_spec completion;
    sampler.begin(stream::send, what, completion);
    return completion;
  }

  driven machine;
  std::array<latency_histogram, base::counters::latency_names.size()> kinds{};
  latency_histograms histograms;
  latency_sampler sampler{base::clock(machine), &histograms};
};

TEST_F(latencies, are_of_the_first_operation_and_one_in_a_period) {
  std::vector<std::uint32_t> due;
  for (std::uint32_t i = 0; i < 3 * latency_sampler::period; ++i)
    if (sampler.is_due(stream::write)) {
      due.push_back(i);
      completion_spec completion;
      sampler.begin(stream::write, kind::rma_write, completion);
    }
  EXPECT_EQ(due, (std::vector{0U, latency_sampler::period, 2 * latency_sampler::period}));
}

TEST_F(latencies, are_counted_for_each_stream_by_itself) {
  EXPECT_TRUE(sampler.is_due(stream::send));
  timed();
  EXPECT_FALSE(sampler.is_due(stream::send));
  for (const stream s : {stream::receive, stream::write, stream::read, stream::copy})
    EXPECT_TRUE(sampler.is_due(s));
}

TEST_F(latencies, last_from_the_post_to_the_end) {
  const completion_spec completion = timed(kind::rma_read);
  pass(5000);
  completion.end({});
  EXPECT_EQ(of(kind::rma_read).count, 1U);
  EXPECT_EQ(of(kind::rma_read).sum, 5000U);
  EXPECT_EQ(of(kind::rma_read).buckets[latency_histogram::bucket_for(5000)], 1U);
  EXPECT_EQ(of(kind::message).count, 0U);
}

TEST_F(latencies, of_several_operations_are_told_apart) {
  const completion_spec first = timed();
  pass(100);
  const completion_spec second = timed();
  pass(10);
  second.end({});
  EXPECT_EQ(of(kind::message).sum, 10U);
  first.end({});
  EXPECT_EQ(of(kind::message).sum, 120U);
}

TEST_F(latencies, of_a_message_that_turns_out_long_are_those_of_a_rendezvous) {
  const completion_spec completion = timed();
  latency_sampler::become_rendezvous(completion);
  completion.end({});
  EXPECT_EQ(of(kind::rendezvous_send).count, 1U);
  EXPECT_EQ(of(kind::message).count, 0U);
  latency_sampler::become_rendezvous({});
}

TEST_F(latencies, leave_out_what_fails_and_what_was_not_begun) {
  timed().end({.error = FI_ECONNRESET});
  completion_spec refused = timed();
  latency_sampler::drop(refused);
  EXPECT_EQ(refused.hook, nullptr);
  EXPECT_EQ(of(kind::message).count, 0U);
}

TEST_F(latencies, need_a_sample_that_is_not_in_use) {
  std::vector<completion_spec> under_way;
  for (std::size_t i = 0; i < latency_sampler::max_samples; ++i) under_way.push_back(timed());
  EXPECT_NE(under_way.back().hook, nullptr);
  EXPECT_EQ(timed().hook, nullptr);
  under_way[0].end({});
  EXPECT_NE(timed().hook, nullptr) << "the end of one gives its sample back";
  latency_sampler::drop(under_way[1]);
  EXPECT_NE(timed().hook, nullptr) << "and so does what was not begun";
  under_way[2].end({.error = FI_EIO});
  EXPECT_NE(timed().hook, nullptr) << "and a failure";
}

TEST_F(latencies, of_an_operation_that_is_refused_are_not_taken) {
  struct params {
    completion_spec completion;
  };
  completion_spec seen;
  const auto post_with = [&](int ret) {
    return sampler.post(stream::read, kind::rma_read, params{}, [&](const params& timed) {
      seen = timed.completion;
      return ret;
    });
  };
  for (std::size_t i = 0; i < 2 * latency_sampler::max_samples; ++i)
    EXPECT_EQ(post_with(-FI_EAGAIN), -FI_EAGAIN);
  EXPECT_NE(seen.hook, nullptr) << "and none of them keeps a sample";
  EXPECT_EQ(post_with(0), 0);
  seen.end({});
  EXPECT_EQ(of(kind::rma_read).count, 1U);
}

struct other_hook final : completion_hook {
  virtual ~other_hook() = default;
  bool operation_ended(cq_entry&) noexcept override {
    ++ends;
    return true;
  }
  int ends = 0;
};

TEST_F(latencies, take_no_hook_away) {
  other_hook own;
  completion_spec completion;
  completion.hook = &own;
  sampler.begin(stream::receive, kind::rendezvous_receive, completion);
  completion.end({});
  EXPECT_EQ(own.ends, 1);
  EXPECT_EQ(of(kind::rendezvous_receive).count, 0U);
}

TEST_F(latencies, tell_of_no_success_that_nobody_asked_for) {
  completion_queue queue(4);
  completion_spec completion = timed();
  completion.queue = &queue;
  completion.end({});
  EXPECT_TRUE(queue.empty());
  completion_spec wanted = timed();
  wanted.queue = &queue;
  wanted.report = true;
  wanted.end({});
  EXPECT_FALSE(queue.empty());
}

TEST_F(latencies, of_copies_have_no_completion) {
  EXPECT_TRUE(sampler.is_due(stream::copy));
  const auto began = sampler.begin(stream::copy);
  pass(300);
  sampler.end(kind::device_copy, began);
  EXPECT_EQ(of(kind::device_copy).sum, 300U);
}

TEST_F(latencies, are_not_taken_where_nobody_sees_them) {
  latency_sampler off(base::clock(machine), nullptr);
  completion_spec completion;
  EXPECT_TRUE(off.is_due(stream::send)) << "once";
  off.begin(stream::send, kind::message, completion);
  EXPECT_EQ(completion.hook, nullptr);
  for (std::uint32_t i = 0; i < 4 * latency_sampler::period; ++i)
    EXPECT_FALSE(off.is_due(stream::send));
  EXPECT_EQ(off.begin(stream::copy), base::clock::time_point{});
  EXPECT_EQ(machine.reads, 0) << "the clock is not asked";
}

}  // namespace
}  // namespace gaudi::proto
