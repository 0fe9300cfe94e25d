// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Which of an endpoint's operations are timed, and as what.
#include <array>
#include <optional>
#include <vector>

#include "peer_by_hand.hpp"
#include "proto/operation/latency_sampler.hpp"

namespace gaudi::proto {
namespace {

using base::counters::latency_histogram;
using timed_kind = latency_sampler::kind;

/// An endpoint whose times are wanted.
struct timed_endpoint {
  timed_endpoint() {
    for (std::size_t i = 0; i < kinds.size(); ++i) wanted.of_kind[i] = &kinds[i];
  }
  const latency_histograms* all() { return &wanted; }

  std::array<latency_histogram, base::counters::latency_names.size()> kinds{};
  latency_histograms wanted;
};

class operations_of_a_timed_endpoint : public testing::Test {
 protected:
  void SetUp() override {
    auto config = test::small_settings();
    config.kernel = nullptr;
    v.ep.emplace(*v.core, v.keys, v.devices, v.paths, v.goes_by_it(config), times.all());
    v.ep->use_addresses(v.addresses);
    v.ep->messages().use_queue(&v.queue, false);
    ASSERT_TRUE(v.ep->enable({}));
    p.emplace(v);
  }

  std::uint64_t count(timed_kind what) { return times.kinds[static_cast<std::size_t>(what)].count; }
  rma_access access() {
    const wire::segment there = p->expose(bytes);
    return {.target = p->address(),
            .address = there.address,
            .key = there.key,
            .completion = v.completion()};
  }
  local_memory here(std::size_t length) { return test::memory_of(mine.data(), length); }
  void finish() {
    p->settle();
    EXPECT_EQ(v.take().error, 0);
  }

  timed_endpoint times;
  std::vector<std::byte> bytes = test::counting(100);
  std::vector<std::byte> mine = std::vector<std::byte>(100);
  test::endpoint_by_itself v;
  std::optional<test::peer_by_hand> p;
};

TEST_F(operations_of_a_timed_endpoint, are_timed_as_what_they_are) {
  ASSERT_EQ(v.ep->write(here(8), access()), 0);
  finish();
  EXPECT_EQ(count(timed_kind::rma_write), 1U);
  EXPECT_EQ(count(timed_kind::rma_read), 0U);
  ASSERT_EQ(v.ep->read(here(100), access()), 0);
  finish();
  EXPECT_EQ(count(timed_kind::rma_read), 1U);
  EXPECT_EQ(mine, bytes);
  EXPECT_EQ(count(timed_kind::message), 0U);
  ASSERT_EQ(v.ep->send(here(8), {.to = p->address(), .completion = v.completion()}), 0);
  finish();
  EXPECT_EQ(count(timed_kind::message), 1U);
}

TEST_F(operations_of_a_timed_endpoint, are_timed_now_and_then) {
  // The first one is counted twice: as one that is timed, and for the next one.
  for (unsigned i = 0; i < latency_sampler::period - 1; ++i) {
    ASSERT_EQ(v.ep->read(here(100), access()), 0);
    finish();
    EXPECT_EQ(count(timed_kind::rma_read), 1U);
  }
  ASSERT_EQ(v.ep->read(here(100), access()), 0);
  finish();
  EXPECT_EQ(count(timed_kind::rma_read), 2U);
}

}  // namespace
}  // namespace gaudi::proto
