// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// An allocation that fails leaves tables as they were.
#include <gtest/gtest.h>
#include <rdma/fi_domain.h>

#include <deque>
#include <new>

#include "../base/scarce_memory.hpp"
#include "reg/key_table.hpp"
#include "reg/registration_cache.hpp"

namespace gaudi::reg {
namespace {

TEST(no_memory, for_more_keys_leaves_those_that_there_are) {
  key_table table;
  std::deque<region> regions;
  int refused = 0;
  for (std::uint64_t key = 1; key <= 300; ++key) {
    region& r = regions.emplace_back();
    r.address = 0x1000 * key;
    r.length = 64;
    r.access = FI_REMOTE_READ;
    r.virtual_address = true;
    try {
      const gaudi::test::scarce_memory none(0);
      EXPECT_TRUE(table.add_requested(r, key));
    } catch (const std::bad_alloc&) {
      ++refused;
    }
    for (std::uint64_t known = 1; known < key; ++known)
      ASSERT_TRUE(table.find(known, 0x1000 * known, 64, FI_REMOTE_READ)) << known << " of " << key;
    if (!table.find(key, r.address, 64, FI_REMOTE_READ)) {
      EXPECT_TRUE(table.add_requested(r, key));
    }
  }
  EXPECT_GE(refused, 3) << "the table has to grow";
  for (region& r : regions) table.remove(r);
}

TEST(no_memory, is_taken_by_registrations_that_come_where_as_many_have_gone) {
  registration_cache cache({.count = 8, .bytes = 100});
  const auto come_and_go = [&] {
    const registration used = cache.add({1, 0}, 1, {}, nullptr, retention::drop_on_last_use);
  };
  come_and_go();
  const gaudi::test::scarce_memory none(0);
  for (int i = 0; i < 1000; ++i) EXPECT_NO_THROW(come_and_go());
  EXPECT_EQ(cache.counters().made, 1001U);
}

}  // namespace
}  // namespace gaudi::reg
