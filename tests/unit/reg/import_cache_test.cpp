// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What a domain keeps of the dma-bufs that peers passed, with a NIC that takes them in name only.
#include "reg/import_cache.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <rdma/fi_errno.h>
#include <sys/mman.h>

#include <cerrno>
#include <map>
#include <random>
#include <set>

#include "base/scoped_fd.hpp"
#include "fake_nic.hpp"

namespace gaudi::reg {
namespace {

constexpr cache_limits ample{.count = 1000, .bytes = 1ULL << 50};
constexpr std::uint64_t base_address = 0x1001001800000000;

base::scoped_fd new_file() {
  return base::scoped_fd(::memfd_create("a dma-buf", MFD_CLOEXEC));
}

/// An allocation as a peer passes it.
struct passed {
  import_key name;
  std::uint64_t length = 4096;
  base::scoped_fd file = new_file();
  [[nodiscard]] core::dmabuf_range range() const {
    return {.fd = file.get(),
            .offset = name.allocation << 20,
            .length = length,
            .base_addr = base_address};
  }
  [[nodiscard]] std::uint64_t first() const { return base_address + (name.allocation << 20); }
};

struct import_cache_ : testing::Test {
  explicit import_cache_(cache_limits limits = ample) : cache(nic.core(), limits) {}
  ~import_cache_() override {
    cache.clear();
    EXPECT_EQ(nic.live(), 0U);
  }
  import_cache::handle add(const passed& p) {
    auto added = cache.add(p.name, p.range());
    EXPECT_TRUE(added);
    return added ? *added : nullptr;
  }

  test::fake_nic nic;
  import_cache cache;
};

TEST_F(import_cache_, keeps_what_came_for_the_next_transfer) {
  const passed p{.name = {1, 2}};
  EXPECT_EQ(cache.find(p.name), nullptr);
  auto used = add(p);
  EXPECT_EQ(used->first, p.first());
  EXPECT_TRUE(used->holds(p.first() + 10, 4086));
  EXPECT_FALSE(used->holds(p.first() + 10, 4087));
  EXPECT_FALSE(used->holds(p.first() - 1, 2));
  EXPECT_TRUE(used->holds(p.first(), 4096));
  EXPECT_FALSE(used->holds(p.first(), 4097));
  used.reset();
  EXPECT_NE(cache.find(p.name), nullptr);
  EXPECT_EQ(add(p), cache.find(p.name)) << "the same file again";
  EXPECT_EQ(nic.asked(), 1U);
}

TEST_F(import_cache_, knows_each_peer_s_numbers_apart) {
  const passed of_one{.name = {1, 7}};
  add(of_one);
  EXPECT_EQ(cache.find({2, 7}), nullptr);
  EXPECT_EQ(cache.find({1, 8}), nullptr);
}

TEST_F(import_cache_, takes_another_file_under_a_known_name_for_the_truth) {
  const passed before{.name = {1, 1}};
  const auto old = add(before);
  const passed now{.name = {1, 1}, .length = 8192};
  EXPECT_EQ(add(now)->length, 8192U);
  EXPECT_EQ(cache.find({1, 1})->length, 8192U);
  EXPECT_EQ(nic.live(), 2U) << "who used the old one still does";
}

TEST_F(import_cache_, ends_freed_memory_with_its_last_user) {
  const passed p{.name = {1, 1}};
  auto used = add(p);
  cache.forget(p.name);
  EXPECT_EQ(cache.find(p.name), nullptr);
  EXPECT_EQ(nic.live(), 1U);
  used.reset();
  EXPECT_EQ(nic.live(), 0U);
  cache.forget(p.name);
}

TEST_F(import_cache_, has_all_its_room_again_when_it_was_cleared) {
  import_cache small(nic.core(), {.count = 8, .bytes = 8192});
  for (int round = 0; round < 3; ++round) {
    const passed one{.name = {1, 1}}, other{.name = {1, 2}};
    EXPECT_EQ(small.find(one.name), nullptr);
    for (const passed* each : {&one, &other}) ASSERT_TRUE(small.add(each->name, each->range()));
    EXPECT_NE(small.find(one.name), nullptr);
    EXPECT_NE(small.find(other.name), nullptr);
    EXPECT_EQ(small.count(), 2U);
    small.clear();
    EXPECT_EQ(small.count(), 0U);
    EXPECT_EQ(nic.live(), 0U);
  }
}

TEST_F(import_cache_, ends_all_of_a_peer_that_goes_and_nobody_else_s) {
  for (const std::uint64_t peer : {1, 2, 3})
    for (const std::uint64_t allocation : {0, 1, 1000}) add({.name = {peer, allocation}});
  cache.forget_peer(2);
  EXPECT_EQ(cache.count(), 6U);
  EXPECT_EQ(nic.live(), 6U);
  EXPECT_EQ(cache.find({2, 1000}), nullptr);
  EXPECT_NE(cache.find({1, 1000}), nullptr);
  EXPECT_NE(cache.find({3, 0}), nullptr);
}

TEST_F(import_cache_, makes_room_and_tries_again_when_the_nic_is_full) {
  const auto used = add({.name = {1, 1}});
  add({.name = {1, 2}});
  add({.name = {1, 3}});
  nic.refuse = [&] { return nic.live() >= 2 ? -FI_ENOMEM : 0; };
  EXPECT_TRUE(cache.add({1, 4}, passed{.name = {1, 4}}.range()));
  EXPECT_EQ(cache.count(), 2U) << "what is used, and the new one";
  nic.refuse = [] { return -FI_ENOMEM; };
  EXPECT_EQ(cache.add({1, 5}, passed{.name = {1, 5}}.range()).code(), -FI_ENOMEM);
  EXPECT_NE(cache.find({1, 1}), nullptr);
}

TEST_F(import_cache_, tells_why_the_nic_refuses) {
  nic.refuse = [] { return -FI_EOPNOTSUPP; };
  EXPECT_EQ(cache.add({1, 1}, passed{.name = {1, 1}}.range()).code(), -FI_EOPNOTSUPP);
  core::dmabuf_range closed = passed{.name = {1, 1}}.range();
  closed.fd = -1;
  EXPECT_EQ(cache.add({1, 1}, closed).code(), -EBADF);
  EXPECT_EQ(cache.count(), 0U);
}

TEST_F(import_cache_, ends_the_least_recently_used_first) {
  import_cache small(nic.core(), {.count = 2, .bytes = 1ULL << 50});
  const passed one{.name = {1, 1}}, other{.name = {1, 2}}, third{.name = {1, 3}};
  for (const passed* each : {&one, &other}) ASSERT_TRUE(small.add(each->name, each->range()));
  EXPECT_NE(small.find(one.name), nullptr);
  ASSERT_TRUE(small.add(third.name, third.range()));
  EXPECT_EQ(small.find(other.name), nullptr);
  EXPECT_NE(small.find(one.name), nullptr);
  EXPECT_NE(small.find(third.name), nullptr);
}

struct limited : import_cache_, testing::WithParamInterface<std::size_t> {
  limited() : import_cache_({.count = GetParam(), .bytes = 1ULL << 50}) {}
};

TEST_P(limited, keeps_no_more_than_it_may_and_the_latest_of_these) {
  for (std::uint64_t allocation = 1; allocation <= 10; ++allocation) {
    EXPECT_NE(add({.name = {1, allocation}}), nullptr);
    EXPECT_LE(nic.live(), GetParam());
  }
  for (std::uint64_t allocation = 1; allocation <= 10; ++allocation)
    EXPECT_EQ(cache.find({1, allocation}) != nullptr, allocation > 10 - GetParam()) << allocation;
}

INSTANTIATE_TEST_SUITE_P(counts, limited, testing::Values(0, 1, 2));

TEST_F(import_cache_, keeps_one_that_takes_all_the_room_and_none_that_takes_more) {
  import_cache small(nic.core(), {.count = 8, .bytes = 8192});
  const passed whole{.name = {1, 1}, .length = 8192}, more{.name = {1, 2}, .length = 8193};
  for (const passed* each : {&whole, &more}) EXPECT_TRUE(small.add(each->name, each->range()));
  EXPECT_NE(small.find(whole.name), nullptr);
  EXPECT_EQ(small.find(more.name), nullptr);
}

// Peers that allocate, send, free and go as they like, and a NIC that is full now and then: what a
// transfer gets is always the allocation that it names.
TEST(import_cache_model, never_gives_another_allocation_s_memory) {
  constexpr int rounds = 200'000;
  test::fake_nic nic;
  import_cache cache(nic.core(), {.count = 12, .bytes = 64 << 20});
  std::mt19937_64 random(7);
  nic.refuse = [&] { return random() % 50 == 0 ? -FI_ENOMEM : 0; };
  std::map<std::uint64_t, std::map<std::uint64_t, passed>> peers;  // alive, with what they have
  std::uint64_t last = 0;
  std::vector<std::pair<const passed*, import_cache::handle>> in_use;
  std::uint64_t served = 0;
  for (int i = 0; i < rounds; ++i) {
    const std::uint64_t who = random() % 4;
    auto& has = peers[who];
    const auto dice = random() % 1000;
    if (has.size() < 8 && dice < 200) {
      ++last;
      has.emplace(last, passed{.name = {who, last}, .length = 4096 * (1 + random() % 4000)});
    } else if (dice < 202) {
      in_use.clear();
      has.clear();
      cache.forget_peer(who);
    } else if (dice < 350 && !has.empty()) {
      in_use.clear();
      const auto freed = std::next(has.begin(), static_cast<long>(random() % has.size()));
      cache.forget(freed->second.name);
      has.erase(freed);
    } else if (!has.empty()) {
      const auto sent = std::next(has.begin(), static_cast<long>(random() % has.size()));
      const passed& p = sent->second;
      auto got = cache.find(p.name);
      if (!got) {
        if (auto added = cache.add(p.name, p.range())) got = *added;
      }
      if (!got) continue;
      ASSERT_EQ(got->first, p.first()) << "round " << i;
      ASSERT_EQ(got->length, p.length) << "round " << i;
      in_use.emplace_back(&p, got);
      if (in_use.size() > 3) in_use.erase(in_use.begin());
      ++served;
    }
    ASSERT_LE(cache.count(), 12U + in_use.size());
    ASSERT_LE(nic.live(), cache.count() + in_use.size());
    for (const auto& [p, memory] : in_use) ASSERT_EQ(memory->first, p->first());
  }
  EXPECT_GT(served, static_cast<std::uint64_t>(rounds) / 2);
  in_use.clear();
  cache.clear();
  EXPECT_EQ(nic.live(), 0U);
}

}  // namespace
}  // namespace gaudi::reg
