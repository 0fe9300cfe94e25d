// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "common/patience.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

namespace gaudi::common {
namespace {

/// Polls that find nothing until the next one that is time to look around.
int polls_to_look(patience& waited) {
  int polls = 1;
  while (!waited.spend("a test")) ++polls;
  return polls;
}

TEST(patience, says_now_and_then_that_it_is_time_to_look) {
  patience waited(std::chrono::hours{1});
  const int polls = polls_to_look(waited);
  EXPECT_GT(polls, 64);
  EXPECT_EQ(polls_to_look(waited), polls);
}

TEST(patience, begins_anew_with_each_find) {
  patience waited(std::chrono::hours{1});
  const int polls = polls_to_look(waited);
  for (int i = 1; i < polls; ++i) waited.spend("a test");
  waited.reward();
  EXPECT_EQ(polls_to_look(waited), polls);
}

TEST(patience, ends_where_nothing_is_found) {
  patience waited(std::chrono::seconds{0});
  const auto for_ever = [&] {
    for (;;) waited.spend("a test");
  };
  EXPECT_THAT(for_ever, testing::ThrowsMessage<no_progress>("no progress for 0 s in a test"));
}

}  // namespace
}  // namespace gaudi::common
