// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What NICs have written to device memory, and who flushes it before it is told of.
#include <rdma/fi_errno.h>

#include <memory>
#include <optional>
#include <vector>

#include "device_by_hand.hpp"
#include "peer_by_hand.hpp"
#include "reg/nic_loopback.hpp"
#include "reg/registration_cache.hpp"
#include "reg/write_flush.hpp"
#include "two_nics.hpp"

namespace gaudi::proto::test {
namespace {

struct flush_of_endpoint {
  explicit flush_of_endpoint(base::flush_choice how) : flush(loop, how) {}

  device_by_hand dev;
  sim::network alone{slow_network(), sim::rng(1), nullptr};
  sim::host& at = alone.add_host(0, 6000);
  std::unique_ptr<core::inner_domain> core = *core::inner_domain::open_over(
      alone.fabric_for(at), alone.info_for(at), {}, FI_VERSION(2, 1));
  reg::nic_loopback loop{*core};
  reg::write_flush flush;
};

/// Host memory stands for a device's that NICs reach: nobody else touches it.
class sink_of_a_device : protected flush_of_endpoint, public testing::Test {
 protected:
  static constexpr std::uint64_t remote = FI_REMOTE_READ | FI_REMOTE_WRITE;
  static constexpr std::uint64_t key = 5;

  explicit sink_of_a_device(base::flush_choice how, const sim::conditions& net = slow_network())
      : flush_of_endpoint(how), v(flushed_by(&flush), {some_address(1)}, net) {
    v.devices.add(dev.gaudi);
    hbm.address = reinterpret_cast<std::uint64_t>(bytes.data());
    hbm.length = bytes.size();
    hbm.virtual_address = true;
    hbm.access = remote;
    hbm.transfer_access = remote;
    hbm.owner = dev.gaudi.get();
    hbm.transfers = known_to(*v.core);
    hbm.at_other_nics = std::make_unique<std::vector<reg::region::at_nic>>();
    hbm.at_other_nics->push_back(
        {.nic = 1, .access = remote, .host = {}, .device = known_to(v.other_nics.front()->core())});
    EXPECT_TRUE(v.keys.add_requested(hbm, key));
    settle();
    EXPECT_TRUE(p.is_accepted(*rail));
  }
  ~sink_of_a_device() override {
    v.keys.remove(hbm);
    v.ep.reset();
    hbm.leave_core();
    v.devices.clear();
  }
  static endpoint::settings flushed_by(reg::write_flush* flush) {
    auto s = with_two_rails();
    s.flush = flush;
    return s;
  }
  reg::registration known_to(core::inner_domain& nic) {
    auto mr = nic.register_memory(bytes.data(), bytes.size(), FI_READ | FI_WRITE | remote);
    EXPECT_TRUE(mr);
    return known.add({.allocation_id = ++allocations, .access = remote}, bytes.size(),
                     std::move(*mr));
  }
  void settle() { p.settle(std::chrono::milliseconds(20)); }
  /// How many keys of the other NIC's the peer is told, to write there.
  std::uint32_t keys_at_other_nic(wire::rail_ask_fields question) {
    question.operation = 7;
    question.nic = 1;
    question.writes = 1;
    p.say(wire::kind::ask_rail_keys, question);
    settle();
    const auto answer = p.heard<wire::rail_keys_fields>(wire::kind::rail_keys);
    EXPECT_TRUE(answer);
    return answer ? answer->count : 0;
  }
  /// The operation here of a message that the peer may write.
  std::uint64_t receive() {
    const auto memory = local_memory::inside(hbm, hbm.address, bytes.size());
    EXPECT_EQ(v.ep->receives().receive(memory, {.completion = v.completion()}), 0);
    p.announce(77, bytes.size());
    settle();
    const auto granted = p.heard<wire::cts_fields>(wire::kind::cts);
    EXPECT_TRUE(granted && (granted->head.flags & wire::direct) != 0);
    return granted ? granted->target_operation : 0;
  }
  void say_written(std::uint64_t operation) {
    p.say(wire::kind::fin,
          wire::fin_fields{.head = {}, .operation = operation, .status = 0, .reserved = 0});
    settle();
  }
  void expect_flushes_by_driver(int times) {
    EXPECT_CALL(dev.engine.driver.library, cs_flush_pci_hbw_writes(testing::_))
        .Times(times)
        .WillRepeatedly(testing::Return(0));
  }

  std::vector<std::byte> bytes = counting(20'000);
  reg::registration_cache known{{.count = 0, .bytes = 0}};
  std::uint64_t allocations = 0;
  reg::region hbm;
  endpoint_by_itself v;
  peer_by_hand p{v};
  core::unique_fid<fid_ep> rail =
      p.ask(hello_of_rail(p.said_of_itself().instance, p.said_of_itself().connection, p.known_as(),
                          5, address_of(p.said_of_itself())));
};

/// The driver does it for any NIC, each of which asks it for what it has written.
struct sink_flushed_by_driver : sink_of_a_device {
  sink_flushed_by_driver() : sink_of_a_device(base::flush_choice::driver) {}
};

TEST_F(sink_flushed_by_driver, is_flushed_for_its_own_nic_where_no_other_one_may_have_written) {
  const std::uint64_t operation = receive();
  expect_flushes_by_driver(1);
  say_written(operation);
  EXPECT_EQ(v.take().error, 0);
}

TEST_F(sink_flushed_by_driver, is_flushed_for_another_nic_that_may_have_written) {
  const std::uint64_t operation = receive();
  wire::rail_ask_fields question{};
  question.of = operation;
  ASSERT_EQ(keys_at_other_nic(question), 1U);
  expect_flushes_by_driver(2);
  say_written(operation);
  EXPECT_EQ(v.take().error, 0);
}

// Of what is written to a region the peer tells no more than where.
TEST_F(sink_flushed_by_driver, is_flushed_for_all_nics_that_the_peer_may_write_to_regions_by) {
  const auto say_written_to_region = [&] {
    p.say(
        wire::kind::event,
        wire::event_fields{.head = {}, .data = 7, .length = 5, .address = dev.memory.address + 10});
    settle();
    EXPECT_EQ(v.take().data, 7U);
  };
  expect_flushes_by_driver(1);
  say_written_to_region();
  wire::rail_ask_fields question{};
  question.key = key;
  question.address = hbm.address;
  question.length = hbm.length;
  ASSERT_EQ(keys_at_other_nic(question), 1U);
  expect_flushes_by_driver(2);
  say_written_to_region();
}

/// By what the NIC reads for the word that it sends, which nobody copies for it.
struct sink_flushed_by_reading : sink_of_a_device {
  sink_flushed_by_reading() : sink_of_a_device(base::flush_choice::read, without_inlining()) {}
  static sim::conditions without_inlining() {
    auto how = slow_network();
    how.inject_size = 0;
    return how;
  }
};

TEST_F(sink_flushed_by_reading, has_its_last_byte_read_for_the_word_to_the_peer) {
  say_written(receive());
  EXPECT_EQ(v.take().error, 0);
  const auto word = p.heard_whole(wire::kind::fin);
  ASSERT_TRUE(word);
  ASSERT_EQ(word->size(), sizeof(wire::fin_fields) + 1);
  EXPECT_EQ(word->back(), bytes.back());
}

// It is flushed without the word then, which this NIC cannot do.
TEST_F(sink_flushed_by_reading, does_not_send_the_word_without_a_credit) {
  const std::uint64_t operation = receive();
  const auto is_answered = [&] {
    wire::rail_ask_fields question{};
    question.nic = 1;
    p.say(wire::kind::ask_rail_keys, question);
    settle();
    return p.heard<wire::rail_keys_fields>(wire::kind::rail_keys).has_value();
  };
  while (is_answered()) {
  }
  const wire::header credit{wire::kind::credit, 0, 0, 1, p.known_as()};
  p.say_as_it_is(&credit, sizeof credit);  // for the last answer
  settle();
  ASSERT_TRUE(p.heard<wire::rail_keys_fields>(wire::kind::rail_keys));
  say_written(operation);
  EXPECT_EQ(v.take().error, FI_EOPNOTSUPP);
  EXPECT_EQ(p.waiting(wire::kind::fin), 0U);
  p.say_as_it_is(&credit, sizeof credit);
  settle();
  EXPECT_EQ(p.waiting(wire::kind::fin), 1U);
}

}  // namespace
}  // namespace gaudi::proto::test
