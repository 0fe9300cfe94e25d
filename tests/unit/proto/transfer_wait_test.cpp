// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What a transfer is shown to wait for, and which way it goes.
#include <gtest/gtest.h>
#include <rdma/fi_errno.h>
#include <unistd.h>

#include <array>
#include <cstdint>

#include "base/outstanding_page.hpp"
#include "device_by_hand.hpp"
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

TEST(transfer_wait, of_a_sink_that_has_begun_nothing_is_for_data) {
  transfer t;
  t.role = transfer_role::sink;
  EXPECT_EQ(wait_of(t, false), wait_reason::peer_data);
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

// A record has served another operation before.
TEST(transfer_record, says_of_its_own_device_whether_it_is_lost) {
  namespace outstanding = base::outstanding;
  const test::device_by_hand dev;
  operation_records records;
  records.open(base::clock(), 0);
  transfer on_device;
  on_device.memory = dev.part(64);
  dev.gaudi->lose(-FI_EIO, "of the test");
  records.begin(on_device);
  const std::uint32_t place = on_device.record.place();
  const auto flags = [place] {
    outstanding::record r{};
    const auto at = static_cast<off_t>(outstanding::header_size + place * sizeof r);
    EXPECT_EQ(::pread(outstanding::page::instance().fd(), &r, sizeof r, at),
              static_cast<ssize_t>(sizeof r));
    return r.flags;
  };
  EXPECT_EQ(flags(), outstanding::device_lost);
  records.end(on_device);
  transfer next;
  records.begin(next);
  ASSERT_EQ(next.record.place(), place);
  EXPECT_EQ(flags(), 0U);
}

}  // namespace
}  // namespace gaudi::proto
