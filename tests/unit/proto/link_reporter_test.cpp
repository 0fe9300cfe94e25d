// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What is told of links that are lost and regained, and how often.
#include "proto/recovery/link_reporter.hpp"

#include <string>

#include "logged_warnings.hpp"
#include "session_over_links.hpp"

namespace gaudi::proto {
namespace {

using test::routed_piece;
using enum link_change::kind;
using kinds = std::vector<link_change::kind>;

class link_reports : public test::session_over_links {
 protected:
  // The connection, and not the rail.
  void cut() {
    ASSERT_TRUE(net.cut_connection(0, 1, 0));
    exchange(100);
  }
  void lose_the_rail_for_a_while() {
    exchange(64 * routed_piece);
    ASSERT_EQ(connections_over(1), 1U);
    net.unplug(0, 1);
    exchange(64 * routed_piece);
    net.plug_in(0, 1);
    exchange(64 * routed_piece);
    let_it_go_on();
    exchange(64 * routed_piece);
  }
  std::size_t warnings(const std::string& text) const {
    std::size_t found = 0;
    for (auto at = log.text().find(text); at != std::string::npos;
         at = log.text().find(text, at + 1))
      ++found;
    return found;
  }
  // Those of one end, as they name the other.
  std::size_t warnings_of(const net_address& peer, const std::string& text) const {
    return warnings(peer.to_string().c_str() + (" " + text));
  }
  // As long as a warning keeps others back.
  void wait_for_the_next_warning() { a.clock.at += std::chrono::seconds(10); }

  test::logged_warnings log;
};

TEST_F(link_reports, nothing_of_what_works) {
  exchange(64 * routed_piece);
  EXPECT_EQ(told_by_a.kinds(), kinds());
  EXPECT_EQ(log.text(), "");
}

TEST_F(link_reports, a_connection_that_is_lost_and_its_return) {
  cut();
  ASSERT_EQ(told_by_a.kinds(), (kinds{connection_lost, connection_regained}));
  const link_change& lost = told_by_a.all.front();
  EXPECT_EQ(lost.remote.address, to_b);
  EXPECT_EQ(lost.remote.name, b.ep->name());
  EXPECT_EQ(lost.error, FI_ECONNRESET);
  const link_change& regained = told_by_a.all.back();
  EXPECT_EQ(regained.remote.address, to_b);
  EXPECT_FALSE(regained.moved);
  EXPECT_EQ(regained.error, 0);
  EXPECT_GT(regained.outage, std::chrono::microseconds(0));
  EXPECT_LT(regained.outage, std::chrono::minutes(1));
}

TEST_F(link_reports, that_it_goes_on_over_another_link) {
  net.unplug(0, 0);
  exchange(100);
  ASSERT_EQ(told_by_a.kinds(), (kinds{connection_lost, connection_regained}));
  EXPECT_TRUE(told_by_a.all.back().moved);
  EXPECT_EQ(warnings_of(b.ep->name(), "goes on over another link, to fi_sockaddr_in://"), 1U);
}

TEST_F(link_reports, that_it_is_given_up) {
  net.unplug(0, 0);
  net.unplug(0, 1);
  let_it_go_on();
  ASSERT_EQ(told_by_a.kinds(), kinds{connection_lost});
  const auto waited = std::chrono::hours(1);
  a.clock.at += waited;
  b.clock.at += waited;
  let_it_go_on();
  ASSERT_EQ(told_by_a.kinds(), (kinds{connection_lost, connection_given_up}));
  EXPECT_EQ(told_by_a.all.back().error, told_by_a.all.front().error);
  EXPECT_GE(told_by_a.all.back().outage, waited);
  EXPECT_EQ(warnings_of(b.ep->name(), "cannot be made again"), 1U);
}

// It is the end that reads which has it.
TEST_F(link_reports, nothing_more_where_the_endpoint_is_closed_meanwhile) {
  net.unplug(0, 0);
  net.unplug(0, 1);
  let_it_go_on();
  a.ep->shut_down();
  EXPECT_EQ(told_by_a.kinds(), kinds{connection_lost});
}

TEST_F(link_reports, a_rail_that_is_lost_and_its_return) {
  lose_the_rail_for_a_while();
  EXPECT_EQ(told_by_a.kinds(), kinds());
  ASSERT_EQ(told_by_b.kinds(), (kinds{rail_lost, rail_regained}));
  for (const link_change& change : told_by_b.all) {
    EXPECT_EQ(change.rail, 1U);
    EXPECT_EQ(change.remote.name, a.ep->name());
  }
  EXPECT_EQ(told_by_b.all.front().error, FI_ECONNRESET);
  EXPECT_GT(told_by_b.all.back().outage, std::chrono::microseconds(0));
  EXPECT_LT(told_by_b.all.back().outage, std::chrono::minutes(1));
  EXPECT_EQ(warnings("rail 1 to"), 2U);
}

TEST_F(link_reports, no_loss_of_a_rail_that_leaves_its_link_to_the_connection) {
  lose_the_rail_for_a_while();
  told_by_b.all.clear();
  net.unplug(1, 0);
  exchange(100);
  net.plug_in(1, 0);
  exchange(64 * routed_piece);
  let_it_go_on();
  exchange(64 * routed_piece);
  ASSERT_EQ(connections_over(0), 1U);
  EXPECT_EQ(told_by_b.kinds(), (kinds{connection_lost, connection_regained}));
}

// A session whose connection is closed on purpose has lost nothing.
TEST_F(link_reports, nothing_of_a_connection_that_is_not_needed_any_more) {
  cut();
  told_by_a.all.clear();
  ASSERT_TRUE(a.addresses.remove(to_b));
  let_it_go_on();
  EXPECT_EQ(a.paths.connections.closed, 1U);
  EXPECT_EQ(told_by_a.kinds(), kinds());
}

TEST_F(link_reports, one_loss_in_a_while_as_a_warning_with_its_end) {
  for (int i = 0; i < 3; ++i) cut();
  EXPECT_EQ(told_by_a.all.size(), 6U);
  EXPECT_EQ(warnings_of(b.ep->name(), "is lost"), 1U);
  EXPECT_EQ(warnings_of(b.ep->name(), "goes on, after"), 1U);
  EXPECT_EQ(warnings("were lost since"), 0U);
  wait_for_the_next_warning();
  cut();
  EXPECT_EQ(warnings_of(b.ep->name(), "is lost"), 2U);
  EXPECT_EQ(warnings("2 more connections and rails were lost since the last warning"), 1U);
  wait_for_the_next_warning();
  cut();
  EXPECT_EQ(warnings("were lost since"), 1U);
}

}  // namespace
}  // namespace gaudi::proto
