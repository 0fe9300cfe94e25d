// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "reg/key_table.hpp"

#include <gtest/gtest.h>
#include <malloc.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <deque>

#include "../device/fake_driver.hpp"

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

// A table that counted those that went would double again and again.
TEST(key_table, takes_no_more_memory_for_regions_that_come_and_go) {
  const auto in_use = [] {
    const auto now = ::mallinfo2();
    return now.uordblks + now.hblkhd;
  };
  key_table table;
  region r = range(0x1000, 64, FI_REMOTE_READ, true);
  table.add_chosen_here(r);
  table.remove(r);
  const auto before = in_use();
  for (int i = 0; i < 300'000; ++i) {
    table.add_chosen_here(r);
    table.remove(r);
  }
  EXPECT_LT(in_use(), before + (1U << 20));
}

TEST(key_table, knows_each_of_many_through_growth) {
  key_table table;
  std::deque<region> all;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    all.push_back(range(i * 64, 64, FI_REMOTE_READ, true));
    if (i % 3 == 0) {
      table.add_chosen_here(all.back());
    } else {
      ASSERT_TRUE(table.add_requested(all.back(), i << 8));
    }
  }
  for (std::size_t i = 0; i < all.size(); i += 2) table.remove(all[i]);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto found = table.find(all[i].key, all[i].address, 64, FI_REMOTE_READ);
    ASSERT_EQ(static_cast<bool>(found), i % 2 == 1);
    if (found) {
      ASSERT_EQ(*found, &all[i]);
    }
  }
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

// A core registration that is not one: close and key are all that is asked of it.
struct fake_mr : fid_mr {
  explicit fake_mr(std::uint64_t k) : fid_mr{} {
    static fi_ops ops{.size = sizeof(fi_ops),
                      .close = [](fid_t) { return 0; },
                      .bind = nullptr,
                      .control = nullptr,
                      .ops_open = nullptr,
                      .tostr = nullptr,
                      .ops_set = nullptr};
    fid.ops = &ops;
    key = k;
  }
};

TEST(key_table, ranges_of_an_allocation_share_the_core_s_key) {
  fake_mr mr(77);
  registration_cache cache({});
  registration shared =
      cache.add({1, FI_REMOTE_READ}, 0x2000, core::inner_mr(core::unique_fid<fid_mr>(&mr)));
  // Only what is on a device shares; nothing of the device itself is asked for.
  auto* const somewhere = reinterpret_cast<device::device*>(&mr);
  key_table table;
  region a = range(0x1000, 100, FI_REMOTE_READ, true);
  region b = range(0x2000, 100, FI_REMOTE_READ, true);
  for (region* r : {&a, &b}) {
    r->owner = somewhere;
    r->by_key = cache.find({1, FI_REMOTE_READ});
    table.add_chosen_here(*r);
    EXPECT_EQ(r->key, 77U);
  }
  EXPECT_EQ(*table.find(77, 0x1000, 100, FI_REMOTE_READ), &a);
  EXPECT_EQ(*table.find(77, 0x2000, 100, FI_REMOTE_READ), &b);
  EXPECT_EQ(table.find(77, 0x1800, 1, FI_REMOTE_READ).code(), -FI_EACCES);
  table.remove(a);
  EXPECT_EQ(table.find(77, 0x1000, 100, FI_REMOTE_READ).code(), -FI_EACCES);
  EXPECT_EQ(*table.find(77, 0x2000, 100, FI_REMOTE_READ), &b);
}

TEST(region, on_a_device_is_reached_only_as_far_as_its_registration_goes) {
  fake_mr mr(5);
  test::fake_driver driver;
  const auto opened = device::device::open(driver.thunk(), {});
  ASSERT_TRUE(opened);
  region r = range(0x1000, 100, FI_SEND, true);
  r.owner = opened->get();
  EXPECT_EQ(r.core_for(0), nullptr);
  registration_cache cache({});
  r.transfers =
      cache.add({1, FI_REMOTE_READ}, 0x1000, core::inner_mr(core::unique_fid<fid_mr>(&mr)));
  r.transfer_access = FI_REMOTE_READ;
  EXPECT_EQ(r.core_for(0), r.transfers.get());
  EXPECT_EQ(r.core_for(FI_REMOTE_READ), r.transfers.get());
  EXPECT_EQ(r.core_for(FI_REMOTE_WRITE), nullptr);
  EXPECT_EQ(r.core_for_peers(), nullptr);
  r.access |= FI_REMOTE_READ;  // no more than what transfers need
  EXPECT_EQ(r.core_for_peers(), r.transfers.get());
  r.access |= FI_REMOTE_WRITE;
  EXPECT_EQ(r.core_for_peers(), nullptr);
  r.owner->lose(-FI_EIO, "of the test");
  EXPECT_EQ(r.core_for(0), nullptr) << "the NIC would read what is not there";
  r.leave_core();
  EXPECT_EQ(r.core_for(0), nullptr);
}

}  // namespace
}  // namespace gaudi::reg
