// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Device memory that a message comes to, as the NIC comes to know it.
#include "../device/fake_driver.hpp"
#include "../reg/looping_nic.hpp"
#include "peer_by_hand.hpp"

namespace gaudi::proto::test {
namespace {

class sink_without_a_descriptor : public testing::Test {
 protected:
  static constexpr std::size_t length = 20'000;

  ~sink_without_a_descriptor() override { v.ep.reset(); }
  endpoint::settings with_registrar() {
    auto s = small_settings();
    s.kernel = nullptr;
    s.dmabufs.registrar = &dmabufs;
    return s;
  }

  gaudi::test::fake_driver driver;
  std::shared_ptr<device::device> on = *device::device::open(driver.thunk(), {});
  std::uint64_t address = *on->allocate(length);
  gaudi::test::looping_nic nic;
  reg::dmabuf_registrar dmabufs{
      nic.core(), base::dmabuf_choice::automatic, {.count = 8, .bytes = 1ULL << 40}};
  endpoint_by_itself v{with_registrar()};
  peer_by_hand p{v};
};

// Else all of it would be copied through host memory.
TEST_F(sink_without_a_descriptor, is_made_known_to_the_nic_for_writes_of_the_peer) {
  const auto memory = local_memory::of({address, length, nullptr, on.get()});
  ASSERT_EQ(v.ep->receives().receive(memory, {.completion = v.completion()}), 0);
  p.announce(77, length);
  p.settle();
  EXPECT_EQ(nic.dmabufs, 1U);
  EXPECT_EQ(nic.last_access & (FI_REMOTE_READ | FI_REMOTE_WRITE), FI_REMOTE_WRITE);
  const auto granted = p.heard<wire::cts_fields>(wire::kind::cts);
  ASSERT_TRUE(granted);
  EXPECT_EQ(granted->segments[0].address, address);
}

}  // namespace
}  // namespace gaudi::proto::test
