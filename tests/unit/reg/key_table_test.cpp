// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "reg/key_table.hpp"

#include <gtest/gtest.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

namespace gaudi::reg {
namespace {

region range(std::uint64_t address, std::size_t length, std::uint64_t access,
             bool virtual_address) {
  region r;
  r.address = address;
  r.length = length;
  r.access = access;
  r.virtual_address = virtual_address;
  return r;
}

TEST(key_table, keys_chosen_here_are_software_keys_without_a_core_registration) {
  key_table table;
  region a = range(0x1000, 64, FI_REMOTE_READ, true);
  region b = range(0x1000, 64, FI_REMOTE_READ, true);
  table.add_chosen_here(a);
  table.add_chosen_here(b);
  EXPECT_NE(a.key, b.key);
  EXPECT_TRUE(a.key & key_table::software_bit);
  EXPECT_TRUE(b.key & key_table::software_bit);
  EXPECT_EQ(*table.find(a.key, 0x1000, 64, FI_REMOTE_READ), &a);
}

TEST(key_table, requested_keys_are_the_application_s_and_unique) {
  key_table table;
  region a = range(0x1000, 64, FI_REMOTE_WRITE, false);
  region b = range(0x2000, 64, FI_REMOTE_WRITE, false);
  ASSERT_TRUE(table.add_requested(a, 5));
  EXPECT_EQ(a.key, 5U);
  EXPECT_EQ(table.add_requested(b, 5).code(), -FI_ENOKEY);
  table.remove(b);  // was never in: must not take a's place
  EXPECT_EQ(*table.find(5, 0, 64, FI_REMOTE_WRITE), &a);
  table.remove(a);
  EXPECT_EQ(table.find(5, 0, 64, FI_REMOTE_WRITE).code(), -FI_EACCES);
  EXPECT_TRUE(table.add_requested(b, 5));
}

TEST(key_table, a_peer_gets_only_what_was_registered) {
  for (const bool virtual_address : {true, false}) {
    key_table table;
    region r = range(0x1000, 100, FI_REMOTE_READ, virtual_address);
    ASSERT_TRUE(table.add_requested(r, 1));
    const std::uint64_t first = virtual_address ? 0x1000 : 0;
    EXPECT_TRUE(table.find(1, first, 100, FI_REMOTE_READ));
    EXPECT_TRUE(table.find(1, first + 99, 1, FI_REMOTE_READ));
    EXPECT_TRUE(table.find(1, first + 100, 0, FI_REMOTE_READ));
    EXPECT_EQ(table.find(1, first, 101, FI_REMOTE_READ).code(), -FI_EACCES);
    EXPECT_EQ(table.find(1, first + 1, 100, FI_REMOTE_READ).code(), -FI_EACCES);
    EXPECT_EQ(table.find(1, first + 101, 0, FI_REMOTE_READ).code(), -FI_EACCES);
    EXPECT_EQ(table.find(1, first - 1, 1, FI_REMOTE_READ).code(), -FI_EACCES);
    EXPECT_EQ(table.find(1, first, 1, FI_REMOTE_WRITE).code(), -FI_EACCES);
    EXPECT_EQ(table.find(2, first, 1, FI_REMOTE_READ).code(), -FI_EACCES);
  }
}

TEST(key_table, lengths_and_addresses_that_overflow_are_refused) {
  key_table table;
  region r = range(0x1000, 100, FI_REMOTE_READ, true);
  table.add_chosen_here(r);
  for (const std::uint64_t address :
       {std::uint64_t{0x1001}, UINT64_MAX, UINT64_MAX - 99, std::uint64_t{0}}) {
    EXPECT_EQ(table.find(r.key, address, SIZE_MAX, FI_REMOTE_READ).code(), -FI_EACCES);
    EXPECT_EQ(table.find(r.key, address, SIZE_MAX - 0x1000, FI_REMOTE_READ).code(), -FI_EACCES);
  }
  region offset = range(0x1000, 100, FI_REMOTE_READ, false);
  ASSERT_TRUE(table.add_requested(offset, 9));
  // 0x1000 + address wraps to just below the region.
  EXPECT_EQ(table.find(9, UINT64_MAX, 1, FI_REMOTE_READ).code(), -FI_EACCES);
}

}  // namespace
}  // namespace gaudi::reg
