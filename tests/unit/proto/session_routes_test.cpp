// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Sessions between hosts with several links, of which some are pulled out.
#include <utility>
#include <vector>

#include "session_over_links.hpp"

namespace gaudi::proto {
namespace {

using test::routed_piece;
using test::session_over_links;

/// The same, where the peer has one link, and no rails.
class session_with_one_link : public session_over_links {
 public:
  session_with_one_link() : session_over_links(0) {}
};

TEST_F(session_over_links, goes_on_over_the_other_one) {
  net.unplug(0, 0);
  exchange(100);
  EXPECT_EQ(a.paths.again.elsewhere, 1U);
  EXPECT_EQ(b.paths.again.elsewhere, 1U);
  EXPECT_EQ(a.paths.connections.lost + b.paths.connections.lost, 0U);
}

TEST_F(session_over_links, moves_as_often_as_links_fail) {
  for (unsigned lost = 0; lost < 6; ++lost) {
    net.unplug(lost / 2 % 2, lost % 2);
    exchange(100);
    net.plug_in(lost / 2 % 2, lost % 2);
    EXPECT_EQ(a.paths.again.elsewhere, lost + 1);
  }
}

TEST_F(session_over_links, leaves_a_link_that_comes_back_to_its_rail) {
  exchange(64 * routed_piece);
  ASSERT_EQ(connections_over(1), 1U);
  net.unplug(1, 0);
  exchange(100);
  net.plug_in(1, 0);
  const auto before = a.paths.rails.made + b.paths.rails.made;
  exchange(64 * routed_piece);
  let_it_go_on();
  exchange(64 * routed_piece);
  EXPECT_EQ(a.paths.rails.made + b.paths.rails.made, before + 1);
  EXPECT_EQ(connections_over(0), 1U);
  EXPECT_EQ(connections_over(1), 1U);
}

// Who computes for most of the time still gets there with one request.
TEST_F(session_over_links, waits_for_an_application_that_seldom_makes_progress) {
  for (unsigned cuts = 1; cuts <= 2; ++cuts) {
    ASSERT_TRUE(net.cut_connection(0, 1, 0));
    int looks_before = 0;
    int looks = 0;  // once it is known to be lost
    for (int i = 0; i < 50 && a.paths.connections.resumed < cuts; ++i) {
      net.advance(10'000'000);
      a.progress(std::chrono::milliseconds(300));
      b.progress(std::chrono::milliseconds(300));
      ++(a.paths.connections.interrupted == cuts ? looks : looks_before);
    }
    EXPECT_LT(looks_before, 2) << "it hears of it at once";
    EXPECT_LT(looks, 9);
    exchange(16);
  }
}

TEST_F(session_over_links, waits_where_there_is_no_other_one) {
  net.unplug(0, 0);
  net.unplug(1, 1);
  let_it_go_on();
  EXPECT_EQ(a.paths.connections.resumed, 0U);
  net.plug_in(1, 1);
  exchange(100);
  EXPECT_EQ(a.paths.again.elsewhere, 1U);
}

TEST_F(session_with_one_link, goes_on_from_another_address) {
  net.unplug(0, 0);
  exchange(100);
  EXPECT_EQ(a.paths.again.elsewhere, 1U);
  EXPECT_EQ(b.paths.again.elsewhere, 1U);
}

TEST_F(session_over_links, leaves_one_that_is_silent) {
  ASSERT_TRUE(net.silence_connection(0, 1, 0));
  exchange(100);
  EXPECT_EQ(a.paths.again.elsewhere, 1U);
}

// A request that is lost with its link is never answered: with several links it is not waited for
// as long as with one.
TEST_F(session_over_links, does_not_wait_long_for_an_answer_over_one_that_is_gone) {
  ASSERT_TRUE(net.cut_connection(0, 1, 0));
  net.unplug(0, 0);
  const auto lost = a.clock.at;
  while (a.paths.connections.resumed == 0 && a.clock.at - lost < std::chrono::seconds(2)) {
    a.progress(std::chrono::milliseconds(10));
    b.progress(std::chrono::milliseconds(10));
    net.advance(1'000'000);
  }
  EXPECT_EQ(a.paths.connections.resumed, 1U);
  EXPECT_LT(a.clock.at - lost, std::chrono::milliseconds(400));
}

TEST_F(session_over_links, leaves_a_silent_rail_to_the_others) {
  lose_a_silent_rail({true, false});
}

// Who reads over a rail has nothing to send there.
TEST_F(session_over_links, leaves_a_rail_of_which_only_the_peer_knows_that_it_is_silent) {
  lose_a_silent_rail({false, true});
}

// The last packet of all is one that nobody says he has received.
TEST_F(session_over_links, asks_seldom_where_nothing_waits) {
  for (int i = 0; i < 10; ++i) let_it_go_on();
  streams.questions = 0;
  for (int i = 0; i < 10; ++i) let_it_go_on();
  EXPECT_LE(streams.questions, 2U);
}

// Each question is a call of the kernel.
TEST_F(session_over_links, asks_often_at_first_where_something_waits_and_seldom_later) {
  exchange(16);  // so that the peer has just been heard
  std::vector<std::byte> unwanted(64 * routed_piece);
  ASSERT_EQ(a.send(to_b, test::memory_of(unwanted.data(), unwanted.size()), 99, nullptr), 0);
  streams.questions = 0;
  std::vector<unsigned> asked_at;
  for (unsigned look = 1; look <= 28; ++look) {
    a.progress(test::link_timeout / 4);
    if (std::exchange(streams.questions, 0) != 0) asked_at.push_back(look);
  }
  EXPECT_EQ(asked_at,
            (std::vector<unsigned>{4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 20, 24, 28}));
}

}  // namespace
}  // namespace gaudi::proto
