// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "untagged.hpp"

#include <gtest/gtest.h>

namespace gaudi::stress {
namespace {

planned message(operation op, std::size_t size) {
  planned p;
  p.op = op;
  p.size = size;
  return p;
}

const round_plan plan{
    .seed = 1,
    .round = 8,
    .operations = {message(operation::send, 204839), message(operation::send, 7481),
                   message(operation::senddata, 10), message(operation::send, 10)}};
const std::vector<std::size_t> all{0, 1, 2, 3};

TEST(untagged, messages_of_a_lost_sender_may_be_missing) {
  EXPECT_EQ(find_unsent(plan, all, {}), std::nullopt);
  EXPECT_EQ(find_unsent(plan, all, {{204839, 0}, {7481, 0}}), std::nullopt);
  EXPECT_EQ(find_unsent(plan, all, {{7481, 0}, {10, 0}}), std::nullopt);
}

TEST(untagged, messages_of_a_lost_sender_stay_in_order) {
  EXPECT_EQ(find_unsent(plan, all, {{7481, 0}, {204839, 0}}), 1U);
  EXPECT_EQ(find_unsent(plan, all, {{7481, 0}, {7481, 0}}), 1U);
  EXPECT_EQ(find_unsent(plan, all, {{5, 0}}), 0U);
}

TEST(untagged, messages_have_their_own_remote_data) {
  EXPECT_EQ(find_unsent(plan, all, {{10, message_id(plan, 2)}, {10, 0}}), std::nullopt);
  EXPECT_EQ(find_unsent(plan, {2}, {{10, message_id(plan, 3)}}), 0U);
}

}  // namespace
}  // namespace gaudi::stress
