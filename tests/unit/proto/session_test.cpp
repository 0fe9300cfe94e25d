// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What a peer may say in a session, and who may go on with one.
#include <rdma/fi_errno.h>

#include <optional>
#include <string>

#include "../base/scarce_memory.hpp"
#include "peer_by_hand.hpp"

namespace gaudi::proto {
namespace {

using test::endpoint_by_itself;
using test::packet_way;
using test::peer_by_hand;
using test::word;

class session_with_a_peer : public testing::Test {
 protected:
  void SetUp() override {
    credit(1);
    p.settle();
    ASSERT_FALSE(p.is_cut_off());
  }

  void say(wire::header head, const char* text = nullptr) {
    wire::eager_fields fields{};
    head.connection = p.known_as();
    fields.head = head;
    std::array<std::byte, 64> packet{};
    std::memcpy(packet.data(), &fields, sizeof fields);
    std::size_t length = sizeof head;
    if (text) {
      const std::size_t start = wire::eager_size(0);
      std::memcpy(packet.data() + start, text, 4);
      length = start + 4;
    }
    p.say_as_it_is(packet.data(), length);
  }
  void credit(std::uint32_t number, std::uint32_t received = 0) {
    say({.what = wire::kind::credit,
         .flags = 0,
         .data_credits = 0,
         .control_credits = 0,
         .connection = 0,
         .number = number,
         .received = received});
  }
  void message(std::uint32_t number, const char* text) {
    say({.what = wire::kind::eager,
         .flags = 0,
         .data_credits = 0,
         .control_credits = 0,
         .connection = 0,
         .number = number,
         .received = 0},
        text);
  }
  void receive(std::string& room) {
    EXPECT_EQ(v.ep->receives().receive(test::memory_of(room.data(), room.size()),
                                       {.completion = v.completion(&room)}),
              0);
  }
  int send() {
    return v.ep->send(test::memory_of(bytes.data(), bytes.size()),
                      {.to = p.address(), .completion = v.completion(&bytes)});
  }

  endpoint_by_itself v{test::with_sessions()};
  peer_by_hand p{v, packet_way::core, 1, word::kept, wire::keeps_session};
  std::string bytes = "kept until it has come";
};

TEST_F(session_with_a_peer, takes_no_packet_twice) {
  std::string first(4, ' ');
  std::string second(4, ' ');
  receive(first);
  receive(second);
  message(2, "once");
  message(2, "more");
  message(3, "then");
  p.settle();
  EXPECT_EQ(first, "once");
  EXPECT_EQ(second, "then");
  EXPECT_FALSE(p.is_cut_off());
}

TEST_F(session_with_a_peer, ends_where_a_packet_is_missing) {
  credit(3);
  p.settle();
  EXPECT_TRUE(p.is_cut_off());
}

TEST_F(session_with_a_peer, ends_where_a_packet_has_no_number) {
  credit(0);
  p.settle();
  EXPECT_TRUE(p.is_cut_off());
}

TEST_F(session_with_a_peer, ends_where_the_peer_has_received_what_was_not_sent) {
  credit(2, 1);
  p.settle();
  EXPECT_TRUE(p.is_cut_off());
}

TEST_F(session_with_a_peer, takes_nothing_of_a_packet_that_makes_no_sense) {
  std::string room(4, ' ');
  receive(room);
  say({.what = wire::kind::eager,
       .flags = 0,
       .data_credits = 0,
       .control_credits = 0,
       .connection = 0,
       .number = 2,
       .received = 1},
      "text");
  p.settle();
  EXPECT_TRUE(p.is_cut_off());
  EXPECT_EQ(room, std::string(4, ' '));
}

TEST_F(session_with_a_peer, ends_where_it_is_resumed_without_need) {
  say({.what = wire::kind::resume,
       .flags = 0,
       .data_credits = 0,
       .control_credits = 0,
       .connection = 0,
       .number = 0,
       .received = 0});
  p.settle();
  EXPECT_TRUE(p.is_cut_off());
}

TEST_F(session_with_a_peer, keeps_what_it_sent_until_the_peer_has_it) {
  ASSERT_EQ(send(), 0);
  p.settle();
  EXPECT_EQ(p.heard<wire::eager_fields>(wire::kind::eager)->head.number, 1U);
  credit(2, 1);
  p.settle();
  EXPECT_FALSE(p.is_cut_off());
  credit(3, 1);  // it may say so again
  p.settle();
  EXPECT_FALSE(p.is_cut_off());
}

TEST_F(session_with_a_peer, tells_a_peer_that_hears_nothing_else_what_has_come) {
  std::string room(4, ' ');
  receive(room);
  message(2, "word");
  p.settle();
  const auto heard = p.heard<wire::header>(wire::kind::credit);
  ASSERT_TRUE(heard);
  EXPECT_EQ(heard->received, 2U);
  EXPECT_EQ(heard->flags, 0U);
}

// The peer would try to go on with it.
TEST_F(session_with_a_peer, is_left_by_an_end_that_closes) {
  v.ep->shut_down();
  p.settle();
  EXPECT_TRUE(p.heard<wire::header>(wire::kind::leave));
}

// It has asked for none of this end's addresses.
TEST_F(session_with_a_peer, has_no_other_route_because_the_peer_says_so) {
  ASSERT_TRUE(v.net.cut_connection(0, 1, 0));
  p.resume(3);
  for (int i = 0; i < 10; ++i) p.settle(std::chrono::milliseconds(1));
  EXPECT_EQ(v.paths.connections.resumed, 1U);
  EXPECT_EQ(v.paths.again.elsewhere, 0U);
}

// Keys mean nothing at another NIC, and neither end has said that it asks for others.
TEST_F(session_with_a_peer, does_not_move_to_another_nic_because_the_peer_says_so) {
  ASSERT_TRUE(v.net.cut_connection(0, 1, 0));
  hello request = p.said_of_itself();
  request.flags |= wire::resumes;
  wire::set_way(request, 0, 1);
  wire::set_resumed(request, p.known_as());
  const auto ep = p.ask(request);
  p.settle(std::chrono::milliseconds(1));
  EXPECT_EQ(p.refusal(), wire::reject_reason::no_session);
  EXPECT_FALSE(p.is_accepted(*ep));
}

/// Of which the peer has said nothing yet.
class unconfirmed_session : public session_with_a_peer {
 protected:
  void SetUp() override {}
};

// It cannot say that it has heard the peer: so it has what came, but is not resumed.
TEST_F(unconfirmed_session, that_goes_on_and_is_lost_at_once_ends_what_has_come) {
  std::string room(100'000, ' ');
  receive(room);
  ASSERT_TRUE(v.net.cut_connection(0, 1, 0));
  p.resume();
  p.announce(77, room.size(), 1);
  v.net.advance(10'000'000);
  v.net.refuse_posts();
  v.ep->progress();
  p.close();
  p.settle();
  EXPECT_EQ(v.paths.connections.resumed, 0U);
  EXPECT_EQ(v.take().error, FI_ECONNRESET) << "what has begun on it ends with it";
  EXPECT_EQ(v.paths.connections.lost, 1U);
}

// Another process that listens at the peer's address: it accepts, and names no session.
class somebody_else {
 public:
  somebody_else(endpoint_by_itself& v, hello answer) : answer_(answer) {
    sim::host& at = v.net.add_host(2, 6001);
    fabric_ = v.net.fabric_for(at);
    info_ = v.net.info_for(at);
    fid_domain* domain = nullptr;
    fi_domain(fabric_.get(), info_.get(), &domain, nullptr);
    domain_.reset(domain);
    fid_eq* events = nullptr;
    fi_eq_attr of_events{};
    fi_eq_open(fabric_.get(), &of_events, &events, nullptr);
    events_.reset(events);
    fid_cq* queue = nullptr;
    fi_cq_attr of_queue{};
    of_queue.size = 64;
    fi_cq_open(domain, &of_queue, &queue, nullptr);
    queue_.reset(queue);
    fid_pep* listener = nullptr;
    fi_passive_ep(fabric_.get(), info_.get(), &listener, nullptr);
    listener_.reset(listener);
    fi_pep_bind(listener, &events->fid, 0);
    EXPECT_EQ(fi_listen(listener), 0);
  }

  /// Whether it was asked, and has accepted.
  bool accept() {
    std::uint32_t what = 0;
    alignas(fi_eq_cm_entry) std::byte space[sizeof(fi_eq_cm_entry) + 256];
    if (fi_eq_read(events_.get(), &what, space, sizeof space, 0) <= 0 || what != FI_CONNREQ)
      return false;
    const core::unique_info asked(reinterpret_cast<fi_eq_cm_entry*>(space)->info);
    fid_ep* ep = nullptr;
    fi_endpoint(domain_.get(), asked.get(), &ep, nullptr);
    ep_.reset(ep);
    fi_ep_bind(ep, &events_->fid, 0);
    fi_ep_bind(ep, &queue_->fid, FI_TRANSMIT | FI_RECV);
    EXPECT_EQ(fi_enable(ep), 0);
    EXPECT_EQ(fi_recv(ep, room_.data(), room_.size(), nullptr, FI_ADDR_UNSPEC, nullptr), 0);
    EXPECT_EQ(fi_accept(ep, &answer_, sizeof answer_), 0);
    return true;
  }
  [[nodiscard]] bool hears_anything() {
    fi_cq_msg_entry entry{};
    return fi_cq_read(queue_.get(), &entry, 1) == 1;
  }

 private:
  const hello answer_;
  std::array<std::byte, 8192> room_{};
  core::unique_info info_;
  core::unique_fid<fid_fabric> fabric_;
  core::unique_fid<fid_domain> domain_;
  core::unique_fid<fid_eq> events_;
  core::unique_fid<fid_cq> queue_;
  core::unique_fid<fid_pep> listener_;
  core::unique_fid<fid_ep> ep_;
};

TEST_F(session_with_a_peer, does_not_go_on_with_another_process_at_the_peers_address) {
  ASSERT_EQ(send(), 0);
  p.settle();
  EXPECT_EQ(v.take().error, 0);
  ASSERT_EQ(send(), 0);
  hello answer{};
  answer.magic = wire::magic;
  answer.version = wire::version;
  answer.flags = wire::keeps_session | wire::resumes;
  answer.connection = 1;  // the number is the peer's, too
  answer.instance = 4711;
  answer.eager_limit = 8192;
  somebody_else other(v, answer);
  ASSERT_TRUE(v.net.cut_connection(0, 1, 0));
  bool asked = false;
  for (int i = 0; i < 40; ++i) {
    v.clock.at += std::chrono::milliseconds(20);  // an attempt has a second
    v.ep->progress();
    v.net.advance(1'000'000);
    asked = other.accept() || asked;
  }
  EXPECT_TRUE(asked);
  EXPECT_FALSE(other.hears_anything()) << "what is for the peer alone";
  EXPECT_EQ(v.paths.connections.interrupted, 1U);
  EXPECT_EQ(v.paths.connections.resumed, 0U);
  EXPECT_EQ(v.paths.connections.lost, 1U);
}

// The one that made the connection, which was lost on its way and sent again.
TEST_F(session_with_a_peer, is_not_ended_by_a_late_request_for_its_own_connection) {
  const auto late = p.ask(p.said_of_itself());
  p.settle(std::chrono::milliseconds(1));
  EXPECT_EQ(p.refusal(), wire::reject_reason::simultaneous);
  EXPECT_FALSE(p.is_accepted(*late));
  EXPECT_EQ(v.paths.connections.interrupted, 0U);
  EXPECT_FALSE(p.is_cut_off());
}

// A packet without a number would end it (ends_where_a_packet_has_no_number).
TEST(endpoint_without_sessions, keeps_none_for_a_peer_that_does) {
  endpoint_by_itself v;
  peer_by_hand p(v, packet_way::core, 1, word::given, wire::keeps_session);
  EXPECT_FALSE(p.is_cut_off());
  EXPECT_EQ(v.paths.connections.made, 1U);
}

// It finds nobody at the peer's address: until then it could wait for the peer's next request, or
// for the end of the attempt that has failed.
TEST_F(session_with_a_peer, asks_at_once_where_it_could_not_take_the_peers_request) {
  ASSERT_TRUE(v.net.cut_connection(0, 1, 0));
  hello request = p.said_of_itself();
  request.flags |= wire::resumes;
  wire::set_resumed(request, p.known_as());
  const auto asked = p.ask(request);
  v.net.refuse_endpoints(true);
  p.settle(std::chrono::milliseconds(1));
  EXPECT_EQ(p.refusal(), wire::reject_reason::resources);
  EXPECT_FALSE(p.is_accepted(*asked));
  v.net.refuse_endpoints(false);
  for (int i = 0; i < 8; ++i) p.settle(std::chrono::milliseconds(1));
  EXPECT_EQ(v.paths.connections.lost, 1U);
}

// Its place among those that go on was made with the connection.
TEST_F(session_with_a_peer, goes_on_though_there_is_no_memory_at_the_peers_first_word) {
  ASSERT_TRUE(v.net.cut_connection(0, 1, 0));
  p.resume();
  v.net.advance(10'000'000);
  std::optional<gaudi::test::scarce_memory> none;
  v.clock.when_asked = [&] { none.reset(); };
  none.emplace(0);
  v.progress(std::chrono::milliseconds(1));
  none.reset();
  p.settle(std::chrono::milliseconds(1));
  EXPECT_EQ(v.paths.connections.resumed, 1U);
  EXPECT_EQ(v.paths.connections.lost, 0U);
}

}  // namespace
}  // namespace gaudi::proto
