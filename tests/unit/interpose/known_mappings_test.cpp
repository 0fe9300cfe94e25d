// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "interpose/known_mappings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace gaudi::interpose {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr context_id gaudi0{1, 10};
constexpr context_id gaudi1{1, 11};
constexpr std::uint64_t va = 0x1001001800000000;

/// Writes down what it hears.
struct ear {
  std::vector<std::string> heard;
  known_mappings* leaves = nullptr;  // when something goes

  known_mappings::subscriber subscription() { return {this, mapped, unmapping}; }
  static void mapped(void* self, int fd, std::uint64_t at, std::uint64_t len) {
    static_cast<ear*>(self)->heard.push_back("+" + std::to_string(fd) + ":" +
                                             std::to_string(at - va) + ":" + std::to_string(len));
  }
  static void unmapping(void* self, int fd, std::uint64_t at) {
    auto& own = *static_cast<ear*>(self);
    own.heard.push_back("-" + std::to_string(fd) + ":" + std::to_string(at - va));
    if (own.leaves) own.leaves->unsubscribe(self);
  }
};

TEST(known_mappings, are_told_to_who_came_before_and_after) {
  known_mappings all;
  ear before, after;
  ASSERT_EQ(0, all.subscribe(before.subscription()));
  all.allocated(gaudi0, 7, 4096);
  all.mapped(gaudi0, 3, 7, va);
  ASSERT_EQ(0, all.subscribe(after.subscription()));
  EXPECT_THAT(before.heard, ElementsAre("+3:0:4096"));
  EXPECT_THAT(after.heard, ElementsAre("+3:0:4096"));
}

TEST(known_mappings, that_go_are_told_once_to_all) {
  known_mappings all;
  ear one, other;
  all.allocated(gaudi0, 7, 4096);
  all.mapped(gaudi0, 3, 7, va);
  ASSERT_EQ(0, all.subscribe(one.subscription()));
  ASSERT_EQ(0, all.subscribe(other.subscription()));
  EXPECT_FALSE(all.unmapping(gaudi0, 3, va).empty());
  EXPECT_TRUE(all.unmapping(gaudi0, 3, va).empty());
  EXPECT_THAT(one.heard, ElementsAre("+3:0:4096", "-3:0"));
  EXPECT_THAT(other.heard, ElementsAre("+3:0:4096", "-3:0"));
  ear late;
  ASSERT_EQ(0, all.subscribe(late.subscription()));
  EXPECT_THAT(late.heard, IsEmpty());
}

TEST(known_mappings, that_the_driver_did_not_let_go_are_told_again) {
  known_mappings all;
  ear one;
  all.allocated(gaudi0, 7, 4096);
  all.mapped(gaudi0, 3, 7, va);
  ASSERT_EQ(0, all.subscribe(one.subscription()));
  auto taken = all.unmapping(gaudi0, 3, va);
  ASSERT_FALSE(taken.empty());
  all.put_back(std::move(taken));
  EXPECT_THAT(one.heard, ElementsAre("+3:0:4096", "-3:0", "+3:0:4096"));
}

// The driver gives what it has let go to whoever asks next, before the first one hears of it.
TEST(known_mappings, that_another_thread_got_meanwhile_stay_known) {
  known_mappings all;
  ear one;
  all.allocated(gaudi0, 7, 4096);
  all.mapped(gaudi0, 3, 7, va);
  ASSERT_EQ(0, all.subscribe(one.subscription()));
  auto unmapped = all.unmapping(gaudi0, 3, va);
  auto freed = all.freeing(gaudi0, 7);
  all.allocated(gaudi0, 7, 8192);
  all.mapped(gaudi0, 3, 7, va);
  unmapped = {};
  freed = {};
  EXPECT_FALSE(all.unmapping(gaudi0, 3, va).empty());
  EXPECT_FALSE(all.freeing(gaudi0, 7).empty());
  EXPECT_THAT(one.heard, ElementsAre("+3:0:4096", "-3:0", "+3:0:8192", "-3:0"));
}

TEST(known_mappings, of_an_allocation_that_was_not_freed_are_told) {
  known_mappings all;
  ear one;
  ASSERT_EQ(0, all.subscribe(one.subscription()));
  all.allocated(gaudi0, 7, 4096);
  all.put_back(all.freeing(gaudi0, 7));
  all.mapped(gaudi0, 3, 7, va);
  EXPECT_THAT(one.heard, ElementsAre("+3:0:4096"));
}

// Devices hand out the same addresses and handles.
TEST(known_mappings, of_one_device_are_not_those_of_another) {
  known_mappings all;
  ear one;
  ASSERT_EQ(0, all.subscribe(one.subscription()));
  all.allocated(gaudi0, 7, 4096);
  all.allocated(gaudi1, 7, 8192);
  all.mapped(gaudi0, 3, 7, va);
  all.mapped(gaudi1, 4, 7, va);
  EXPECT_FALSE(all.unmapping(gaudi1, 4, va).empty());
  EXPECT_FALSE(all.unmapping(gaudi0, 3, va).empty());
  EXPECT_THAT(one.heard, ElementsAre("+3:0:4096", "+4:0:8192", "-4:0", "-3:0"));
}

TEST(known_mappings, end_with_the_device_for_who_opens_it_next) {
  known_mappings all;
  all.allocated(gaudi0, 7, 4096);
  all.mapped(gaudi0, 3, 7, va);
  ear early;
  ASSERT_EQ(0, all.subscribe(early.subscription()));
  all.closed(gaudi0);
  EXPECT_THAT(early.heard, ElementsAre("+3:0:4096", "-3:0"));
  ear one;
  ASSERT_EQ(0, all.subscribe(one.subscription()));
  EXPECT_THAT(one.heard, IsEmpty());
  EXPECT_TRUE(all.unmapping(gaudi0, 3, va).empty());
}

TEST(known_mappings, leave_out_what_was_not_seen_being_allocated) {
  known_mappings all;
  ear one;
  ASSERT_EQ(0, all.subscribe(one.subscription()));
  all.mapped(gaudi0, 3, 7, va);
  all.allocated(gaudi0, 8, 4096);
  EXPECT_FALSE(all.freeing(gaudi0, 8).empty());
  all.mapped(gaudi0, 3, 8, va);
  EXPECT_TRUE(all.unmapping(gaudi0, 3, va).empty());
  EXPECT_THAT(one.heard, IsEmpty());
}

TEST(known_mappings, can_be_left_out_of_a_call) {
  known_mappings all;
  ear stays, goes;
  all.allocated(gaudi0, 7, 4096);
  all.mapped(gaudi0, 3, 7, va);
  ASSERT_EQ(0, all.subscribe(goes.subscription()));
  ASSERT_EQ(0, all.subscribe(stays.subscription()));
  goes.leaves = &all;
  auto taken = all.unmapping(gaudi0, 3, va);
  ASSERT_FALSE(taken.empty());
  all.put_back(std::move(taken));
  EXPECT_THAT(goes.heard, ElementsAre("+3:0:4096", "-3:0"));
  EXPECT_THAT(stays.heard, ElementsAre("+3:0:4096", "-3:0", "+3:0:4096"));
}

}  // namespace
}  // namespace gaudi::interpose
