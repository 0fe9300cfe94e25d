// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A core can tell the end that accepts a connection that it is up when the peer has given its
// request up, and take messages that nobody will get: nothing is sent before the peer's first
// packet.
#include <rdma/fi_errno.h>

#include <chrono>
#include <string>
#include <vector>

#include "peer_by_hand.hpp"
#include "session_over_links.hpp"

namespace gaudi::proto {
namespace {

using namespace std::chrono_literals;
using test::endpoint_by_itself;
using test::packet_way;
using test::peer_by_hand;
using test::word;

endpoint::settings without_shared_memory() {
  auto s = test::small_settings();
  s.kernel = nullptr;
  return s;
}

class unconfirmed_connection : public testing::Test {
 protected:
  void send() {
    EXPECT_EQ(v.ep->send(test::memory_of(bytes.data(), bytes.size()),
                         {.to = p.address(), .completion = v.completion(&bytes)}),
              0);
  }

  // In the name of the peer, by another process than the one that has asked.
  core::unique_fid<fid_ep> ask_as_another(unsigned which = 1) {
    hello request = p.said_of_itself();
    request.instance += which;
    request.connection += which;
    auto asked = p.ask(request);
    p.settle();
    return asked;
  }

  endpoint_by_itself v{without_shared_memory()};
  peer_by_hand p{v, packet_way::core, 1, word::kept};
  std::string bytes = "what nobody may lose";
};

TEST_F(unconfirmed_connection, takes_no_message_before_the_peers_word) {
  send();
  p.settle();
  EXPECT_EQ(p.waiting(wire::kind::eager), 0U);
  EXPECT_EQ(v.take().error, FI_ENODATA);
  p.confirm();
  p.settle();
  EXPECT_EQ(p.waiting(wire::kind::eager), 1U);
  EXPECT_EQ(v.take().error, 0);
  EXPECT_EQ(v.paths.connections.made, 1U);
}

// The message asks for a connection of its own, and the peer's host says that nobody listens.
TEST_F(unconfirmed_connection, fails_nothing_by_its_end) {
  send();
  p.close();
  p.settle();
  const auto ended = v.take();
  EXPECT_EQ(ended.context, &bytes);
  EXPECT_EQ(ended.error, FI_ECONNREFUSED);
}

// Requests can be late: which of the two processes has gone is not known.
TEST_F(unconfirmed_connection, stays_where_another_process_has_asked_too) {
  const auto other = ask_as_another();
  EXPECT_FALSE(p.is_accepted(*other));
  EXPECT_EQ(p.refusal(), wire::reject_reason::none);
  p.confirm();
  p.settle();
  EXPECT_EQ(p.refusal(), wire::reject_reason::simultaneous);
  EXPECT_FALSE(p.is_cut_off());
  send();
  p.settle();
  EXPECT_EQ(p.waiting(wire::kind::eager), 1U);
}

TEST_F(unconfirmed_connection, leaves_its_place_to_the_other_process_by_its_end) {
  const auto other = ask_as_another();
  p.close();
  p.settle();
  EXPECT_TRUE(p.is_accepted(*other));
  EXPECT_EQ(p.refusal(), wire::reject_reason::none);
}

TEST_F(unconfirmed_connection, has_one_request_wait_for_its_end) {
  const auto other = ask_as_another(1);
  const auto third = ask_as_another(2);
  EXPECT_EQ(p.refusal(), wire::reject_reason::simultaneous);
  p.close();
  p.settle();
  EXPECT_TRUE(p.is_accepted(*other));
  EXPECT_FALSE(p.is_accepted(*third));
}

endpoint::settings with_shared_memory() {
  auto s = test::small_settings();
  s.kernel = &ipc::host_kernel::real();
  return s;
}

// A peer that takes no memory ends its sockets, also that of an answer which it has lost.
TEST(unconfirmed_memory, that_is_refused_is_no_word) {
  endpoint_by_itself v(with_shared_memory());
  peer_by_hand p(v, packet_way::ring_refused, 1, word::kept);
  std::string bytes = "what nobody may lose";
  EXPECT_EQ(v.ep->send(test::memory_of(bytes.data(), bytes.size()),
                       {.to = p.address(), .completion = v.completion(&bytes)}),
            0);
  p.settle();
  EXPECT_EQ(p.waiting(wire::kind::eager), 0U);
  p.confirm();
  p.settle();
  EXPECT_EQ(p.waiting(wire::kind::eager), 1U);
  EXPECT_EQ(v.take().error, 0);
}

/// Whose core connection is lost before the peer's word has come, which is on the channel.
class lost_before_its_word : public testing::Test {
 protected:
  static endpoint::settings settings() {
    auto s = with_shared_memory();
    s.limits = test::with_sessions().limits;
    return s;
  }
  void SetUp() override {
    p.settle(1ms);
    ASSERT_EQ(v.paths.connections.made, 0U);
    ASSERT_TRUE(v.net.cut_connection(0, 1, 0));
  }

  test::told_changes told;
  endpoint_by_itself v{settings(), {}, test::slow_network(), &told};
  peer_by_hand p{v, packet_way::ring_later, 1, word::kept, wire::keeps_session};
};

TEST_F(lost_before_its_word, is_a_loss_once_the_word_has_come) {
  v.net.advance(10'000'000);
  v.progress(1ms);
  EXPECT_TRUE(told.all.empty());
  p.take_memory();
  v.progress(1ms);
  EXPECT_EQ(told.kinds(), std::vector{link_change::kind::connection_lost});
  EXPECT_EQ(v.paths.connections.interrupted, 1U);
}

// Nobody has heard that it was lost.
TEST_F(lost_before_its_word, is_none_where_it_goes_on_by_then) {
  v.net.advance(10'000'000);
  v.progress(1ms);
  p.resume();
  p.take_memory();
  v.progress(100ms);
  EXPECT_EQ(v.paths.connections.made, 1U);
  p.settle(1ms);  // an attempt has a second
  for (int i = 0; i < 10; ++i) p.settle(20ms);
  EXPECT_EQ(v.paths.connections.resumed, 1U);
  EXPECT_TRUE(told.all.empty());
}

}  // namespace
}  // namespace gaudi::proto
