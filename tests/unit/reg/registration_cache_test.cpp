// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "reg/registration_cache.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

namespace gaudi::reg {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::uint64_t> ended;  // keys, in this order

/// A core registration that tells its end.
core::inner_mr registered(std::uint64_t key) {
  static fi_ops ops{.size = sizeof(fi_ops),
                    .close =
                        [](fid_t f) {
                          const std::unique_ptr<fid_mr> mr(reinterpret_cast<fid_mr*>(f));
                          ended.push_back(mr->key);
                          return 0;
                        },
                    .bind = nullptr,
                    .control = nullptr,
                    .ops_open = nullptr,
                    .tostr = nullptr,
                    .ops_set = nullptr};
  auto mr = std::make_unique<fid_mr>();
  mr->fid.ops = &ops;
  mr->key = key;
  return core::inner_mr(core::unique_fid<fid_mr>(mr.release()));
}

class caching : public testing::Test {
 protected:
  caching() { ended.clear(); }

  /// Uses a registration of `bytes` for a moment; its key is its generation.
  static void use(registration_cache& cache, std::uint64_t generation, std::uint64_t bytes = 1) {
    if (!cache.find({generation, 0})) cache.add({generation, 0}, bytes, registered(generation));
  }
};

TEST_F(caching, serves_the_next_user_with_what_the_last_one_left) {
  registration_cache cache({.count = 8, .bytes = 100});
  EXPECT_FALSE(cache.find({1, 0}));
  auto first = cache.add({1, 0}, 40, registered(1));
  auto second = cache.find({1, 0});
  EXPECT_EQ(first.get(), second.get());
  first.reset();
  EXPECT_EQ(cache.counters().idle, 0U);
  second.reset();
  EXPECT_EQ(cache.counters().idle, 1U);
  EXPECT_EQ(cache.counters().idle_bytes, 40U);
  auto third = cache.find({1, 0});
  EXPECT_EQ(third->key(), 1U);
  EXPECT_EQ(cache.counters().idle_bytes, 0U);
  EXPECT_THAT(ended, IsEmpty());
  EXPECT_EQ(cache.counters().hits, 2U);
  EXPECT_EQ(cache.counters().misses, 1U);
  EXPECT_EQ(cache.counters().made, 1U);
}

TEST_F(caching, tells_accesses_apart) {
  registration_cache cache({.count = 8, .bytes = 100});
  use(cache, 1);
  EXPECT_FALSE(cache.find({1, FI_REMOTE_READ}));
  EXPECT_FALSE(cache.find({1, FI_REMOTE_WRITE}));
  EXPECT_FALSE(cache.find({2, 0}));
}

TEST_F(caching, keeps_as_many_as_it_may) {
  for (const std::size_t limit : {0U, 1U, 2U, 3U}) {
    ended.clear();
    registration_cache cache({.count = limit, .bytes = 100});
    for (std::uint64_t g = 1; g <= 5; ++g) use(cache, g);
    EXPECT_EQ(cache.counters().idle, limit);
    EXPECT_EQ(ended.size(), 5 - limit);
    for (std::size_t i = 0; i < ended.size(); ++i) EXPECT_EQ(ended[i], i + 1) << limit;
    EXPECT_EQ(cache.counters().evictions, limit == 0 ? 0 : 5 - limit) << "with 0 nothing is kept";
    for (std::uint64_t g = 5; g > 5 - limit; --g) EXPECT_TRUE(cache.find({g, 0})) << limit;
  }
}

TEST_F(caching, keeps_as_many_bytes_as_it_may) {
  for (const std::uint64_t limit : {0U, 1U, 2U, 3U}) {
    ended.clear();
    registration_cache cache({.count = 100, .bytes = limit});
    for (std::uint64_t g = 1; g <= 5; ++g) use(cache, g);
    EXPECT_EQ(cache.counters().idle_bytes, limit);
    EXPECT_EQ(ended.size(), 5 - limit);
  }
}

TEST_F(caching, makes_room_for_a_large_one) {
  registration_cache cache({.count = 100, .bytes = 10});
  for (std::uint64_t g = 1; g <= 5; ++g) use(cache, g, 2);
  use(cache, 6, 7);
  EXPECT_THAT(ended, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(cache.counters().idle_bytes, 9U);
}

TEST_F(caching, drives_nobody_out_for_one_that_is_too_large) {
  registration_cache cache({.count = 100, .bytes = 10});
  use(cache, 1, 5);
  use(cache, 2, 11);
  EXPECT_THAT(ended, ElementsAre(2));
  use(cache, 3, UINT64_MAX);
  EXPECT_THAT(ended, ElementsAre(2, 3));
  EXPECT_EQ(cache.counters().evictions, 0U);
}

TEST_F(caching, ends_the_least_recently_used_first) {
  registration_cache cache({.count = 3, .bytes = 100});
  for (const std::uint64_t g : {1, 2, 3, 1, 4, 2, 5}) use(cache, g);
  EXPECT_THAT(ended, ElementsAre(2, 3, 1));
  EXPECT_TRUE(cache.evict_oldest());
  EXPECT_TRUE(cache.evict_oldest());
  EXPECT_TRUE(cache.evict_oldest());
  EXPECT_THAT(ended, ElementsAre(2, 3, 1, 4, 2, 5));
  EXPECT_FALSE(cache.evict_oldest());
  EXPECT_EQ(cache.counters().evictions, 6U);
  EXPECT_EQ(cache.counters().idle, 0U);
}

TEST_F(caching, ends_nothing_that_has_a_user) {
  registration_cache cache({.count = 1, .bytes = 1});
  const auto a = cache.add({1, 0}, 50, registered(1));
  const auto b = cache.add({2, 0}, 50, registered(2));
  use(cache, 3);
  EXPECT_TRUE(cache.evict_oldest());
  EXPECT_FALSE(cache.evict_oldest());
  cache.forget_idle();
  EXPECT_THAT(ended, ElementsAre(3));
}

TEST_F(caching, forgets_all_of_one_allocation) {
  registration_cache cache({.count = 100, .bytes = 100});
  std::uint64_t key = 1;
  for (const std::uint64_t generation : {7, 8})
    for (const std::uint64_t access : {0ULL, FI_REMOTE_READ, FI_REMOTE_WRITE})
      cache.add({generation, access}, 1, registered(key++));
  cache.add({7, FI_REMOTE_READ | FI_REMOTE_WRITE}, 1, registered(key));
  cache.forget(7);
  EXPECT_THAT(ended, testing::UnorderedElementsAre(1, 2, 3, 7));
  EXPECT_EQ(cache.counters().idle, 3U);
  EXPECT_EQ(cache.counters().evictions, 0U);
  EXPECT_FALSE(cache.find({7, 0}));
  EXPECT_TRUE(cache.find({8, 0}));
  cache.forget(7);
  cache.forget(99);
  EXPECT_EQ(ended.size(), 4U);
}

TEST_F(caching, ends_what_it_keeps_with_itself) {
  {
    registration_cache cache({.count = 100, .bytes = 100});
    use(cache, 1);
    use(cache, 2);
    cache.forget_idle();
    EXPECT_THAT(ended, ElementsAre(1, 2));
    use(cache, 3);
  }
  EXPECT_THAT(ended, ElementsAre(1, 2, 3));
}

TEST_F(caching, users_may_be_moved) {
  registration_cache cache({});
  auto a = cache.add({1, 0}, 1, registered(1));
  registration b = std::move(a);
  EXPECT_EQ(b->key(), 1U);
  registration c;
  EXPECT_FALSE(c);
  EXPECT_EQ(c.get(), nullptr);
  c = std::move(b);
  EXPECT_EQ(c->key(), 1U);
  c = {};
  EXPECT_THAT(ended, ElementsAre(1));
}

TEST_F(caching, ends_what_is_not_to_be_kept_with_its_last_user) {
  registration_cache cache({.count = 8, .bytes = 100});
  auto first = cache.add({1, 0}, 1, registered(1), nullptr, retention::drop_on_last_use);
  auto second = cache.find({1, 0});
  EXPECT_EQ(first.get(), second.get());
  first.reset();
  EXPECT_THAT(ended, IsEmpty());
  second.reset();
  EXPECT_THAT(ended, ElementsAre(1));
  EXPECT_FALSE(cache.find({1, 0}));
  EXPECT_EQ(cache.counters().idle, 0U);
  EXPECT_EQ(cache.counters().hits, 1U) << "those of what has ended count, too";
}

TEST_F(caching, shows_others_what_it_has) {
  published_counters seen;
  const auto shows = [&](std::uint64_t misses, std::uint64_t made, std::uint64_t evictions,
                         std::uint64_t cached, std::uint64_t bytes) {
    EXPECT_EQ(seen.misses, misses);
    EXPECT_EQ(seen.made, made);
    EXPECT_EQ(seen.evictions, evictions);
    EXPECT_EQ(seen.cached, cached);
    EXPECT_EQ(seen.cached_bytes, bytes);
  };
  registration_cache cache({.count = 3, .bytes = 100}, &seen);
  cache_counters part;
  use(cache, 1, 10);
  shows(1, 1, 0, 1, 10);
  cache.add({2, 0}, 20, registered(2), &part);
  shows(1, 2, 0, 2, 30);
  cache.add({3, 0}, 5, registered(3), nullptr, retention::drop_on_last_use);
  shows(1, 3, 0, 2, 30);
  cache.forget(1);
  shows(1, 3, 0, 1, 20);
  use(cache, 4, 30);
  use(cache, 5, 30);
  shows(3, 5, 0, 3, 80);
  use(cache, 6, 10);
  shows(4, 6, 1, 3, 70);
}

TEST_F(caching, shows_no_more_what_its_users_alone_keep) {
  published_counters seen;
  registration_cache cache({.count = 3, .bytes = 100}, &seen);
  cache_counters part;
  auto used = cache.add({1, 0}, 10, registered(1), &part);
  cache.add({2, 0}, 20, registered(2), &part);
  use(cache, 3, 40);
  cache.retire(part);
  EXPECT_THAT(ended, ElementsAre(2));
  EXPECT_EQ(seen.cached, 1U);
  EXPECT_EQ(seen.cached_bytes, 40U);
  used.reset();
  EXPECT_THAT(ended, ElementsAre(2, 1));
  EXPECT_EQ(seen.cached, 1U);
  EXPECT_EQ(seen.cached_bytes, 40U);
}

TEST_F(caching, shows_hits_by_sixteen_and_the_rest_at_the_end) {
  published_counters seen;
  registration_cache cache({.count = 3, .bytes = 100}, &seen);
  use(cache, 1);
  for (int hits = 1; hits <= 40; ++hits) {
    use(cache, 1);
    EXPECT_EQ(seen.hits, static_cast<unsigned>(hits) / 16 * 16) << hits;
  }
  cache.forget_idle();
  EXPECT_EQ(seen.hits, 40U);
}

// Over capacity those in use are not among those that may go.
TEST_F(caching, counts_only_those_without_users_as_too_many) {
  registration_cache cache({.count = 2, .bytes = 100});
  for (const std::uint64_t g : {1, 2, 3}) use(cache, g);
  EXPECT_THAT(ended, ElementsAre(1));
  const auto used = cache.find({2, 0});
  use(cache, 4);
  EXPECT_THAT(ended, ElementsAre(1));
  use(cache, 5);
  EXPECT_THAT(ended, ElementsAre(1, 3));
  EXPECT_EQ(used->key(), 2U);
}

TEST_F(caching, lets_more_be_used_than_it_may_keep) {
  for (const std::size_t limit : {0U, 1U, 2U, 5U}) {
    ended.clear();
    registration_cache cache({.count = limit, .bytes = 100});
    std::vector<registration> users;
    for (std::uint64_t g = 1; g <= 6; ++g) users.push_back(cache.add({g, 0}, 1, registered(g)));
    for (std::uint64_t g = 1; g <= 6; ++g) users.push_back(cache.find({g, 0}));
    EXPECT_THAT(ended, IsEmpty());
    users.clear();
    EXPECT_EQ(cache.counters().idle, limit);
    EXPECT_EQ(ended.size(), 6 - limit);
    EXPECT_EQ(cache.counters().hits, 6U);
  }
}

TEST_F(caching, finds_each_of_many_and_none_that_has_gone) {
  constexpr std::uint64_t many = 5000;
  registration_cache cache({.count = many, .bytes = many});
  for (int round = 0; round < 2; ++round) {
    for (std::uint64_t g = 1; g <= many; ++g) use(cache, g);
    for (std::uint64_t g = 1; g <= many; ++g) ASSERT_EQ(cache.find({g, 0})->key(), g);
    for (std::uint64_t g = 1; g <= many; g += 2) cache.forget(g);
    for (std::uint64_t g = 1; g <= many; ++g)
      ASSERT_EQ(static_cast<bool>(cache.find({g, 0})), g % 2 == 0) << g;
  }
}

TEST_F(caching, knows_which_was_used_last_from_before_it_was_full) {
  registration_cache cache({.count = 4, .bytes = 100});
  for (const std::uint64_t g : {1, 2, 3, 4, 2, 1}) use(cache, g);
  use(cache, 5);
  use(cache, 6);
  use(cache, 7);
  EXPECT_THAT(ended, ElementsAre(3, 4, 2));
}

/// Threads that want registrations while others make room for theirs.
class racing_for_few : public caching {
 protected:
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  static constexpr int rounds = 20'000;  // of each thread
#else
  static constexpr int rounds = 500'000;
#endif
  explicit racing_for_few(cache_limits limits = {.count = 5, .bytes = 100}) : cache_(limits) {}

  registration obtain(std::uint64_t generation) {
    if (auto known = cache_.find({generation, 0})) return known;
    const std::lock_guard lock(adding_);
    if (auto known = cache_.find({generation, 0})) return known;
    return cache_.add({generation, 0}, 1, registered(generation));
  }
  void work(unsigned seed) {
    std::mt19937 random(seed);
    for (int round = 0; round < rounds; ++round) {
      const std::uint64_t generation = 1 + random() % 9;
      const auto used = obtain(generation);
      if (used->key() != generation) ++wrong_;
      if (random() % 8 == 0) cache_.evict_oldest();
      if (used->key() != generation) ++wrong_;
    }
  }

  registration_cache cache_;
  std::mutex adding_;
  std::atomic<int> wrong_{0};
};

TEST_F(racing_for_few, each_gets_what_it_asked_for_and_keeps_it) {
  std::thread other([&] { work(1); });
  work(2);
  other.join();
  EXPECT_EQ(wrong_, 0);
  const auto now = cache_.counters();
  EXPECT_LE(now.idle, 5U);
  EXPECT_EQ(now.made, ended.size() + now.idle);
  EXPECT_GT(now.evictions, static_cast<std::uint64_t>(rounds) / 100);
  EXPECT_GT(now.hits, static_cast<std::uint64_t>(rounds) / 100);
}

}  // namespace
}  // namespace gaudi::reg
