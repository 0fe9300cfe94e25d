// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/channel/ring_watch.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <deque>
#include <memory>
#include <vector>

#include "../base/scarce_memory.hpp"
#include "endpoint_node.hpp"
#include "proto/connection/connection.hpp"

namespace gaudi::proto {
namespace {

using namespace std::chrono_literals;

/// A peer on this host, as far as its ring goes.
struct watched_peer {
  static constexpr std::size_t capacity = 1024;

  void say() {
    ASSERT_NE(writer.reserve(8), nullptr);
    (void)writer.commit(false);
  }

  peer remote{};
  connection c{remote, connection_state::connected};
  ipc::ring_control control;
  alignas(8) std::array<std::byte, capacity> data{};
  ipc::ring_writer writer{control, data.data(), capacity};
  ipc::ring_reader reader{control, data.data(), capacity};
};

class watched_rings : public testing::Test {
 protected:
  void watch(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      watched_peer& p = peers.emplace_back();
      ASSERT_TRUE(watch_.add(p.c, p.reader));
    }
  }
  // Whose packet was taken.
  bool take(const connection& c) {
    for (watched_peer& p : peers) {
      if (&p.c != &c || p.reader.front().empty()) continue;
      p.reader.pop();
      taken.push_back(&p);
      return true;
    }
    return false;
  }
  bool look() {
    return watch_.look([this](connection& c) { return take(c); });
  }
  bool look_shortly() {
    return watch_.look_at_busy_only([this](connection& c) { return take(c); });
  }
  void let_all_fall_quiet() {
    for (unsigned i = 0; i < ring_watch::looks_until_quiet; ++i) EXPECT_FALSE(look());
  }
  // How many looks it takes until the packet is taken.
  unsigned looks_for(watched_peer& p) {
    p.say();
    for (unsigned looks = 1; looks <= 1000; ++looks) {
      if (look()) return taken.back() == &p ? looks : 0;
    }
    return 0;
  }

  test::driven_clock clock;
  std::deque<watched_peer> peers;
  std::vector<watched_peer*> taken;
  ring_watch watch_{base::clock(clock)};
};

TEST_F(watched_rings, of_peers_that_speak_are_looked_at_each_time) {
  watch(100);
  for (watched_peer& p : peers) EXPECT_EQ(looks_for(p), 1U);
}

TEST_F(watched_rings, of_peers_that_speak_now_and_then_are_looked_at_each_time) {
  watch(10 * ring_watch::quiet_at_once);
  let_all_fall_quiet();
  watched_peer& speaks = peers.back();
  EXPECT_NE(looks_for(speaks), 0U);
  for (int round = 0; round < 3; ++round) {
    for (unsigned i = 0; i + 1 < ring_watch::looks_until_quiet; ++i) EXPECT_FALSE(look());
    EXPECT_EQ(looks_for(speaks), 1U);
  }
}

TEST_F(watched_rings, of_all_that_speak_are_looked_at_shortly) {
  watch(3);
  EXPECT_FALSE(look_shortly());
  peers[0].say();
  peers[2].say();
  EXPECT_TRUE(look_shortly());
  EXPECT_EQ(taken, (std::vector{&peers[0], &peers[2]}));
  EXPECT_FALSE(look_shortly());
}

TEST_F(watched_rings, have_no_more_short_look_where_something_is_not_taken) {
  watch(2);
  for (watched_peer& p : peers) p.say();
  unsigned looked_at = 0;
  EXPECT_FALSE(watch_.look_at_busy_only([&](connection&) { return ++looked_at == 0; }));
  EXPECT_EQ(looked_at, 1U);
}

TEST_F(watched_rings, that_are_quiet_are_not_looked_at_shortly) {
  watch(2);
  let_all_fall_quiet();
  peers[1].say();
  EXPECT_FALSE(look_shortly());
  EXPECT_TRUE(look());
}

TEST_F(watched_rings, of_peers_that_are_heard_shortly_now_and_then_are_looked_at_each_time) {
  watch(10 * ring_watch::quiet_at_once);
  let_all_fall_quiet();
  watched_peer& speaks = peers.back();
  EXPECT_NE(looks_for(speaks), 0U);
  for (int round = 0; round < 3; ++round) {
    for (unsigned i = 0; i + 1 < ring_watch::looks_until_quiet; ++i) EXPECT_FALSE(look());
    speaks.say();
    EXPECT_TRUE(look_shortly());
  }
}

TEST_F(watched_rings, that_are_few_are_looked_at_each_time_though_they_are_quiet) {
  watch(ring_watch::quiet_at_once);
  let_all_fall_quiet();
  for (watched_peer& p : peers) EXPECT_EQ(looks_for(p), 1U);
}

TEST_F(watched_rings, that_are_many_and_quiet_have_their_turns) {
  watch(10 * ring_watch::quiet_at_once);
  let_all_fall_quiet();
  unsigned most = 0;
  for (watched_peer& p : peers) {
    const unsigned looks = looks_for(p);
    EXPECT_NE(looks, 0U);
    most = std::max(most, looks);
    EXPECT_EQ(looks_for(p), 1U) << "one that has spoken is looked at each time again";
    let_all_fall_quiet();
  }
  EXPECT_GT(most, 1U);
  EXPECT_LE(most, 11U);
}

TEST_F(watched_rings, are_all_looked_at_by_who_looks_rarely) {
  watch(10 * ring_watch::quiet_at_once);
  let_all_fall_quiet();
  for (watched_peer& p : peers) {
    clock.at += ring_watch::max_round;
    EXPECT_EQ(looks_for(p), 1U);
    let_all_fall_quiet();
  }
}

TEST_F(watched_rings, are_all_looked_at_by_who_looks_rarely_though_two_speak_at_once) {
  watch(10 * ring_watch::quiet_at_once);
  for (std::size_t i = 0; i < peers.size(); ++i) {
    let_all_fall_quiet();
    taken.clear();
    peers[i].say();
    peers[(i + 1) % peers.size()].say();
    clock.at += ring_watch::max_round;
    EXPECT_TRUE(look());
    EXPECT_EQ(taken.size(), 2U);
    while (taken.size() < 2) look();
  }
}

TEST_F(watched_rings, have_their_turns_though_all_speak) {
  watch(10 * ring_watch::quiet_at_once);
  let_all_fall_quiet();
  for (watched_peer& p : peers) p.say();
  for (std::size_t looks = 1; looks <= 10; ++looks) {
    EXPECT_TRUE(look());
    EXPECT_EQ(taken.size(), looks * ring_watch::quiet_at_once);
  }
}

TEST_F(watched_rings, are_all_looked_at_where_that_is_expected) {
  watch(10 * ring_watch::quiet_at_once);
  let_all_fall_quiet();
  for (watched_peer& p : peers) p.say();
  watch_.expect_all();
  EXPECT_TRUE(look());
  EXPECT_EQ(taken.size(), peers.size());
}

/// Of so many that have all fallen quiet. Peer i + 1 is at place i then, and the first one at the
/// last place.
class round_of_turns : public watched_rings {
 protected:
  static constexpr auto half = ring_watch::max_round / 2;

  void begin(std::size_t count) {
    watch(count);
    let_all_fall_quiet();
    clock.at += ring_watch::max_round;
    EXPECT_FALSE(look()) << "at all, as it is late: the next round begins";
  }
  void looks_that_find_nothing(unsigned count) {
    for (unsigned i = 0; i < count; ++i) EXPECT_FALSE(look());
  }
  // Of a peer that has no turn now: they are all looked at where the round is late.
  bool is_found_after_half(watched_peer& p) {
    p.say();
    clock.at += half;
    return look();
  }
};

TEST_F(round_of_turns, is_over_when_all_have_had_theirs) {
  begin(3 * ring_watch::quiet_at_once);
  clock.at += half;
  looks_that_find_nothing(3);
  EXPECT_FALSE(is_found_after_half(peers[20])) << "the next one began with the third look";
}

TEST_F(round_of_turns, is_not_over_before_the_last_one_had_its_turn) {
  begin(3 * ring_watch::quiet_at_once + 1);
  clock.at += half;
  looks_that_find_nothing(3);
  EXPECT_TRUE(is_found_after_half(peers[20])) << "it is late";
}

// The last one takes the place of one that goes, where others have been looked at.
TEST_F(round_of_turns, begins_anew_when_one_goes) {
  begin(3 * ring_watch::quiet_at_once + 2);
  looks_that_find_nothing(2);
  watch_.remove(peers[5].c);
  clock.at += half;
  looks_that_find_nothing(3);
  EXPECT_TRUE(is_found_after_half(peers[13]));
}

TEST_F(round_of_turns, begins_anew_when_one_speaks) {
  begin(3 * ring_watch::quiet_at_once + 2);
  peers[1].say();
  EXPECT_TRUE(look());
  clock.at += half;
  looks_that_find_nothing(3);
  EXPECT_TRUE(is_found_after_half(peers[21]));
}

TEST_F(watched_rings, may_go_whenever_they_like) {
  watch(30);
  for (watched_peer& p : peers) p.say();
  bool first = true;
  EXPECT_TRUE(watch_.look([&](connection& c) {
    if (!std::exchange(first, false)) return take(c);
    watch_.remove(c);  // itself, and those beside it
    watch_.remove(peers[1].c);
    watch_.remove(peers[29].c);
    return false;
  }));
  EXPECT_EQ(taken.size(), 27U);
  let_all_fall_quiet();
  watch_.remove(peers[7].c);
  watch_.remove(peers[8].c);
  taken.clear();
  for (watched_peer& p : peers) p.say();
  watch_.expect_all();
  EXPECT_TRUE(look());
  EXPECT_EQ(taken.size(), 25U);
  for (watched_peer& p : peers) watch_.remove(p.c);
  EXPECT_TRUE(watch_.empty());
  EXPECT_FALSE(look());
}

TEST_F(watched_rings, are_not_watched_where_there_is_no_memory_for_another) {
  watched_peer p;
  {
    const gaudi::test::scarce_memory none(0);
    EXPECT_FALSE(watch_.add(p.c, p.reader));
  }
  EXPECT_TRUE(watch_.empty());
}

}  // namespace
}  // namespace gaudi::proto
