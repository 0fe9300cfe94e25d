// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/receive_buffers.hpp"

#include "endpoint_node.hpp"

namespace gaudi::proto {
namespace {

class receive_buffers_of_a_stream : public testing::Test {
 protected:
  std::unique_ptr<core::inner_domain> core_ = test::loopback_domain();
};

TEST_F(receive_buffers_of_a_stream, replace_what_is_in_use_up_to_their_number) {
  receive_buffers buffers(*core_, 4096, 66);
  ASSERT_TRUE(buffers.open());
  EXPECT_FALSE(buffers.short_of_posted());
  for (int held = 1; held <= 2; ++held) {
    buffers.completed();
    EXPECT_TRUE(buffers.short_of_posted()) << held;
    buffers.post_more();
    EXPECT_FALSE(buffers.short_of_posted()) << held;
  }
  buffers.completed();
  EXPECT_FALSE(buffers.short_of_posted()) << "66 are posted or in use";
  buffers.serve(40);
  EXPECT_FALSE(buffers.short_of_posted()) << "40 peers have 80";
  for (int held = 4; held <= 14; ++held) buffers.completed();
  EXPECT_FALSE(buffers.short_of_posted());
}

TEST_F(receive_buffers_of_a_stream, are_no_more_than_the_core_has_room_for) {
  constexpr std::size_t room = 70;
  core_->info().rx_attr->size = room;
  receive_buffers buffers(*core_, 4096, 64);
  ASSERT_TRUE(buffers.open());
  buffers.serve(1000);
  for (std::size_t held = 0; held < room; ++held) buffers.completed();
  EXPECT_FALSE(buffers.short_of_posted()) << "more than the core takes were wanted";
}

TEST_F(receive_buffers_of_a_stream, all_posted_are_few) {
  receive_buffers buffers(*core_, 4096, 3);
  ASSERT_TRUE(buffers.open());
  buffers.completed();
  EXPECT_FALSE(buffers.short_of_posted()) << "there is no fourth one";
}

TEST_F(receive_buffers_of_a_stream, of_peers_on_this_host_are_not_the_cores) {
  receive_buffers buffers(*core_, 4096, 64);
  ASSERT_TRUE(buffers.open());
  buffer* first = buffers.take_local();
  buffer* second = buffers.take_local();
  ASSERT_TRUE(first && second);
  EXPECT_NE(first, second);
  EXPECT_TRUE(first->local && second->local);
  buffers.completed();
  buffers.give_back(*first);
  EXPECT_EQ(buffers.take_local(), first) << "a local one is not posted, even where one is wanted";
}

TEST_F(receive_buffers_of_a_stream, that_come_back_are_posted_only_where_one_is_wanted) {
  receive_buffers buffers(*core_, 4096, 100);
  ASSERT_TRUE(buffers.open());
  buffer* used = buffers.take_local();
  ASSERT_TRUE(used);
  used->local = false;  // as if the core had filled it
  buffers.completed();
  buffers.post_more();
  buffers.give_back(*used);
  EXPECT_EQ(buffers.take_local(), used) << "64 are posted, so it is free";
  used->local = false;
  buffers.completed();
  buffers.give_back(*used);
  EXPECT_FALSE(buffers.short_of_posted());
  EXPECT_NE(buffers.take_local(), used) << "it is the core's";
}

}  // namespace
}  // namespace gaudi::proto
