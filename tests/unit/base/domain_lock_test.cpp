// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/domain_lock.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

namespace gaudi::base {
namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int rounds = 20'000;
#else
constexpr int rounds = 300'000;
#endif

TEST(domain_lock, lets_one_in_at_a_time) {
  constexpr int threads = 4;
  domain_lock lock;
  long inside = 0;
  int wrong = 0;
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t)
    all.emplace_back([&] {
      for (int i = 0; i < rounds; ++i) {
        const scoped_domain_lock hold(lock);
        const long before = inside;
        if (i % 1000 == 0) std::this_thread::yield();  // others come to wait
        inside = before + 1;
        if (inside != before + 1) ++wrong;
      }
    });
  for (auto& one : all) one.join();
  EXPECT_EQ(inside, long{threads} * rounds);
  EXPECT_EQ(wrong, 0);
}

TEST(domain_lock, wakes_each_who_sleeps) {
  domain_lock lock;
  std::atomic<int> came{0};
  std::vector<std::thread> sleepers;
  lock.lock();
  for (int t = 0; t < 3; ++t)
    sleepers.emplace_back([&] {
      const scoped_domain_lock hold(lock);
      ++came;
    });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(came, 0);
  lock.unlock();
  for (auto& one : sleepers) one.join();
  EXPECT_EQ(came, 3);
}

TEST(domain_lock, may_go_with_its_last_holder) {
  for (int i = 0; i < rounds / 100; ++i) {
    auto lock = std::make_unique<domain_lock>();
    std::atomic<bool> left{false};
    lock->lock();
    std::thread other([&] {
      for (bool done = false; !done;) {
        const scoped_domain_lock hold(*lock);
        done = left;
      }
      lock.reset();
    });
    left = true;
    lock->unlock();
    other.join();
    EXPECT_FALSE(lock);
  }
}

TEST(domain_lock, that_is_disabled_keeps_nobody_out) {
  domain_lock lock(false);
  // Twice, which the analysis of locks would not have.
  const auto hold_twice = [&]() GAUDI_NO_THREAD_SAFETY {
    lock.lock();
    lock.lock();
    lock.unlock();
    lock.unlock();
  };
  hold_twice();
}

/// Apart, so that the analysis does not take it for a lock that is held from now on.
template <class Lock>
void look(const Lock& lock) {
  lock.assert_held();
}

template <class Lock>
class any_lock : public testing::Test {};
using all_locks = testing::Types<mutex, domain_lock>;
TYPED_TEST_SUITE(any_lock, all_locks);

TYPED_TEST(any_lock, knows_in_debug_builds_who_holds_it) {
  TypeParam lock;
  {
    const scoped_lock<TypeParam> hold(lock);
    look(lock);
#ifndef NDEBUG
    EXPECT_DEATH(std::thread([&] { look(lock); }).join(), "assert_is_this_thread") << "another's";
#endif
  }
#ifndef NDEBUG
  EXPECT_DEATH(look(lock), "assert_is_this_thread") << "nobody's";
#endif
}

TEST(domain_lock, is_held_by_nobody_where_it_is_disabled) {
  domain_lock off(false);
  look(off);
  const scoped_domain_lock hold(off);
  look(off);
}

}  // namespace
}  // namespace gaudi::base
