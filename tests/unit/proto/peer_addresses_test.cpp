// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Peers of which the address is known before anything is sent to them, or heard of them.
#include "proto/connection/peer_addresses.hpp"

#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include <cstddef>

#include "proto/peer/peer_registry.hpp"
#include "simulated_endpoint.hpp"

namespace gaudi::proto {
namespace {

using test::memory_of;
using test::simulated_endpoint;

struct numbers_in_order final : peer_numbers {
  std::uint32_t number_of(const net_address&) override { return ++last; }
  void forget_number_of(const net_address&) noexcept override {}
  std::uint32_t last = 0;
};

net_address name_at_port(std::uint16_t port) {
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_port = htons(port);
  in.sin_addr.s_addr = htonl(0x0a000001);
  return {&in, sizeof in};
}

TEST(peers_of_a_registry, have_the_lowest_address_of_their_name) {
  numbers_in_order numbers;
  address_vector addresses;
  peer_registry peers(0, numbers);
  peers.use(&addresses);
  ASSERT_TRUE(addresses.add(name_at_port(1)));
  ASSERT_TRUE(addresses.add(name_at_port(2)));
  ASSERT_TRUE(addresses.add(name_at_port(2)));
  EXPECT_EQ(peers.find(name_at_port(2)), nullptr);
  EXPECT_EQ(peers.named(name_at_port(2)).address, 1U);
  EXPECT_EQ(peers.named(name_at_port(3)).address, FI_ADDR_NOTAVAIL);
  EXPECT_EQ(peers.find(name_at_port(2)), &peers.named(name_at_port(2)));
  EXPECT_EQ(peers.all().size(), 2U);
}

// Anybody can invent names: those that nothing is kept of are never more than the others.
TEST(peers_of_a_registry, are_forgotten_when_as_many_are_unused_as_are_in_use) {
  constexpr std::uint16_t in_use = 1024;
  numbers_in_order numbers;
  peer_registry peers(0, numbers);
  std::uint16_t port = 0;
  while (port < in_use) peers.named(name_at_port(++port)).early = 1;
  while (port < 5 * in_use) {
    peers.named(name_at_port(++port));
    ASSERT_LE(peers.all().size(), 2U * in_use);
  }
  for (port = 1; port <= in_use; ++port) ASSERT_NE(peers.find(name_at_port(port)), nullptr);
}

// Its memory is another's by then.
TEST(peers_of_a_registry, are_not_found_when_they_are_forgotten) {
  numbers_in_order numbers;
  peer_registry peers(0, numbers);
  std::uint16_t port = 0;
  do {
    peers.named(name_at_port(++port));
  } while (peers.all().size() == port);
  ASSERT_EQ(peers.all().size(), 1U);
  EXPECT_EQ(peers.find(name_at_port(1)), nullptr);
  EXPECT_EQ(peers.named(name_at_port(1)).number, port + 1U) << "it is another one";
  EXPECT_EQ(peers.find(name_at_port(port)), peers.all().front().get());
}

class peers_by_address : public testing::Test, protected test::simulated_hosts {
 protected:
  void TearDown() override {
    for (int i = 0; i < 500; ++i) step();
    EXPECT_EQ(net.complaint(), "");
  }
  void step() {
    for (simulated_endpoint* each : {&a, &b}) each->progress(std::chrono::milliseconds(1));
    net.advance(100'000);
  }
  /// Whom a message of a's is from, as b's completion says.
  fi_addr_t source_of_message() {
    EXPECT_EQ(b.receive(memory_of(&received, 1), 1, nullptr), 0);
    int ret = -FI_EAGAIN;
    for (int i = 0; i < 2000 && ret == -FI_EAGAIN; ++i, step())
      ret = a.send(to_b, memory_of(&sent, 1), 1, nullptr);
    EXPECT_EQ(ret, 0);
    for (int i = 0; i < 2000 && b.queue.empty(); ++i) step();
    return b.take().source;
  }

  std::byte sent{1};
  std::byte received{};
  simulated_endpoint a{net, here, test::with_sessions()};
  simulated_endpoint b{net, there, test::with_sessions()};
  fi_addr_t to_b = a.meet(b);
};

TEST_F(peers_by_address, are_known_by_it_though_they_call_first) {
  b.meet(name_at_port(1));
  const fi_addr_t of_a = b.meet(a);
  b.meet(a);
  EXPECT_EQ(source_of_message(), of_a);
}

TEST_F(peers_by_address, are_known_by_it_from_when_it_is_inserted) {
  EXPECT_EQ(source_of_message(), FI_ADDR_NOTAVAIL);
  const fi_addr_t of_a = b.meet(a);
  EXPECT_EQ(source_of_message(), of_a);
}

TEST_F(peers_by_address, are_not_known_by_one_that_was_removed) {
  const fi_addr_t of_a = b.meet(a);
  const fi_addr_t another = b.meet(a);
  EXPECT_EQ(source_of_message(), of_a);
  ASSERT_TRUE(b.addresses.remove(of_a));
  EXPECT_EQ(source_of_message(), another) << "nothing was ever sent to it";
  ASSERT_TRUE(b.addresses.remove(another));
  EXPECT_EQ(source_of_message(), FI_ADDR_NOTAVAIL);
}

TEST_F(peers_by_address, can_be_sent_to_by_each_that_they_have) {
  const fi_addr_t another = a.meet(b);
  EXPECT_EQ(source_of_message(), FI_ADDR_NOTAVAIL);
  to_b = another;
  EXPECT_EQ(source_of_message(), FI_ADDR_NOTAVAIL);
  EXPECT_EQ(a.send(another + 1, memory_of(&sent, 1), 1, nullptr), -FI_EINVAL);
}

}  // namespace
}  // namespace gaudi::proto
