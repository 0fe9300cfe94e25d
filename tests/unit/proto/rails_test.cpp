// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What an endpoint does with rails that are lost, and with peers that ask for some.
#include <rdma/fi_errno.h>

#include <algorithm>
#include <vector>

#include "peer_by_hand.hpp"

namespace gaudi::proto {
namespace {

using test::endpoint_by_itself;
using test::packet_way;
using test::peer_by_hand;

constexpr std::size_t piece = 1024;
constexpr std::size_t long_enough = 8 * piece;

endpoint::settings with_a_second_rail(rail_counters& counted) {
  auto s = test::small_settings();
  s.kernel = nullptr;
  s.rendezvous = base::rendezvous_choice::write;
  s.rails = {.count = 2,
             .chunk = piece,
             .others = {},
             .pause = std::chrono::milliseconds(0),
             .counted = {&counted}};
  return s;
}

TEST(rails_of_a_connection, are_asked_for_when_something_is_two_pieces_long) {
  rail_counters counted;
  endpoint_by_itself v{with_a_second_rail(counted)};
  peer_by_hand p{v};
  std::vector<std::byte> here(2 * piece), there(2 * piece);
  const wire::segment target = p.expose(there);
  const auto write = [&](std::size_t length) {
    const rma_access access{.target = p.address(),
                            .address = target.address,
                            .key = target.key,
                            .completion = v.completion(&here)};
    EXPECT_EQ(v.ep->write(test::memory_of(here.data(), length), access), 0);
    p.settle(std::chrono::milliseconds(20));
    EXPECT_EQ(v.take().error, 0);
    return p.heard_whole(wire::kind::ask_rails).has_value();
  };
  EXPECT_FALSE(write(2 * piece - 1));
  EXPECT_TRUE(write(2 * piece));
}

class rail_to_a_peer : public testing::Test {
 protected:
  void SetUp() override {
    const net_address name = p.listen();
    move(false, 1);
    settle();
    ASSERT_TRUE(p.heard_whole(wire::kind::ask_rails));
    wire::rail_names_fields names{};
    names.count = 1;
    names.places[0].name = to_wire(name);
    p.say(wire::kind::rail_names, names, sizeof names);
    settle();
    ASSERT_EQ(p.taken().size(), 1U);
    ASSERT_EQ(v.paths.rails.made, 1U);
    ASSERT_EQ(v.take().error, 0);
  }

  // An attempt has a second.
  void settle() { p.settle(std::chrono::milliseconds(20)); }
  // Fills what is here, or at the peer where it is read, and starts the operation.
  void move(bool read, int value) {
    auto& from = read ? there : here;
    std::fill(from.begin(), from.end(), static_cast<std::byte>(value));
    const auto memory = test::memory_of(here.data(), here.size());
    const rma_access access{.target = p.address(),
                            .address = target.address,
                            .key = target.key,
                            .completion = v.completion(&here)};
    int ret = -FI_EAGAIN;
    for (int i = 0; i < 100 && ret == -FI_EAGAIN; ++i)
      ret = read ? v.ep->read(memory, access) : v.ep->write(memory, access);
    ASSERT_EQ(ret, 0);
  }
  void lose_the_rail() {
    // The connection is the older one.
    ASSERT_TRUE(v.net.cut_connection(0, 1, 2));
    settle();
  }
  void want_another_one() {
    lose_the_rail();
    say(wire::kind::rail_closed, 1);
    static_cast<void>(p.heard<wire::rail_fields>(wire::kind::rail_lost));
    move(false, 2);
  }
  // It sees none of what comes.
  void go_on_without_peer(std::chrono::milliseconds time) {
    for (; time.count() > 0; time -= std::chrono::milliseconds(20)) {
      v.progress(std::chrono::milliseconds(20));
      v.net.advance(1'000'000);
    }
  }
  void say(wire::kind what, std::uint32_t number) {
    wire::rail_fields fields{};
    fields.number = number;
    p.say(what, fields);
    settle();
  }

  rail_counters counted;
  endpoint_by_itself v{with_a_second_rail(counted)};
  peer_by_hand p{v};
  std::vector<std::byte> here = std::vector<std::byte>(long_enough);
  std::vector<std::byte> there = std::vector<std::byte>(long_enough);
  wire::segment target = p.expose(there);
};

TEST_F(rail_to_a_peer, says_which_connection_it_is_of) {
  const hello& asked = p.taken().front().asked;
  EXPECT_EQ(asked.flags, wire::is_rail);
  EXPECT_EQ(asked.connection, p.known_as());
  EXPECT_EQ(wire::resumed(asked), p.said_of_itself().connection);
  EXPECT_EQ(asked.host, 1U);
}

TEST_F(rail_to_a_peer, has_half_of_a_write) {
  move(false, 2);
  settle();
  EXPECT_EQ(v.take().error, 0);
  EXPECT_EQ(there, here);
  EXPECT_EQ(v.paths.rails.bytes, long_enough / 2);
}

// What the peer has not closed may still bring what was lost.
TEST_F(rail_to_a_peer, that_is_lost_is_closed_by_the_peer_before_writes_go_another_way) {
  move(false, 2);
  lose_the_rail();
  const auto lost = p.heard<wire::rail_fields>(wire::kind::rail_lost);
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->number, 1U);
  EXPECT_EQ(v.take().error, FI_ENODATA);
  EXPECT_EQ(std::count(there.begin(), there.end(), std::byte{2}),
            static_cast<std::ptrdiff_t>(long_enough / 2));
  say(wire::kind::rail_closed, 7);  // another one
  EXPECT_EQ(v.take().error, FI_ENODATA);
  say(wire::kind::rail_closed, 1);
  EXPECT_EQ(v.take().error, 0);
  EXPECT_EQ(there, here);
  EXPECT_EQ(v.paths.rails.lost, 1U);
  EXPECT_EQ(v.paths.again.rma, long_enough / 2 / piece);
}

// The same of what has failed: its source says so when nothing more comes.
TEST_F(rail_to_a_peer, that_is_lost_is_closed_by_the_peer_before_a_transfer_fails) {
  std::fill(here.begin(), here.end(), std::byte{2});
  ASSERT_EQ(v.ep->send(test::memory_of(here.data(), here.size()),
                       {.to = p.address(), .completion = v.completion(&here)}),
            0);
  settle();
  const auto rts = p.heard<wire::eager_fields>(wire::kind::rts);
  ASSERT_TRUE(rts);
  p.grant(rts->operation, 77, there.size(), target, wire::direct);
  wire::fin_fields failed{};
  failed.operation = rts->operation;
  failed.status = FI_EIO;
  p.say(wire::kind::fin, failed);
  for (int i = 0; i < 100 && there.front() != std::byte{2}; ++i) {
    v.net.advance(100'000);
    v.progress(std::chrono::milliseconds(0));
  }
  lose_the_rail();
  EXPECT_EQ(v.take().error, FI_ENODATA);
  say(wire::kind::rail_closed, 1);
  EXPECT_EQ(v.take().error, FI_EIO);
  EXPECT_EQ(v.paths.again.rma, 0U);
}

TEST_F(rail_to_a_peer, that_is_lost_leaves_reads_to_the_others_at_once) {
  move(true, 2);
  lose_the_rail();
  EXPECT_EQ(v.take().error, 0);
  EXPECT_EQ(here, there);
}

TEST_F(rail_to_a_peer, is_made_again_when_it_is_wanted) {
  lose_the_rail();
  say(wire::kind::rail_closed, 1);
  EXPECT_EQ(p.taken().size(), 1U);
  move(false, 2);
  settle();
  EXPECT_EQ(v.take().error, 0);
  EXPECT_EQ(p.taken().size(), 2U);
  EXPECT_EQ(p.taken().back().asked.host, 2U);
  EXPECT_EQ(v.paths.rails.made, 2U);
  EXPECT_EQ(counted.made, 2U);
  EXPECT_EQ(counted.lost, 1U);
  EXPECT_EQ(counted.up, 1U);
}

// A request that was lost with a link is answered never.
TEST_F(rail_to_a_peer, is_given_up_where_the_peer_does_not_answer) {
  want_another_one();
  go_on_without_peer(std::chrono::milliseconds(900));
  EXPECT_EQ(p.waiting(wire::kind::rail_lost), 0U);
  go_on_without_peer(std::chrono::milliseconds(200));
  EXPECT_FALSE(v.ep->needs_polling()) << "it waits for nothing";
  settle();
  EXPECT_EQ(p.heard<wire::rail_fields>(wire::kind::rail_lost)->number, 2U);
  EXPECT_EQ(v.paths.rails.made, 1U);
  EXPECT_EQ(counted.lost, 1U) << "that one never was";
}

TEST_F(rail_to_a_peer, is_not_counted_when_the_connection_ends_before_it_is_made) {
  want_another_one();
  go_on_without_peer(std::chrono::milliseconds(100));
  p.close();
  go_on_without_peer(std::chrono::milliseconds(100));
  EXPECT_EQ(v.paths.connections.lost, 1U);
  EXPECT_EQ(counted.up, 0U);
}

TEST_F(rail_to_a_peer, is_counted_for_itself) {
  EXPECT_EQ(counted.up, 1U);
  move(false, 2);
  settle();
  EXPECT_EQ(v.take().error, 0);
  EXPECT_EQ(counted.ops, long_enough / 2 / piece);
  EXPECT_EQ(counted.bytes, long_enough / 2);
  EXPECT_EQ(counted.bytes, v.paths.rails.bytes);
  lose_the_rail();
  EXPECT_EQ(counted.lost, 1U);
  EXPECT_EQ(counted.up, 0U);
}

TEST_F(rail_to_a_peer, ends_with_the_connection) {
  move(false, 2);
  ASSERT_TRUE(v.net.cut_connection(0, 1, 0));
  settle();
  EXPECT_EQ(v.take().error, FI_ECONNRESET);
  EXPECT_TRUE(p.is_shut(*p.taken().front().ep));
  EXPECT_EQ(counted.up, 0U);
}

TEST_F(rail_to_a_peer, of_its_own_is_taken_and_closed_when_it_asks_for_that) {
  const hello& own = p.said_of_itself();
  const auto ep =
      p.ask(hello_of_rail(own.instance, own.connection, p.known_as(), 5, address_of(own)));
  settle();
  EXPECT_EQ(p.refusal(), wire::reject_reason::none);
  say(wire::kind::rail_lost, 6);
  EXPECT_EQ(p.heard<wire::rail_fields>(wire::kind::rail_closed)->number, 6U);
  EXPECT_FALSE(p.is_shut(*ep));
  say(wire::kind::rail_lost, 5);
  EXPECT_EQ(p.heard<wire::rail_fields>(wire::kind::rail_closed)->number, 5U);
  EXPECT_TRUE(p.is_shut(*ep));
}

// Who has nothing to send would not notice.
TEST_F(rail_to_a_peer, that_ends_at_one_end_is_told_to_the_other) {
  const hello& own = p.said_of_itself();
  auto ep = p.ask(hello_of_rail(own.instance, own.connection, p.known_as(), 5, address_of(own)));
  settle();
  ep.reset();
  settle();
  EXPECT_EQ(p.heard<wire::rail_fields>(wire::kind::rail_closed)->number, 5U);
  say(wire::kind::rail_closed, 1);
  EXPECT_EQ(p.heard<wire::rail_fields>(wire::kind::rail_lost)->number, 1U);
  EXPECT_EQ(v.paths.rails.lost, 1U);
}

TEST_F(rail_to_a_peer, is_not_for_strangers) {
  const hello& own = p.said_of_itself();
  const auto is_refused = [&](std::uint64_t instance, std::uint32_t of_peer, std::uint32_t ours) {
    const auto ep = p.ask(hello_of_rail(instance, of_peer, ours, 5, address_of(own)));
    settle();
    return p.refusal() == wire::reject_reason::no_session;
  };
  EXPECT_TRUE(is_refused(own.instance + 1, own.connection, p.known_as()));
  EXPECT_TRUE(is_refused(own.instance, own.connection + 1, p.known_as()));
  EXPECT_TRUE(is_refused(own.instance, own.connection, p.known_as() + 1));
}

TEST_F(rail_to_a_peer, is_one_of_eight_at_most) {
  const hello& own = p.said_of_itself();
  std::vector<core::unique_fid<fid_ep>> asked;
  for (std::uint32_t n = 1; n <= wire::max_rails; ++n) {
    asked.push_back(
        p.ask(hello_of_rail(own.instance, own.connection, p.known_as(), n, address_of(own))));
    settle();
    EXPECT_EQ(p.refusal(), wire::reject_reason::none);
  }
  asked.push_back(
      p.ask(hello_of_rail(own.instance, own.connection, p.known_as(), 99, address_of(own))));
  settle();
  EXPECT_EQ(p.refusal(), wire::reject_reason::resources);
}

TEST_F(rail_to_a_peer, is_at_an_address_or_the_connection_ends) {
  wire::rail_names_fields names{};
  names.count = wire::max_rails + 1;
  p.say(wire::kind::rail_names, names, sizeof names);
  settle();
  EXPECT_TRUE(p.is_cut_off());
}

}  // namespace
}  // namespace gaudi::proto
