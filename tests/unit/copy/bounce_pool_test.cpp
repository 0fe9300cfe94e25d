// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "copy/bounce_pool.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <set>
#include <vector>

#include "fake_engine.hpp"

namespace gaudi::copy {
namespace {

using testing::_;

constexpr bounce_pool::options small{.chunk_size = 8192, .chunks_per_slab = 4, .limit = 6};

TEST(bounce_pool, hands_out_distinct_aligned_chunks_up_to_the_limit) {
  bounce_pool pool(nullptr, small);
  std::set<std::byte*> seen;
  std::vector<bounce_pool::chunk*> held;
  for (int i = 0; i < 6; ++i) {
    held.push_back(pool.acquire());
    ASSERT_NE(held.back(), nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(held.back()->host) % 4096, 0U);
    EXPECT_EQ(held.back()->size, 8192U);
    EXPECT_EQ(held.back()->device_va, 0U) << "of no device";
    EXPECT_TRUE(seen.insert(held.back()->host).second);
    std::fill_n(held.back()->host, held.back()->size, std::byte(i));
  }
  EXPECT_EQ(pool.acquire(), nullptr);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(held[static_cast<unsigned>(i)]->host[8191], std::byte(i));
  pool.release(held[2]);
  EXPECT_EQ(pool.in_use(), 5U);
  EXPECT_EQ(pool.acquire(), held[2]);
  for (auto* each : held) pool.release(each);
}

TEST(bounce_pool, maps_each_slab_once_and_shows_it_to_the_owner) {
  test::fake_engine fake;
  int shown = 0, taken = 0;
  {
    bounce_pool pool(fake.open(), small,
                     {.on_slab = [&](std::byte*, std::size_t) -> base::result<void*> {
                        EXPECT_EQ(fake.host_maps, shown + 1);
                        ++shown;
                        return static_cast<void*>(&shown);
                      },
                      .off_slab =
                          [&](void* cookie) {
                            EXPECT_EQ(cookie, &shown);
                            EXPECT_EQ(fake.host_maps, 2);  // still mapped
                            ++taken;
                          }});
    EXPECT_EQ(shown, 0);  // on demand
    std::vector<bounce_pool::chunk*> held;
    while (auto* chunk = pool.acquire()) held.push_back(chunk);
    EXPECT_EQ(held.size(), 6U);
    EXPECT_EQ(shown, 2);
    for (auto* each : held) {
      EXPECT_EQ(each->cookie, &shown);
      EXPECT_EQ(each->device_va, reinterpret_cast<std::uintptr_t>(each->host));
      pool.release(each);
    }
  }
  EXPECT_EQ(taken, 2);
  EXPECT_EQ(fake.host_maps, 0);
}

TEST(bounce_pool, goes_on_with_what_it_has_when_the_owner_refuses_a_slab) {
  bool refuse = false;
  bounce_pool pool(nullptr, small,
                   {.on_slab = [&](std::byte*, std::size_t) -> base::result<void*> {
                      if (refuse) return base::error{-FI_ENOMEM};
                      return static_cast<void*>(nullptr);
                    },
                    .off_slab = {}});
  std::vector<bounce_pool::chunk*> held;
  for (int i = 0; i < 4; ++i) held.push_back(pool.acquire());
  refuse = true;
  EXPECT_EQ(pool.acquire(), nullptr);
  refuse = false;
  held.push_back(pool.acquire());
  EXPECT_NE(held.back(), nullptr);
  for (auto* each : held) pool.release(each);
}

// The descriptor may be its successor's by then.
TEST(bounce_pool, leaves_the_mappings_of_a_lost_device_to_its_driver) {
  test::fake_engine fake;
  const auto owner = fake.open();
  bounce_pool pool(owner, small);
  pool.release(pool.acquire());
  owner->lose(-FI_EIO, "of the test");
  EXPECT_CALL(fake.driver.library, memory_unmap(_, _)).Times(0);
}

TEST(bounce_pool, is_empty_handed_when_the_device_cannot_map) {
  test::fake_engine fake;
  EXPECT_CALL(fake.driver.library, host_memory_map(_, _, _, _))
      .WillOnce(testing::SetErrnoAndReturn(ENOMEM, 0));
  bounce_pool pool(fake.open(), small);
  EXPECT_EQ(pool.acquire(), nullptr);
}

}  // namespace
}  // namespace gaudi::copy
