// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/operation/buffer_pool.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

#include "../reg/fake_nic.hpp"
#include "core/loopback_connection.hpp"
#include "endpoint_node.hpp"

namespace gaudi::proto {
namespace {

class buffer_pools : public testing::Test {
 protected:
  std::vector<buffer*> take_all(buffer_pool& pool) {
    std::vector<buffer*> all;
    while (buffer* b = pool.acquire()) all.push_back(b);
    return all;
  }

  std::unique_ptr<core::inner_domain> core_ = test::loopback_domain();
};

TEST_F(buffer_pools, give_buffers_that_do_not_overlap_up_to_the_limit) {
  constexpr std::size_t size = 192;
  buffer_pool pool(*core_, posted_op::kind::message, size, 8, 24);
  EXPECT_EQ(pool.total(), 0U) << "nothing is taken before it is needed";
  const auto all = take_all(pool);
  ASSERT_EQ(all.size(), 24U);
  EXPECT_EQ(pool.total(), 24U);
  std::set<std::byte*> places;
  for (buffer* b : all) {
    EXPECT_EQ(b->what, posted_op::kind::message);
    std::memset(b->bytes, 0xAB, size);
    places.insert(b->bytes);
  }
  ASSERT_EQ(places.size(), all.size());
  std::byte* end = nullptr;
  for (std::byte* place : places) {
    EXPECT_GE(place, end);
    end = place + size;
  }
}

TEST_F(buffer_pools, take_back_and_give_again) {
  buffer_pool pool(*core_, posted_op::kind::chunk, 4096, 4, 4);
  auto all = take_all(pool);
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(pool.acquire(), nullptr);
  pool.release(*all[2]);
  EXPECT_EQ(pool.acquire(), all[2]);
  EXPECT_EQ(pool.acquire(), nullptr);
  EXPECT_EQ(pool.total(), 4U);
}

// Memory that is shared with a peer is its segment's to unmap.
TEST_F(buffer_pools, leave_memory_that_others_provide_as_it_is) {
  std::vector<std::byte> pages(3 * 4096);
  const auto first = reinterpret_cast<std::uintptr_t>(pages.data() + 4095) & ~std::uintptr_t{4095};
  auto* const area = reinterpret_cast<std::byte*>(first);
  { const auto slab = buffer_slab::over({area, 4096}, posted_op::kind::chunk, 1024); }
  std::memset(area, 1, 4096);
  EXPECT_EQ(area[4095], std::byte{1});
}

TEST_F(buffer_pools, are_known_to_the_core_slab_by_slab) {
  buffer_pool pool(*core_, posted_op::kind::chunk, 64, 4, 8);
  std::set<std::uint64_t> keys;
  for (const buffer* b : take_all(pool)) {
    EXPECT_NE(b->descriptor(), nullptr);
    keys.insert(b->key());
  }
  EXPECT_EQ(keys.size(), 2U) << "two slabs, one registration each";
}

// Messages of other peers are in them. Slots are for peers to write to, not to read.
TEST_F(buffer_pools, are_not_for_peers_to_read) {
  for (const std::uint64_t peers_may : {std::uint64_t{0}, std::uint64_t{FI_REMOTE_WRITE}}) {
    buffer_pool pool(*core_, posted_op::kind::receive, 64, 2, 2, peers_may);
    buffer* b = pool.acquire();
    ASSERT_NE(b, nullptr);
    std::memset(b->bytes, 7, 64);
    auto peer = core::loopback_connection::open(*core_);
    ASSERT_TRUE(peer);
    std::array<std::byte, 64> got{};
    EXPECT_FALSE((*peer)->read(got.data(), nullptr, got.size(),
                               reinterpret_cast<std::uint64_t>(b->bytes), b->key()));
    EXPECT_EQ(got, (std::array<std::byte, 64>{}));
  }
}

// Nor where the NIC copies from them to a device, over a connection that is like a peer's.
TEST(buffer_pool, asks_a_nic_that_reaches_devices_for_no_right_of_peers) {
  gaudi::test::fake_nic::knows_dmabufs = true;
  gaudi::test::fake_nic nic;
  ASSERT_TRUE(nic.core().takes_dmabufs());
  std::uint64_t access = 0;
  nic.made = [&](const auto& mr) { access = mr.access; };
  constexpr std::uint64_t remote = FI_REMOTE_READ | FI_REMOTE_WRITE;
  for (const std::uint64_t peers_may : {std::uint64_t{0}, std::uint64_t{FI_REMOTE_WRITE}}) {
    buffer_pool pool(nic.core(), posted_op::kind::receive, 64, 2, 2, peers_may);
    ASSERT_NE(pool.acquire(), nullptr);
    EXPECT_EQ(access & remote, peers_may);
    EXPECT_EQ(access & ~remote, FI_SEND | FI_RECV | FI_READ | FI_WRITE);
  }
  gaudi::test::fake_nic::knows_dmabufs = false;
}

TEST(buffer_pool, gives_all_of_it_back_when_it_is_told_and_takes_more_later) {
  gaudi::test::fake_nic nic;
  buffer_pool pool(nic.core(), posted_op::kind::message, 64, 2, 4);
  std::vector<buffer*> taken(3);
  for (buffer*& b : taken) ASSERT_NE(b = pool.acquire(), nullptr);
  EXPECT_EQ(nic.live(), 2U);
  for (buffer* b : taken) pool.release(*b);
  pool.free_all();
  EXPECT_EQ(nic.live(), 0U);
  EXPECT_EQ(pool.total(), 0U);
  EXPECT_NE(pool.acquire(), nullptr);
  EXPECT_EQ(nic.live(), 1U);
}

// More than the address space has.
TEST_F(buffer_pools, without_memory_give_nothing_and_try_again_later) {
  buffer_pool pool(*core_, posted_op::kind::chunk, std::size_t{1} << 60, 4, 8);
  EXPECT_EQ(pool.acquire(), nullptr);
  EXPECT_EQ(pool.acquire(), nullptr);
  EXPECT_EQ(pool.total(), 0U);
}

// The core hands back the address of the context; the work must be found from it.
TEST_F(buffer_pools, a_buffer_is_found_from_its_context) {
  buffer_pool pool(*core_, posted_op::kind::receive, 64, 2, 2);
  buffer* b = pool.acquire();
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(&posted_op::from_context(b->context()), static_cast<posted_op*>(b));
}

}  // namespace
}  // namespace gaudi::proto
