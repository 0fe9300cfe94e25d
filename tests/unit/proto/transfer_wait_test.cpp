// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What a transfer is shown to wait for, and which way it goes.
#include <gtest/gtest.h>

#include <array>

#include "proto/operation/buffer_pool.hpp"
#include "proto/transfer/operation_records.hpp"

namespace gaudi::proto {
namespace {

using base::outstanding::wait_reason;

TEST(transfer_wait, of_a_staged_sink_is_for_slots_and_then_for_data) {
  transfer t;
  t.strategy = transfer_strategy::recv_staged;
  t.slots.granted.begin(4096, 4096);
  EXPECT_EQ(wait_of(t, false), wait_reason::staging);
  std::array<std::byte, 64> area{};
  const auto slab = buffer_slab::over(area, posted_op::kind::chunk, 0);
  buffer slot(posted_op::kind::chunk, *slab, area.data());
  t.slots.granted.give(slot);
  EXPECT_EQ(wait_of(t, false), wait_reason::peer_data);
  EXPECT_EQ(wait_of(t, true), wait_reason::device_copy);
}

TEST(transfer_wait, of_one_that_moves_is_for_what_it_lacks) {
  transfer t;
  t.strategy = transfer_strategy::push;
  t.length = 8192;
  EXPECT_EQ(wait_of(t, false), wait_reason::room);
  t.moved.starved = true;
  EXPECT_EQ(wait_of(t, false), wait_reason::staging);
  t.slots.in_use = true;
  EXPECT_EQ(wait_of(t, false), wait_reason::peer_slots);
  t.moved.in_flight = 1;
  EXPECT_EQ(wait_of(t, false), wait_reason::network);
  t.moved.in_flight = 0;
  t.moved.issued = t.length;
  EXPECT_EQ(wait_of(t, false), wait_reason::peer_end);
}

TEST(transfer_wait, of_one_that_ends_is_for_its_last_operations_and_then_for_the_peer) {
  transfer t;
  t.strategy = transfer_strategy::pull;
  t.ending.begun = true;
  t.moved.in_flight = 1;
  EXPECT_EQ(wait_of(t, false), wait_reason::network);
  t.moved.in_flight = 0;
  EXPECT_EQ(wait_of(t, false), wait_reason::peer_end);
  t.flush.under_way = true;
  EXPECT_EQ(wait_of(t, false), wait_reason::network);
}

TEST(transfer_path, is_that_of_its_bytes) {
  using base::outstanding::path_kind;
  transfer t;
  EXPECT_EQ(path_of(t), path_kind::undecided);
  t.strategy = transfer_strategy::pull;
  EXPECT_EQ(path_of(t), path_kind::direct);
  t.strategy = transfer_strategy::copy_out;
  EXPECT_EQ(path_of(t), path_kind::packet);
  t.strategy = transfer_strategy::recv_staged;
  EXPECT_EQ(path_of(t), path_kind::staged);
  t.strategy = transfer_strategy::push;
  t.slots.in_use = true;
  EXPECT_EQ(path_of(t), path_kind::staged);
  t.slots.are_shared = true;
  EXPECT_EQ(path_of(t), path_kind::shared);
  t.pull.via_nic = true;
  EXPECT_EQ(path_of(t), path_kind::dmabuf);
  t.pull.via_copy_engine = true;
  EXPECT_EQ(path_of(t), path_kind::engine);
}

}  // namespace
}  // namespace gaudi::proto
