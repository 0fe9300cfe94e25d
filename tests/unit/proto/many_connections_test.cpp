// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// More peers than an endpoint may have connections with.
#include <rdma/fi_errno.h>

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <vector>

#include "sim/audit.hpp"
#include "simulated_endpoint.hpp"

namespace gaudi::proto {
namespace {

using std::chrono::milliseconds;
using test::simulated_endpoint;

endpoint::settings with_at_most(std::size_t connections) {
  auto s = test::small_settings();
  s.kernel = nullptr;
  s.rx_buffers = 16;
  s.limits.most = connections;
  return s;
}

/// How many operations have ended well.
unsigned take_all_good(simulated_endpoint& of) {
  unsigned count = 0;
  for (cq_entry e = of.take(); e.error != FI_ENODATA; e = of.take()) {
    EXPECT_EQ(e.error, 0);
    ++count;
  }
  return count;
}

/// Endpoints of one network.
struct simulated_job {
  simulated_job(unsigned size, std::size_t connections) {
    for (unsigned i = 0; i < size; ++i)
      all.push_back(std::make_unique<simulated_endpoint>(
          net, net.add_host(i, static_cast<std::uint16_t>(5000 + i)), with_at_most(connections)));
    numbers.resize(size);
    std::iota(numbers.begin(), numbers.end(), 0U);
  }
  /// All know each other by their numbers.
  void meet() {
    for (auto& each : all)
      for (auto& other : all) each->meet(*other);
  }

  void pass(milliseconds time) {
    net.advance(1'000'000);
    for (auto& each : all) {
      each->progress(time);
      most = std::max(most, endpoint_audit::connections(*each->ep));
    }
  }
  void settle(milliseconds step = milliseconds(10)) {
    for (int i = 0; i < 40; ++i) pass(step);
  }
  void send(unsigned from, unsigned to) {
    simulated_endpoint& s = *all[from];
    ASSERT_EQ(s.send(to, test::memory_of(&numbers[from], sizeof numbers[from]), from, nullptr), 0);
  }
  /// A message of each of the first ones to the last one.
  void send_to_last(const std::vector<unsigned>& senders) {
    const auto last = static_cast<unsigned>(all.size()) - 1;
    for (const unsigned from : senders) send(from, last);
    settle();
  }
  [[nodiscard]] std::uint64_t closed(unsigned at) const {
    return all[at]->paths.connections.closed;
  }

  sim::network net{test::slow_network(), sim::rng(1), nullptr};
  std::vector<std::unique_ptr<simulated_endpoint>> all;
  std::vector<unsigned> numbers;
  std::size_t most = 0;  // connections that one had
};

// Everybody sends to everybody at once, and each of them waits for what it gets.
TEST(many_connections, stay_within_their_limit_and_lose_nothing) {
  constexpr unsigned size = 12;
  constexpr std::size_t limit = 4;
  simulated_job job(size, limit);
  job.meet();
  std::vector<std::vector<unsigned>> got(size, std::vector<unsigned>(size, size));
  for (unsigned at = 0; at < size; ++at) {
    for (unsigned other = 0; other < size; ++other) {
      if (other == at) continue;
      unsigned& room = got[at][other];
      ASSERT_EQ(job.all[at]->receive(test::memory_of(&room, sizeof room), other, nullptr), 0);
      job.send(at, other);
    }
  }
  unsigned ended = 0;
  for (int i = 0; i < 20'000 && ended < 2 * size * (size - 1); ++i) {
    job.pass(milliseconds(1));
    for (auto& each : job.all) ended += take_all_good(*each);
  }
  EXPECT_EQ(ended, 2 * size * (size - 1));
  for (unsigned at = 0; at < size; ++at)
    for (unsigned other = 0; other < size; ++other)
      EXPECT_EQ(got[at][other], other == at ? size : other) << at << " of " << other;
  EXPECT_LE(job.most, limit);
  EXPECT_EQ(job.all[0]->paths.connections.lost, 0U);
  EXPECT_GT(job.closed(0), 0U);
}

// All of them send to one at once, as at the start of a job, and it to them.
TEST(many_connections, of_one_with_a_thousand_are_made_in_turn) {
  constexpr unsigned peers = 1000;
  constexpr std::size_t limit = 64;
  simulated_job job(peers + 1, limit);
  simulated_endpoint& hub = *job.all[peers];
  std::vector<unsigned> got(2 * peers, peers);
  for (unsigned i = 0; i < peers; ++i) {
    hub.meet(*job.all[i]);
    job.all[i]->meet(hub);
    for (const bool at_hub : {false, true}) {
      unsigned& room = got[at_hub ? i : peers + i];
      simulated_endpoint& end = at_hub ? hub : *job.all[i];
      ASSERT_EQ(end.receive(test::memory_of(&room, sizeof room), at_hub ? i : peers, nullptr), 0);
    }
    job.send(i, 0);
    ASSERT_EQ(hub.send(i, test::memory_of(&job.numbers[i], sizeof(unsigned)), peers, nullptr), 0);
  }
  unsigned ended = 0;
  for (int i = 0; i < 20'000 && ended < 4 * peers; ++i) {
    job.pass(milliseconds(1));
    for (auto& each : job.all) ended += take_all_good(*each);
  }
  EXPECT_EQ(ended, 4 * peers);
  for (unsigned i = 0; i < peers; ++i) {
    EXPECT_EQ(got[i], i);
    EXPECT_EQ(got[peers + i], i);
  }
  EXPECT_LE(job.most, limit);
}

// In neighbourhoods of 8, within which everybody sends to everybody else.
TEST(many_connections_slow, of_ten_thousand_endpoints_are_made_and_closed) {
  constexpr unsigned endpoints = 10'000;
  constexpr unsigned neighbours = 8;
  constexpr std::size_t limit = 3;
  simulated_job job(endpoints, limit);
  std::vector<std::array<unsigned, neighbours>> got(endpoints);
  for (unsigned at = 0; at < endpoints; ++at) {
    got[at].fill(endpoints);
    const unsigned first = at / neighbours * neighbours;
    for (unsigned i = 0; i < neighbours; ++i) job.all[at]->meet(*job.all[first + i]);
    for (unsigned i = 0; i < neighbours; ++i) {
      if (first + i == at) continue;
      unsigned& room = got[at][i];
      ASSERT_EQ(job.all[at]->receive(test::memory_of(&room, sizeof room), first + i, nullptr), 0);
      job.send(at, i);
    }
  }
  const unsigned operations = 2 * endpoints * (neighbours - 1);
  unsigned ended = 0;
  for (int i = 0; i < 20'000 && ended < operations; ++i) {
    job.pass(milliseconds(1));
    for (auto& each : job.all) ended += take_all_good(*each);
  }
  EXPECT_EQ(ended, operations);
  for (unsigned at = 0; at < endpoints; ++at) {
    const unsigned first = at / neighbours * neighbours;
    for (unsigned i = 0; i < neighbours; ++i)
      EXPECT_EQ(got[at][i], first + i == at ? endpoints : first + i) << at << " of " << i;
  }
  EXPECT_LE(job.most, limit);
  EXPECT_GT(job.closed(0), 0U);
}

// The last one has room for four, and five who send to it.
TEST(many_connections, are_closed_where_nothing_has_come_for_the_longest) {
  for (const unsigned unused : {0U, 1U, 2U, 3U}) {
    simulated_job job(6, 5);
    job.meet();
    job.send_to_last({0, 1, 2, 3});
    std::vector<unsigned> used{0, 1, 2, 3};
    std::erase(used, unused);
    job.settle(milliseconds(20));
    job.send_to_last(used);
    job.settle(milliseconds(20));
    job.send_to_last({4});
    for (unsigned i = 0; i < 5; ++i) EXPECT_EQ(job.closed(i), i == unused ? 1U : 0U) << i;
  }
}

TEST(many_connections, are_closed_by_nobody_while_there_is_room) {
  simulated_job job(6, 6);
  job.meet();
  job.send_to_last({0, 1, 2, 3, 4});
  job.settle(milliseconds(1000));
  EXPECT_EQ(job.closed(5), 0U);
}

// Its one connection waits for a message that the application has no receive for.
TEST(many_connections, are_more_where_all_are_in_use) {
  simulated_job job(3, 1);
  job.meet();
  std::vector<std::byte> bytes(100'000);
  simulated_endpoint& busy = *job.all[0];
  ASSERT_EQ(busy.send(1, test::memory_of(bytes.data(), bytes.size()), 0, nullptr), 0);
  job.settle();
  job.send(0, 2);
  job.settle(milliseconds(1));
  EXPECT_EQ(busy.paths.connections.made, 1U);
  job.settle(milliseconds(50));
  EXPECT_EQ(busy.paths.connections.made, 2U) << "and closed again, as it is idle";
  EXPECT_EQ(busy.take().error, 0);
}

}  // namespace
}  // namespace gaudi::proto
