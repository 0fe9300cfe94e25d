// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Which answers to a peer on this host go by the ring, and which the peer reads where they are.
#include "peer_by_hand.hpp"

namespace gaudi::proto::test {
namespace {

class reads_of_a_neighbour : public testing::Test {
 protected:
  static constexpr std::size_t most = 1000;
  static constexpr std::uint64_t key = 5;

  reads_of_a_neighbour() { v.expose(region, bytes, key); }
  ~reads_of_a_neighbour() override {
    v.keys.remove(region);
    v.ep.reset();
    region.leave_core();
  }
  static endpoint::settings by_ring_up_to() {
    auto s = small_settings();
    s.kernel = &ipc::host_kernel::real();
    s.max_by_ring = most;
    return s;
  }
  void read(std::size_t length) {
    p.say(wire::kind::read, wire::rma_fields{.head = {},
                                             .operation = 77,
                                             .address = region.address,
                                             .key = region.key,
                                             .length = length,
                                             .data = 0});
    p.settle();
  }

  std::vector<std::byte> bytes = counting(2 * most);
  reg::region region;
  endpoint_by_itself v{by_ring_up_to()};
  peer_by_hand p{v, packet_way::ring};
};

TEST_F(reads_of_a_neighbour, are_answered_by_ring_up_to_the_limit) {
  read(most);
  EXPECT_EQ(p.waiting(wire::kind::read_reply), 1U);
  EXPECT_EQ(p.waiting(wire::kind::read_rts), 0U);
  read(most + 1);
  EXPECT_EQ(p.waiting(wire::kind::read_reply), 1U);
  EXPECT_EQ(p.waiting(wire::kind::read_rts), 1U);
}

}  // namespace
}  // namespace gaudi::proto::test
