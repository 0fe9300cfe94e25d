// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// When an end of a session over RDMA says what it has received, having nothing else to say.
#include <chrono>
#include <string>

#include "sim/audit.hpp"
#include "two_nics.hpp"

namespace gaudi::proto {
namespace {

using namespace std::chrono_literals;
using test::simulated_endpoint;

class word_over_rdma : public testing::Test {
 protected:
  void SetUp() override {
    to_b = a.meet(b);
    b.meet(a);
    exchange();
    pass(100ms);
  }
  void TearDown() override {
    pass(100ms);
    EXPECT_EQ(net.complaint(), "");
  }

  // Applications that look at their queues all the time.
  void pass(std::chrono::milliseconds time) {
    for (auto left = time; left.count() > 0; left -= 1ms) {
      for (auto* e : {&a, &b}) e->progress(1ms);
      net.advance(20'000'000);
    }
  }
  void exchange() {
    const auto memory = test::memory_of(word.data(), word.size());
    room.assign(word.size(), ' ');
    ASSERT_EQ(b.receive(test::memory_of(room.data(), room.size()), 1, &room), 0);
    int ret = a.send(to_b, memory, 1, &word);
    for (int i = 0; i < 100 && ret == -FI_EAGAIN; ++i) {
      pass(1ms);
      ret = a.send(to_b, memory, 1, &word);
    }
    ASSERT_EQ(ret, 0);
    pass(4ms);
    for (int i = 0; i < 100 && (a.queue.empty() || b.queue.empty()); ++i) pass(1ms);
    EXPECT_EQ(a.take().error, 0);
    EXPECT_EQ(b.take().error, 0);
    EXPECT_EQ(room, word);
  }

  sim::network net{test::over_rdma(), sim::rng(1), nullptr};
  simulated_endpoint a{net, net.add_host(0, 5000), test::with_sessions()};
  simulated_endpoint b{net, net.add_host(1, 5001), test::with_sessions()};
  fi_addr_t to_b = 0;
  std::string word = "short";  // of such the core does not tell that they have arrived
  std::string room;
};

// Each word would take a packet of its own. More messages than these would have credits returned.
TEST_F(word_over_rdma, waits_while_messages_come) {
  const auto before = endpoint_audit::packets_sent(*b.ep);
  for (int i = 0; i < 6; ++i) exchange();
  EXPECT_EQ(endpoint_audit::packets_sent(*b.ep).packets, before.packets);
  EXPECT_EQ(endpoint_audit::packets_sent(*a.ep).kept, 6U);
}

TEST_F(word_over_rdma, comes_once_when_they_do_not) {
  const auto before = endpoint_audit::packets_sent(*b.ep);
  exchange();
  pass(100ms);
  EXPECT_EQ(endpoint_audit::packets_sent(*b.ep).packets, before.packets + 1);
  EXPECT_EQ(endpoint_audit::packets_sent(*a.ep).kept, 0U);
}

}  // namespace
}  // namespace gaudi::proto
