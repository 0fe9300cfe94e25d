// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Connections over RDMA that carry nothing any more, of which the core does not tell.
#include <rdma/fi_errno.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "sim/core/objects.hpp"
#include "simulated_endpoint.hpp"

namespace gaudi::proto {
namespace {

using namespace std::chrono_literals;
using test::simulated_endpoint;

constexpr auto timeout = 1000ms;
constexpr auto look = timeout / 4;

sim::conditions over(bool rdma) {
  auto how = test::slow_network();
  how.rdma = rdma;
  how.sessions = true;
  return how;
}

endpoint::settings watching(std::chrono::milliseconds limit) {
  auto s = test::with_sessions();
  s.limits.link_timeout = limit;
  return s;
}

class watched_link : public testing::Test {
 protected:
  explicit watched_link(std::chrono::milliseconds limit = timeout, bool rdma = true)
      : net(over(rdma), sim::rng(1), nullptr),
        a(net, net.add_host(0, 5000), watching(limit)),
        b(net, net.add_host(1, 5001), watching(limit)) {}

  void SetUp() override {
    to_b = a.meet(b);
    b.meet(a);
    b.expose(region, there);
    exchange();
    pass(20 * look);
  }
  void TearDown() override {
    region.leave_core();
    EXPECT_EQ(net.complaint(), "");
  }

  // Both look often enough to see what the time is, and the network is faster than that.
  void pass(std::chrono::milliseconds time, std::chrono::milliseconds step = look) {
    for (; time.count() > 0; time -= step) {
      for (auto* e : {&a, &b}) e->progress(step);
      for (int i = 0; i < 8; ++i) {
        net.advance(10'000'000);
        for (auto* e : {&a, &b}) e->progress(0ms);
      }
    }
  }
  void send() {
    int ret = -FI_EAGAIN;
    for (int i = 0; i < 100 && ret == -FI_EAGAIN; ++i) {
      ret = a.send(to_b, test::memory_of(word.data(), word.size()), 1, &word);
      if (ret) pass(look);
    }
    ASSERT_EQ(ret, 0);
  }
  void receive() {
    room.assign(word.size(), ' ');
    ASSERT_EQ(b.receive(test::memory_of(room.data(), room.size()), 1, &room), 0);
  }
  void exchange() {
    receive();
    send();
    pass(10 * look);
    EXPECT_EQ(a.take().error, 0);
    EXPECT_EQ(b.take().error, 0);
    EXPECT_EQ(room, word);
  }
  void read(std::size_t length) {
    here.resize(length);
    const auto memory = test::memory_of(here.data(), length);
    ASSERT_EQ(a.ep->read(memory, {.target = to_b,
                                  .address = region.address,
                                  .key = region.key,
                                  .completion = a.completion(&here)}),
              0);
  }
  void fall_silent() { ASSERT_TRUE(net.silence_connection(0, 1, 0)); }
  [[nodiscard]] std::uint64_t losses() const {
    return a.paths.connections.interrupted + b.paths.connections.interrupted;
  }

  sim::network net;
  simulated_endpoint a;
  simulated_endpoint b;
  fi_addr_t to_b = 0;
  std::string word = "it comes all the same";
  std::string room;
  std::vector<std::byte> here;
  std::vector<std::byte> there = std::vector<std::byte>(std::size_t{64} << 20);
  reg::region region;
};

TEST_F(watched_link, that_carries_no_message_is_made_again) {
  fall_silent();
  receive();
  send();
  pass(3 * timeout);
  EXPECT_EQ(room, word);
  EXPECT_EQ(losses(), 2U);  // each end's
  EXPECT_EQ(a.paths.again.packets, 1U);
  EXPECT_EQ(a.paths.again.rma, 0U);
}

TEST_F(watched_link, that_carries_no_rma_is_made_again) {
  std::fill(there.begin(), there.end(), std::byte{7});
  fall_silent();
  read(100);
  pass(3 * timeout);
  EXPECT_EQ(a.take().error, 0);
  EXPECT_EQ(here, std::vector<std::byte>(100, std::byte{7}));
  EXPECT_EQ(a.paths.again.rma, 1U);
}

// What the peer sent is not here, and who waits for it sends nothing.
TEST_F(watched_link, is_looked_at_while_an_operation_waits_for_the_peer) {
  word.assign(20'000, 'x');  // a rendezvous, whose receive comes later
  send();
  pass(5 * look);
  fall_silent();
  pass(3 * timeout);
  EXPECT_EQ(a.paths.connections.resumed, 1U);
  receive();
  pass(3 * timeout);
  EXPECT_EQ(room, word);
}

TEST_F(watched_link, is_not_lost_before_its_time) {
  fall_silent();
  read(100);
  pass(timeout);
  EXPECT_EQ(losses(), 0U);
}

TEST_F(watched_link, has_more_time_for_a_long_operation) {
  fall_silent();
  read(there.size());  // 671 ms at 100 MB/s
  pass(timeout + 500ms);
  EXPECT_EQ(losses(), 0U);
  pass(timeout);
  EXPECT_EQ(losses(), 2U);
}

TEST_F(watched_link, is_not_lost_while_the_application_makes_no_progress) {
  for (int i = 0; i < 5; ++i) {
    read(100);
    a.clock.at += 1h;
    pass(2 * look);
    EXPECT_EQ(a.take().error, 0);
  }
  EXPECT_EQ(losses(), 0U);
}

TEST_F(watched_link, is_not_lost_while_one_operation_after_the_other_ends) {
  for (int i = 0; i < 20; ++i) {
    read(100);  // under way at the next look
    pass(look);
  }
  EXPECT_EQ(losses(), 0U);
}

// The core ends the connection with it; to do it again would end the next one, too.
TEST_F(watched_link, does_nothing_again_that_the_peer_has_refused) {
  ++region.key;  // of nothing
  read(100);
  pass(20 * timeout);  // long enough for many attempts
  --region.key;
  EXPECT_EQ(a.take().error, FI_EACCES);
  EXPECT_EQ(a.paths.again.rma, 0U);
  EXPECT_EQ(a.paths.connections.interrupted, 1U);
  exchange();
}

// A NIC can tell of that long before it tells of the end of the connection.
TEST_F(watched_link, is_made_again_where_what_was_to_try_it_fails) {
  receive();
  send();
  fall_silent();
  const auto is_probe = [](const auto& op) {
    return op->what == sim::operation::kind::write && op->length == 0;
  };
  sim::wire_connection& wire = *net.connections().front();
  auto& reporting = wire.ends[0].reporting;
  auto probe = reporting.end();
  for (int i = 0; i < 20 && probe == reporting.end(); ++i) {
    a.progress(look / 4);
    probe = std::find_if(reporting.begin(), reporting.end(), is_probe);
  }
  ASSERT_NE(probe, reporting.end());
  const auto op = *probe;
  reporting.erase(probe);
  op->ended = true;
  sim::core_completions& queue = *net.queues().at(op->queue);
  --queue.under_way;
  queue.report({{op->context, FI_RMA, 0}, FI_EIO, 0});
  for (int i = 0; i < 20; ++i) a.progress(2ms);
  EXPECT_EQ(a.paths.connections.interrupted, 1U);
  pass(3 * timeout);
  EXPECT_EQ(a.take().error, 0);
  EXPECT_EQ(b.take().error, 0);
  EXPECT_EQ(room, word);
}

TEST_F(watched_link, that_is_idle_carries_nothing) {
  const auto before = net.next_number();
  pass(1min);
  EXPECT_EQ(net.next_number() - before, 1U);
  exchange();
  pass(1min);
  const auto after = net.next_number();
  pass(1min);
  EXPECT_EQ(net.next_number() - after, 1U);
}

struct unwatched_link : watched_link {
  unwatched_link() : watched_link(0ms) {}
};

TEST_F(unwatched_link, waits_for_what_the_core_says) {
  fall_silent();
  read(100);
  pass(1min);
  EXPECT_EQ(losses(), 0U);
  EXPECT_TRUE(a.queue.empty());
}

struct stream_link : watched_link {
  stream_link() : watched_link(timeout, false) {}
};

TEST_F(stream_link, is_the_kernels_to_watch) {
  const auto before = net.next_number();
  pass(1min);
  EXPECT_EQ(net.next_number() - before, 1U);
  fall_silent();
  read(100);
  pass(1min);
  EXPECT_EQ(losses(), 0U);
}

}  // namespace
}  // namespace gaudi::proto
