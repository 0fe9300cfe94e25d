// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Requests of a peer that concern memory of a device which is in the hands of the test.
#include <rdma/fi_errno.h>

#include "device_by_hand.hpp"
#include "peer_by_hand.hpp"
#include "reg/nic_loopback.hpp"
#include "reg/write_flush.hpp"

namespace gaudi::proto {
namespace {

struct driver_that_flushes {
  test::device_by_hand dev;
  sim::network alone{test::slow_network(), sim::rng(1), nullptr};
  std::unique_ptr<core::inner_domain> core = open_alone();
  reg::nic_loopback loop{*core};
  reg::write_flush flush{loop, base::flush_choice::driver};

 private:
  std::unique_ptr<core::inner_domain> open_alone() {
    sim::host& at = alone.add_host(0, 6000);
    return *core::inner_domain::open_over(alone.fabric_for(at), alone.info_for(at), {},
                                          FI_VERSION(2, 1));
  }
};

class requests_for_a_device : protected driver_that_flushes, public testing::Test {
 protected:
  static constexpr std::uint64_t key = 5;

  requests_for_a_device() {
    v.devices.add(dev.gaudi);
    EXPECT_TRUE(v.keys.add_requested(dev.memory, key));
  }
  ~requests_for_a_device() override {
    v.keys.remove(dev.memory);
    v.ep.reset();
    v.devices.clear();
  }
  static endpoint::settings flushed_by(reg::write_flush* flush) {
    auto s = test::small_settings();
    s.kernel = nullptr;
    s.flush = flush;
    return s;
  }
  void say_read(std::uint64_t length) {
    wire::rma_fields fields{};
    fields.operation = 77;
    fields.address = dev.memory.address;
    fields.key = key;
    fields.length = length;
    p.say(wire::kind::read, fields);
    p.settle();
  }
  void say_written(std::uint64_t address) {
    p.say(wire::kind::event,
          wire::event_fields{.head = {}, .data = 7, .length = 5, .address = address});
    p.settle();
  }

  test::endpoint_by_itself v{flushed_by(&flush)};
  test::peer_by_hand p{v};
};

// Else the peer has none left after some of them.
TEST_F(requests_for_a_device, have_their_credit_back_where_nothing_can_be_copied) {
  dev.refuse_mappings();
  const unsigned count = 2 * p.data_window();
  for (unsigned i = 0; i < count; ++i) {
    say_read(100);
    const auto fin = p.heard<wire::fin_fields>(wire::kind::fin);
    ASSERT_TRUE(fin);
    EXPECT_EQ(fin->operation, 77U);
    EXPECT_EQ(fin->status, FI_ENOMEM);
  }
  EXPECT_FALSE(p.is_cut_off());
  EXPECT_GE(p.data_credits() + p.data_window() / 2, count);
}

// The peer would take whatever is in the buffer for the message.
TEST_F(requests_for_a_device, get_nothing_of_a_message_that_the_device_did_not_give_out) {
  constexpr std::size_t length = 20'000;
  std::vector<std::byte> there(length, std::byte{'.'});
  ASSERT_EQ(v.send(p.address(), dev.part(length), 1, &v), 0);
  p.settle();
  const auto rts = p.heard<wire::eager_fields>(wire::kind::rts);
  ASSERT_TRUE(rts);
  p.grant(rts->operation, 77, length, p.expose(there), 0);
  p.settle();
  dev.engine.finish_all(hl::cs_status::aborted);
  p.settle();
  EXPECT_EQ(v.take().error, FI_EIO);
  EXPECT_EQ(p.waiting(wire::kind::chunk), 0U);
  EXPECT_EQ(there, std::vector<std::byte>(length, std::byte{'.'}));
}

TEST_F(requests_for_a_device, are_told_to_the_application_when_the_device_can_see_the_bytes) {
  EXPECT_CALL(dev.engine.driver.library, cs_flush_pci_hbw_writes(testing::_)).WillOnce([this](int) {
    EXPECT_TRUE(v.queue.empty());
    return 0;
  });
  say_written(dev.memory.address + 10);
  EXPECT_EQ(v.take().data, 7U);
  std::byte host{};
  say_written(reinterpret_cast<std::uint64_t>(&host));  // which needs no flush
  EXPECT_EQ(v.take().data, 7U);
}

TEST_F(requests_for_a_device, are_flushed_for_together_where_they_have_come_together) {
  EXPECT_CALL(dev.engine.driver.library, cs_flush_pci_hbw_writes(testing::_)).Times(2);
  for (int times = 0; times < 2; ++times) {
    for (int i = 0; i < 3; ++i)
      p.say(wire::kind::event,
            wire::event_fields{
                .head = {}, .data = 7, .length = 5, .address = dev.memory.address + 10});
    v.net.advance(10'000'000'000);
    p.settle();
    for (int i = 0; i < 3; ++i) EXPECT_EQ(v.take().data, 7U);
  }
}

// It knows no operation by the number that it would hear of.
TEST_F(requests_for_a_device, that_nobody_waits_for_are_not_answered) {
  ASSERT_EQ(v.receive(dev.part(4), 0, &v), 0);
  p.say(wire::kind::eager, wire::eager_fields{.head = {}, .tag = 0, .data = 7, .operation = 77},
        wire::eager_size(wire::cq_data | wire::tagged), wire::cq_data | wire::tagged);
  p.settle();
  dev.engine.finish_all();
  p.settle();
  EXPECT_EQ(v.take().error, 0);
  EXPECT_EQ(p.waiting(wire::kind::fin), 0U);
}

TEST_F(requests_for_a_device, to_flush_it_are_answered_with_the_error_where_that_fails) {
  EXPECT_CALL(dev.engine.driver.library, cs_flush_pci_hbw_writes(testing::_)).WillOnce([](int) {
    errno = EIO;
    return -1;
  });
  p.say(
      wire::kind::flush,
      wire::event_fields{.head = {}, .data = 77, .length = 5, .address = dev.memory.address + 10});
  p.settle();
  const auto fin = p.heard<wire::fin_fields>(wire::kind::fin);
  ASSERT_TRUE(fin);
  EXPECT_EQ(fin->operation, 77U);
  EXPECT_EQ(fin->status, FI_EIO);
}

}  // namespace
}  // namespace gaudi::proto
