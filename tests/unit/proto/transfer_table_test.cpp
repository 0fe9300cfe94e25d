// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Transfers by id, and the lists that they stand in: without a core, without peers.
#include "proto/transfer/transfer_table.hpp"

#include <gtest/gtest.h>

namespace gaudi::proto {
namespace {

class transfers_by_id : public testing::Test {
 protected:
  ~transfers_by_id() override {
    // As when an endpoint closes: connections know of none any more.
    one_.transfers.clear();
    other_.transfers.clear();
    table_.destroy_all();
  }
  transfer& made(connection* c = nullptr) { return *table_.create(c, {}, {}); }

  peer peer_;
  connection one_{peer_, connection_state::connected};
  connection other_{peer_, connection_state::connected};
  transfer_table table_;
};

TEST_F(transfers_by_id, are_found_until_they_are_destroyed) {
  transfer& a = made();
  transfer& b = made(&one_);
  const auto id = a.id;
  EXPECT_NE(id, b.id);
  EXPECT_EQ(table_.find(id), &a);
  EXPECT_EQ(table_.size(), 2U);
  table_.destroy(a);
  EXPECT_EQ(table_.find(id), nullptr);
  EXPECT_EQ(table_.find(b.id), &b);
  EXPECT_EQ(table_.size(), 1U);
}

TEST_F(transfers_by_id, an_id_is_not_that_of_the_next_transfer_in_its_place) {
  transfer& first = made();
  const auto id = first.id;
  table_.destroy(first);
  made();
  EXPECT_EQ(table_.find(id), nullptr);
}

TEST_F(transfers_by_id, a_peer_names_those_of_its_connection_that_go_on) {
  transfer& t = made(&one_);
  EXPECT_EQ(table_.find_active(one_, t.id), &t);
  EXPECT_EQ(table_.find_active(other_, t.id), nullptr);
  t.ending.begun = true;
  EXPECT_EQ(table_.find_active(one_, t.id), nullptr);
  EXPECT_EQ(table_.find(t.id), &t);
}

TEST_F(transfers_by_id, stand_in_the_list_of_their_connection) {
  transfer& t = made(&one_);
  made();
  ASSERT_EQ(one_.transfers.size(), 1U);
  EXPECT_EQ(&one_.transfers.front(), &t);
  table_.destroy(t);
  EXPECT_TRUE(one_.transfers.empty());
}

TEST_F(transfers_by_id, are_stalled_once_and_in_their_order) {
  transfer& a = made();
  transfer& b = made();
  table_.stall(b);
  table_.stall(a);
  table_.stall(b);
  ASSERT_EQ(table_.stalled().size(), 2U);
  EXPECT_EQ(&table_.stalled().front(), &b);
  EXPECT_EQ(&table_.stalled().back(), &a);
}

TEST_F(transfers_by_id, leave_all_lists_when_they_are_destroyed) {
  transfer& t = made(&one_);
  table_.stall(t);
  table_.list_for_peer(t);
  table_.destroy(t);
  EXPECT_TRUE(table_.stalled().empty());
  EXPECT_TRUE(table_.for_peers().empty());
  EXPECT_TRUE(one_.transfers.empty());
}

// Later operations wait for as many as are counted: one that goes takes its part along.
TEST_F(transfers_by_id, hold_later_operations_up_no_longer_than_they_exist) {
  transfer& rest = made(&one_);
  transfer& blocks = made(&one_);
  rest.rma.partially_issued = true;
  blocks.rma.blocks_later = true;
  one_.rma_order.pending = 2;
  table_.destroy(rest);
  EXPECT_EQ(one_.rma_order.pending, 1U);
  table_.destroy(blocks);
  EXPECT_EQ(one_.rma_order.pending, 0U);
}

}  // namespace
}  // namespace gaudi::proto
