// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Chunks of a transfer where nothing is measured: within what the parameters allow, in whole pages,
// not so short that each one's cost shows, and decided once.
#include "proto/transfer/pipeline_planner.hpp"

#include <gtest/gtest.h>

#include <cstddef>

#include "../copy/fake_engine.hpp"

namespace gaudi::proto {
namespace {

struct nobody : device_copies::observer {
  void copied(buffer&) noexcept override {}
};

constexpr std::size_t page = 4096;
constexpr std::size_t one_mebibyte = std::size_t{1} << 20;

class unmeasured_transfers : public testing::Test {
 protected:
  unmeasured_transfers() {
    settings.staging_chunk = one_mebibyte;
    settings.staging_depth = 4;
  }
  /// Of host memory, for which no device has a table.
  transfer::pipeline_params plan(std::size_t length, bool shared = false) {
    transfer t;
    t.length = length;
    t.slots.are_shared = shared;
    return planner.params_of(t);
  }

  endpoint_settings settings;
  nobody observer;
  latency_sampler latencies{{}, nullptr};
  device_copies copies{{}, latencies, observer};
  pipeline_planner planner{settings, copies};
};

TEST_F(unmeasured_transfers, have_chunks_of_whole_pages_within_limits) {
  for (std::size_t length = 1; length < 64 * one_mebibyte; length += 1 + length / 7) {
    for (const bool shared : {false, true}) {
      const auto params = plan(length, shared);
      EXPECT_EQ(params.chunk % page, 0U) << length;
      EXPECT_GE(params.chunk, 64U << 10) << length;
      EXPECT_LE(params.chunk, settings.staging_chunk) << length;
      EXPECT_EQ(params.depth, settings.staging_depth) << length;
    }
  }
}

// The copies of both ends and the wire overlap for most of it.
TEST_F(unmeasured_transfers, have_many_chunks_where_they_are_long) {
  EXPECT_EQ(plan(8 * one_mebibyte).chunk, one_mebibyte / 2);
  EXPECT_EQ(plan(8 * one_mebibyte, true).chunk, one_mebibyte / 4);
  EXPECT_EQ(plan(8 * one_mebibyte + 16).chunk, one_mebibyte / 2 + page);
}

TEST_F(unmeasured_transfers, have_no_longer_chunks_than_a_slot_whatever_its_length) {
  settings.staging_chunk = 10'000;
  EXPECT_EQ(plan(8 * one_mebibyte).chunk, 10'000U);
  EXPECT_EQ(plan(1).chunk, 10'000U);
}

// Slots that are handed out are as long as was said first.
TEST_F(unmeasured_transfers, are_planned_once) {
  transfer t;
  t.length = 8 * one_mebibyte;
  const auto first = planner.params_of(t);
  t.length = 1;
  t.slots.are_shared = true;
  settings.staging_depth = 1;
  EXPECT_EQ(planner.params_of(t).chunk, first.chunk);
  EXPECT_EQ(planner.params_of(t).depth, first.depth);
}

TEST_F(unmeasured_transfers, within_a_device_go_in_long_parts) {
  transfer t;
  t.pull.via_copy_engine = true;
  t.length = 3 * one_mebibyte;
  EXPECT_EQ(planner.params_of(t).chunk, t.length);
  transfer longer;
  longer.pull.via_copy_engine = true;
  longer.length = 9 * one_mebibyte;
  EXPECT_EQ(planner.params_of(longer).chunk, 4 * one_mebibyte);
}

// What the user has said of the device decides.
TEST_F(unmeasured_transfers, of_a_device_go_by_its_table) {
  gaudi::test::fake_engine engine;
  const auto gaudi = engine.open();
  copy::engine_config config;
  config.table.calibrate = false;
  config.table.directions[0].chunk = 128 << 10;  // h2d
  device_copies with_table{{.engines = config}, latencies, observer};
  const pipeline_planner by_table{settings, with_table};
  transfer t;
  t.strategy = transfer_strategy::recv_staged;
  t.length = 8 * one_mebibyte;
  t.memory = local_memory::of({*gaudi->allocate(4096), 4096, nullptr, gaudi.get()});
  EXPECT_EQ(by_table.params_of(t).chunk, std::size_t{128} << 10);
  transfer out;
  out.strategy = transfer_strategy::push;
  out.length = t.length;
  out.memory = t.memory;
  EXPECT_EQ(by_table.params_of(out).chunk, one_mebibyte / 2) << "nothing is said of d2h";
}

}  // namespace
}  // namespace gaudi::proto
