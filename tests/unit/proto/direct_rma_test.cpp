// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// RMA that one operation of the core is all of, over connections that are lost in the middle of it.
#include "proto/transfer/direct_rma.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "core/inner_domain.hpp"
#include "device_by_hand.hpp"
#include "proto/operation/completion_hook.hpp"
#include "reg/nic_loopback.hpp"
#include "reg/registration_cache.hpp"
#include "reg/write_flush.hpp"
#include "sim/core/objects.hpp"
#include "simulated_endpoint.hpp"

namespace gaudi::proto {
namespace {

using test::counting;
using test::memory_of;
using test::simulated_endpoint;

constexpr std::size_t length = 1000;  // more than the core copies

class direct_rma_of_two : public testing::Test, protected test::simulated_hosts {
 protected:
  static endpoint::settings settings() {
    auto s = test::with_sessions();
    s.limits.link_timeout = std::chrono::milliseconds(100);
    return s;
  }
  explicit direct_rma_of_two(const endpoint::settings& config = settings())
      : a(net, here, config), b(net, there, config) {}

  void SetUp() override {
    to_b = a.meet(b);
    b.meet(a);
    b.expose(region, theirs);
    message();
    until([&] { return !a.queue.empty() && !b.queue.empty(); });
    take_all();
  }
  // Time does not pass while an endpoint closes.
  void TearDown() override {
    let_it_go_on();
    EXPECT_EQ(net.complaint(), "");
  }

  void step() {
    for (simulated_endpoint* each : {&a, &b}) each->progress(std::chrono::milliseconds(1));
    net.advance(100'000);
  }
  void let_it_go_on() {
    for (int i = 0; i < 2000; ++i) step();
  }
  void until(const std::function<bool()>& done) {
    for (int i = 0; i < 2000 && !done(); ++i) step();
    EXPECT_TRUE(done());
  }
  void take_all() {
    for (simulated_endpoint* each : {&a, &b})
      while (!each->queue.empty()) EXPECT_EQ(each->take().error, 0);
  }
  /// From a to b. Its sender hears of it when it has left, and it is there a moment later.
  void message() {
    ASSERT_EQ(b.receive(memory_of(&received, 1), 1, nullptr), 0);
    int ret = -FI_EAGAIN;
    for (int i = 0; i < 2000 && ret == -FI_EAGAIN; ++i, step())
      ret = a.send(to_b, memory_of(&sent, 1), 1, nullptr);
    ASSERT_EQ(ret, 0);
  }
  rma_access access() {
    return {.target = to_b,
            .address = region.address,
            .key = region.key,
            .completion = a.completion(&ours)};
  }
  void write() { ASSERT_EQ(a.ep->write(memory_of(ours.data(), length), access()), 0); }
  void read() { ASSERT_EQ(a.ep->read(memory_of(ours.data(), length), access()), 0); }
  void cut() { ASSERT_TRUE(net.cut_connection(0, 1, 0)); }

  std::vector<std::byte> ours = counting(length, 1);
  std::vector<std::byte> theirs = counting(length, 2);
  std::byte sent{1};
  std::byte received{};
  simulated_endpoint a, b;
  reg::region region;  // of b's
  fi_addr_t to_b = 0;
};

TEST_F(direct_rma_of_two, takes_one_operation_of_the_core_and_no_transfer) {
  write();
  until([&] { return !a.queue.empty(); });
  EXPECT_EQ(a.take().error, 0);
  EXPECT_TRUE(theirs == ours);
  EXPECT_EQ(a.paths.direct_ops, 1U);
  EXPECT_EQ(a.paths.direct_bytes, length);
}

TEST_F(direct_rma_of_two, is_done_again_where_its_connection_was_lost_before) {
  const auto before = theirs;
  read();
  cut();
  until([&] { return a.paths.connections.interrupted == 1; });
  EXPECT_FALSE(a.ep->is_quiet(to_b)) << "a fence has to wait for it";
  until([&] { return !a.queue.empty(); });
  EXPECT_EQ(a.take().error, 0);
  EXPECT_TRUE(ours == before);
  EXPECT_EQ(a.paths.again.rma, 1U);
  EXPECT_TRUE(a.ep->is_quiet(to_b));
}

// The peer has it, as it has a message behind it, and may have put something else there.
TEST_F(direct_rma_of_two, is_not_done_again_where_the_peer_has_it) {
  write();
  message();
  until([&] { return !b.queue.empty(); });
  const auto ends = a.queue.size();
  EXPECT_LE(ends, 1U) << "of the message";
  cut();
  EXPECT_TRUE(theirs == ours);
  const auto others = counting(length, 3);
  theirs = others;
  until([&] { return a.queue.size() == 2; });
  take_all();
  let_it_go_on();
  EXPECT_TRUE(theirs == others);
  EXPECT_EQ(a.paths.connections.resumed, 1U);
  EXPECT_EQ(a.paths.again.rma, 0U);
}

// A kernel only finds out that a peer has gone when it has something to send.
TEST_F(direct_rma_of_two, sends_a_silent_peer_something_while_it_waits) {
  let_it_go_on();  // what is owed is said
  ASSERT_EQ(net.connections().size(), 1U);
  sim::wire_connection& wire = *net.connections().front();
  ASSERT_TRUE(net.silence_connection(0, 1, 0));
  read();
  const auto under_way = [&] { return wire.ends[0].sent.size() + wire.ends[1].sent.size(); };
  EXPECT_EQ(under_way(), 1U);
  until([&] { return under_way() > 1; });
  wire.is_silent = false;
  message();
  until([&] { return a.queue.size() == 2; });
  take_all();
  EXPECT_EQ(a.paths.connections.interrupted, 0U);
}

class direct_rma_injected : public direct_rma_of_two {
 protected:
  /// The buffer is the application's again: it holds something else from then on.
  void inject(std::size_t bytes) {
    auto what = access();
    what.inject = true;
    ASSERT_EQ(a.ep->write(memory_of(ours.data(), bytes), what), 0);
    expected.assign(ours.begin(), ours.begin() + static_cast<std::ptrdiff_t>(bytes));
    expected.insert(expected.end(), theirs.begin() + static_cast<std::ptrdiff_t>(bytes),
                    theirs.end());
    ours = counting(length, 9);
  }

  std::vector<std::byte> expected;
};

TEST_F(direct_rma_injected, leaves_the_buffer_to_the_application) {
  inject(direct_op::max_kept);
  until([&] { return !a.queue.empty(); });
  EXPECT_EQ(a.take().error, 0);
  EXPECT_TRUE(theirs == expected);
  EXPECT_EQ(a.paths.direct_ops, 1U);
}

TEST_F(direct_rma_injected, is_done_again_as_it_was) {
  inject(8);
  cut();
  until([&] { return !a.queue.empty(); });
  EXPECT_EQ(a.take().error, 0);
  let_it_go_on();
  EXPECT_TRUE(theirs == expected);
  EXPECT_EQ(a.paths.again.rma, 1U);
}

TEST_F(direct_rma_injected, is_a_transfer_where_it_is_longer) {
  inject(direct_op::max_kept + 1);
  until([&] { return !a.queue.empty(); });
  EXPECT_EQ(a.take().error, 0);
  EXPECT_TRUE(theirs == expected);
  EXPECT_EQ(a.paths.direct_ops, 0U);
}

class direct_rma_without_sessions : public direct_rma_of_two {
 protected:
  static endpoint::settings without_sessions() {
    auto s = settings();
    s.limits.reconnect_timeout = std::chrono::seconds(0);
    return s;
  }
  direct_rma_without_sessions() : direct_rma_of_two(without_sessions()) {}
};

TEST_F(direct_rma_without_sessions, ends_once_with_its_connection) {
  read();
  read();
  cut();
  until([&] { return a.queue.size() == 2; });
  let_it_go_on();
  ASSERT_EQ(a.queue.size(), 2U);
  EXPECT_NE(a.take().error, 0);
  EXPECT_NE(a.take().error, 0);
  EXPECT_TRUE(a.ep->is_quiet(to_b));
}

struct flush_by_driver {
  test::device_by_hand dev;
  sim::network alone{test::slow_network(), sim::rng(1), nullptr};
  sim::host& at = alone.add_host(0, 6000);
  std::unique_ptr<core::inner_domain> core = *core::inner_domain::open_over(
      alone.fabric_for(at), alone.info_for(at), {}, FI_VERSION(2, 1));
  reg::nic_loopback loop{*core};
  reg::write_flush flush{loop, base::flush_choice::driver};
};

// Host memory stands for the device's: what the NIC reaches of it, nobody else touches.
class direct_rma_of_a_device : protected flush_by_driver, public direct_rma_of_two {
 protected:
  direct_rma_of_a_device() : direct_rma_of_two(flushed(&flush)) {}

  void SetUp() override {
    direct_rma_of_two::SetUp();
    hbm_.address = reinterpret_cast<std::uint64_t>(ours.data());
    hbm_.length = ours.size();
    hbm_.virtual_address = true;
    hbm_.owner = dev.gaudi.get();
    auto mr = a.core->register_memory(ours.data(), ours.size(), FI_READ | FI_WRITE);
    ASSERT_TRUE(mr);
    hbm_.transfers = known_.add({.allocation_id = 1, .access = 0}, ours.size(), std::move(*mr));
  }

  static endpoint::settings flushed(reg::write_flush* by) {
    auto s = settings();
    s.flush = by;
    return s;
  }
  local_memory memory() const { return local_memory::inside(hbm_, hbm_.address, length); }
  void expect_flushes(int times, int result = 0) {
    auto& flushed = EXPECT_CALL(dev.engine.driver.library, cs_flush_pci_hbw_writes(testing::_));
    flushed.Times(times);
    if (times == 0) return;
    flushed.WillRepeatedly([this, result](int) {
      EXPECT_TRUE(a.queue.empty()) << "told before it can be seen";
      return result;
    });
  }
  void lose() { dev.gaudi->lose(-FI_EIO, "of the test"); }
  void write_until_the_device_goes(const rma_access& how) {
    test::last_word hook(*dev.gaudi);
    auto first = access();
    first.completion.hook = &hook;
    ASSERT_EQ(a.ep->write(memory_of(ours.data(), 1), first), 0);
    ASSERT_EQ(a.ep->write(memory(), how), 0);
    until([&] { return a.queue.size() == 2; });
    EXPECT_EQ(a.take().error, 0);
    EXPECT_EQ(a.take().error, FI_EIO);
  }

  reg::registration_cache known_{{.count = 0, .bytes = 0}};
  reg::region hbm_;
};

TEST_F(direct_rma_of_a_device, tells_of_a_read_when_the_device_can_see_it) {
  expect_flushes(1);
  ASSERT_EQ(a.ep->read(memory(), access()), 0);
  until([&] { return !a.queue.empty(); });
  EXPECT_EQ(a.take().error, 0);
  EXPECT_TRUE(ours == theirs);
  EXPECT_EQ(a.paths.zero_copy_ops, 1U);
  EXPECT_EQ(a.paths.zero_copy_bytes, length);
  EXPECT_EQ(dev.gaudi->counted().zero_copy_bytes.value(), length);
}

// All of them were written before the first of these is handled.
TEST_F(direct_rma_of_a_device, flushes_once_for_reads_of_whose_ends_it_hears_together) {
  EXPECT_CALL(dev.engine.driver.library, cs_flush_pci_hbw_writes(testing::_)).Times(2);
  for (int times = 0; times < 2; ++times) {
    for (int i = 0; i < 3; ++i) ASSERT_EQ(a.ep->read(memory(), access()), 0);
    net.advance(10'000'000'000);
    until([&] { return a.queue.size() == 3; });
    for (int i = 0; i < 3; ++i) EXPECT_EQ(a.take().error, 0);
  }
}

TEST_F(direct_rma_of_a_device, fails_a_read_that_the_device_may_not_see) {
  expect_flushes(1, -ENOMEM);
  ASSERT_EQ(a.ep->read(memory(), access()), 0);
  until([&] { return !a.queue.empty(); });
  EXPECT_EQ(a.take().error, FI_ENOMEM);
}

TEST_F(direct_rma_of_a_device, flushes_nothing_for_a_write) {
  expect_flushes(0);
  ASSERT_EQ(a.ep->write(memory(), access()), 0);
  until([&] { return !a.queue.empty(); });
  EXPECT_EQ(a.take().error, 0);
  EXPECT_TRUE(theirs == ours);
  EXPECT_EQ(a.paths.zero_copy_ops, 1U);
}

// The CPU does not copy it.
TEST_F(direct_rma_of_a_device, is_a_transfer_where_it_is_injected) {
  auto what = access();
  what.inject = true;
  ASSERT_EQ(a.ep->write(dev.part(direct_op::max_kept), what), 0);
  until([&] { return !a.queue.empty(); });
  EXPECT_EQ(a.take().error, 0);
  EXPECT_EQ(a.paths.direct_ops, 0U);
}

// Nor one that the core would copy with it when it sends, up to the length at which it does.
TEST_F(direct_rma_of_a_device, is_a_transfer_where_the_core_would_have_the_cpu_copy_it) {
  const std::size_t inlined = a.core->info().tx_attr->inject_size;
  for (const std::size_t more : {0U, 1U}) {
    ASSERT_EQ(a.ep->write(local_memory::inside(hbm_, hbm_.address, inlined + more), access()), 0);
    EXPECT_EQ(a.paths.direct_ops, more);
    until([&] {
      dev.engine.finish_all();
      return !a.queue.empty();
    });
    a.take();
  }
}

TEST_F(direct_rma_of_a_device, ends_once_and_at_once_with_the_device) {
  expect_flushes(0);
  ASSERT_EQ(a.ep->read(memory(), access()), 0);
  ASSERT_EQ(a.ep->write(memory(), access()), 0);
  lose();
  a.progress(std::chrono::milliseconds(0));
  ASSERT_EQ(a.queue.size(), 2U) << "nothing has moved";
  EXPECT_EQ(a.take().error, FI_EIO);
  EXPECT_EQ(a.take().error, FI_EIO);
  let_it_go_on();
  EXPECT_TRUE(a.queue.empty());
  EXPECT_EQ(a.paths.connections.interrupted, 0U);
}

// What is lost takes no part in what is done again.
TEST_F(direct_rma_of_a_device, is_not_done_again_where_the_device_is_lost) {
  ASSERT_EQ(a.ep->write(memory(), access()), 0);
  cut();
  until([&] { return a.paths.connections.interrupted == 1; });
  const auto before = theirs;
  lose();
  a.progress(std::chrono::milliseconds(0));
  EXPECT_EQ(a.take().error, FI_EIO);
  let_it_go_on();
  EXPECT_EQ(a.paths.connections.resumed, 1U);
  EXPECT_TRUE(theirs == before);
  EXPECT_TRUE(a.queue.empty());
}

TEST_F(direct_rma_of_a_device, fails_where_the_device_goes_just_before_its_end) {
  write_until_the_device_goes(access());
}

// What waits to be delivered is a transfer.
TEST_F(direct_rma_of_a_device, is_a_transfer_that_fails_where_the_device_goes_just_before_its_end) {
  auto delivered = access();
  delivered.delivery = true;
  write_until_the_device_goes(delivered);
}

/// Short ones, which the core gathers where they are.
using messages_of_a_device = direct_rma_of_a_device;

TEST_F(messages_of_a_device, leave_it_without_a_copy_and_are_counted_so) {
  const auto before = a.paths;
  ASSERT_EQ(b.receive(memory_of(theirs.data(), length), 2, nullptr), 0);
  ASSERT_EQ(a.send(to_b, memory(), 2, nullptr), 0);
  until([&] { return !a.queue.empty() && !b.queue.empty(); });
  take_all();
  EXPECT_TRUE(theirs == ours);
  EXPECT_EQ(a.paths.direct_ops, before.direct_ops + 1);
  EXPECT_EQ(a.paths.direct_bytes, before.direct_bytes + length);
  EXPECT_EQ(a.paths.zero_copy_ops, before.zero_copy_ops + 1);
  EXPECT_EQ(a.paths.zero_copy_bytes, before.zero_copy_bytes + length);
  EXPECT_EQ(a.paths.eager_ops, before.eager_ops);
  EXPECT_EQ(dev.gaudi->counted().zero_copy_bytes.value(), length);
}

}  // namespace
}  // namespace gaudi::proto
