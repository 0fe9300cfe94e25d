// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/waker.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/event_set.hpp"

namespace gaudi::base {
namespace {

TEST(waker, rings_only_for_a_sleeper) {
  auto w = waker::open();
  auto set = event_set::open();
  ASSERT_TRUE(w && set);
  ASSERT_EQ(set->add(w->fd()), 0);
  w->notify();
  EXPECT_FALSE(set->wait(0)) << "nobody had armed it";
  w->arm();
  w->notify();
  EXPECT_TRUE(set->wait(0));
  w->notify();
  w->arm();
  EXPECT_FALSE(set->wait(0)) << "arming makes it quiet";
  w->ring();
  EXPECT_TRUE(set->wait(0)) << "a signal needs no sleeper";
}

TEST(waker, ends_a_sleep_that_has_begun) {
  auto w = waker::open();
  auto set = event_set::open();
  ASSERT_TRUE(w && set);
  ASSERT_EQ(set->add(w->fd()), 0);
  w->arm();
  std::atomic<bool> woken{false};
  std::thread sleeps([&] { woken = set->wait(60000); });
  w->notify();
  sleeps.join();
  EXPECT_TRUE(woken);
}

TEST(event_set, holds_sets_and_lets_members_go) {
  auto w = waker::open();
  auto inner = event_set::open();
  auto outer = event_set::open();
  ASSERT_TRUE(w && inner && outer);
  ASSERT_EQ(outer->add(inner->fd()), 0);
  w->ring();
  EXPECT_FALSE(outer->wait(0));
  ASSERT_EQ(inner->add(w->fd()), 0) << "members may come later";
  EXPECT_TRUE(outer->wait(0));
  EXPECT_NE(inner->add(w->fd()), 0) << "once is enough";
  inner->remove(w->fd());
  EXPECT_FALSE(outer->wait(0));
  EXPECT_NE(inner->add(-1), 0);
}

}  // namespace
}  // namespace gaudi::base
