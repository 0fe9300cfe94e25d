// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What an application that asks for it hears of links.
#include "fi/rdm/link_events.hpp"

#include <rdma/fi_eq.h>

#include <array>
#include <string>
#include <vector>

#include "opened.hpp"
#include "unit/tcp_connections.hpp"

namespace gaudi::fi::test {
namespace {

constexpr std::size_t room_for_events = 2;

unique_fid<fid_eq> open_eq(child_count& parent) {
  fi_eq_attr attr{};
  attr.size = room_for_events;
  fid_eq* eq = nullptr;
  EXPECT_EQ(event_queue::open(parent, &attr, &eq, nullptr), 0);
  return unique_fid<fid_eq>(eq);
}

std::vector<fi_gaudi_link_event> read_all(fid_eq* eq) {
  std::vector<fi_gaudi_link_event> all;
  std::uint32_t kind = 0;
  fi_gaudi_link_event event{};
  while (fi_eq_read(eq, &kind, &event, sizeof event, 0) == ssize_t{sizeof event}) {
    EXPECT_EQ(kind, FI_GAUDI_LINK_EVENT);
    all.push_back(event);
  }
  return all;
}

struct told_links : testing::Test {
  told_links() {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(7471);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    other.name = proto::net_address(&at, sizeof at);
    other.address = 3;
  }
  void tell(proto::link_change::kind what) {
    events.link_changed({.what = what,
                         .remote = other,
                         .rail = 2,
                         .error = FI_ECONNRESET,
                         .moved = true,
                         .outage = std::chrono::milliseconds(7)});
  }

  child_count parent;
  unique_fid<fid_eq> eq = open_eq(parent);
  fid of{.fclass = FI_CLASS_EP, .context = this, .ops = nullptr};
  proto::peer other;
  link_events events{of};
};

TEST_F(told_links, have_all_that_is_known) {
  using kind = proto::link_change::kind;
  events.bind(event_queue::of(eq.get()));
  events.want(true);
  const std::pair<kind, fi_gaudi_link_change> names[] = {
      {kind::connection_lost, FI_GAUDI_CONNECTION_LOST},
      {kind::connection_regained, FI_GAUDI_CONNECTION_REGAINED},
      {kind::connection_given_up, FI_GAUDI_CONNECTION_GIVEN_UP},
      {kind::rail_lost, FI_GAUDI_RAIL_LOST},
      {kind::rail_regained, FI_GAUDI_RAIL_REGAINED}};
  for (const auto& [what, name] : names) {
    tell(what);
    const auto all = read_all(eq.get());
    ASSERT_EQ(all.size(), 1U);
    const fi_gaudi_link_event& event = all.front();
    EXPECT_EQ(event.change, std::uint32_t{name});
    EXPECT_EQ(event.fid, &of);
    EXPECT_EQ(event.context, this);
    EXPECT_EQ(event.missed, 0U);
    EXPECT_EQ(event.rail, 2U);
    EXPECT_EQ(event.peer, fi_addr_t{3});
    EXPECT_STREQ(event.peer_name, "fi_sockaddr_in://127.0.0.1:7471");
    EXPECT_EQ(event.error, FI_ECONNRESET);
    EXPECT_EQ(event.moved, 1U);
    EXPECT_EQ(event.outage_us, 7000U);
  }
}

TEST_F(told_links, come_to_who_has_asked_and_has_a_queue) {
  events.want(true);
  tell(proto::link_change::kind::rail_lost);
  events.want(false);
  events.bind(event_queue::of(eq.get()));
  tell(proto::link_change::kind::rail_lost);
  EXPECT_TRUE(read_all(eq.get()).empty());
  events.want(true);
  tell(proto::link_change::kind::rail_lost);
  events.want(false);
  tell(proto::link_change::kind::rail_lost);
  EXPECT_EQ(read_all(eq.get()).size(), 1U);
}

TEST_F(told_links, are_missed_where_nobody_reads_them_and_overrun_nothing) {
  events.bind(event_queue::of(eq.get()));
  events.want(true);
  for (std::size_t i = 0; i < room_for_events + 3; ++i) tell(proto::link_change::kind::rail_lost);
  EXPECT_EQ(read_all(eq.get()).size(), room_for_events);
  tell(proto::link_change::kind::rail_regained);
  tell(proto::link_change::kind::rail_lost);
  const auto all = read_all(eq.get());
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].missed, 3U);
  EXPECT_EQ(all[1].missed, 0U);
}

in_port_t port_of(const endpoint_set& e) {
  sockaddr_in name{};
  std::size_t length = sizeof name;
  EXPECT_EQ(fi_getname(&e.ep->fid, &name, &length), 0);
  return name.sin_port;
}

// As an application has it: over real sockets, which end.
TEST(link_events_option, tells_of_a_connection_that_is_cut) {
  const opened o;
  const unique_fid<fid_eq> eq = [&] {
    fi_eq_attr attr{};
    fid_eq* made = nullptr;
    EXPECT_EQ(fi_eq_open(o.fabric.get(), &attr, &made, nullptr), 0);
    return unique_fid<fid_eq>(made);
  }();
  const endpoint_set sender(o);
  const endpoint_set receiver(o);
  ASSERT_EQ(fi_ep_bind(sender.ep.get(), &eq->fid, 0), 0);
  int wanted = -1;
  std::size_t length = sizeof wanted;
  ASSERT_EQ(fi_getopt(&sender.ep->fid, FI_OPT_ENDPOINT, FI_OPT_GAUDI_LINK_EVENTS, &wanted, &length),
            0);
  EXPECT_EQ(wanted, 0);
  wanted = 1;
  ASSERT_EQ(
      fi_setopt(&sender.ep->fid, FI_OPT_ENDPOINT, FI_OPT_GAUDI_LINK_EVENTS, &wanted, sizeof wanted),
      0);
  EXPECT_EQ(fi_setopt(&sender.ep->fid, FI_OPT_ENDPOINT, FI_OPT_GAUDI_LINK_EVENTS, &wanted, 1),
            -FI_EINVAL);
  const fi_addr_t address = sender.meet(receiver);
  const auto exchange = [&] {
    std::array<char, 4> place{};
    fi_cq_tagged_entry entry{};
    ASSERT_EQ(fi_trecv(receiver.ep.get(), place.data(), place.size(), nullptr, FI_ADDR_UNSPEC, 1, 0,
                       nullptr),
              0);
    ASSERT_EQ(
        retry(sender.cq.get(), [&] { return fi_tinject(sender.ep.get(), "word", 4, address, 1); }),
        0);
    ASSERT_EQ(retry(sender.cq.get(), [&] { return fi_cq_read(receiver.cq.get(), &entry, 1); }), 1);
  };
  exchange();
  ASSERT_NE(gaudi::test::cut_connections_of({port_of(sender), port_of(receiver)}), 0U);

  fi_gaudi_link_event event{};
  std::uint32_t kind = 0;
  const auto read = [&] { return fi_eq_read(eq.get(), &kind, &event, sizeof event, 0); };
  for (const fi_gaudi_link_change expected :
       {FI_GAUDI_CONNECTION_LOST, FI_GAUDI_CONNECTION_REGAINED}) {
    ASSERT_EQ(retry(sender.cq.get(), read), ssize_t{sizeof event});
    EXPECT_EQ(kind, FI_GAUDI_LINK_EVENT);
    EXPECT_EQ(event.change, std::uint32_t{expected});
    EXPECT_EQ(event.fid, &sender.ep->fid);
    EXPECT_EQ(event.peer, address);
  }
  EXPECT_EQ(event.error, 0);
  exchange();
}

}  // namespace
}  // namespace gaudi::fi::test
