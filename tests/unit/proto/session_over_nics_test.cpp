// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Sessions between hosts with two NICs each, whose keys mean nothing to each other.
#include <rdma/fi_errno.h>

#include <algorithm>
#include <optional>
#include <span>

#include "sim/audit.hpp"
#include "sim/device/simulated_device.hpp"
#include "two_nics.hpp"

namespace gaudi::proto {
namespace {

using test::one_piece;

// Longer than a test that does not wait for it.
constexpr std::chrono::milliseconds home_pause{20'000};

endpoint::settings with_sessions_over_nics(base::rendezvous_choice rendezvous, bool rma_order) {
  auto s = test::with_two_rails(rendezvous);
  s.limits.reconnect_timeout = std::chrono::hours(1);
  s.limits.link_timeout = std::chrono::milliseconds(100);
  s.rma_order = rma_order;
  s.rails.home_pause = home_pause;
  return s;
}

net_address at_second_nic(unsigned host) {
  const sockaddr_in at = sim::address_of(host, 1, 0);
  return net_address(&at, sizeof at);
}

class session_over_nics : public testing::Test {
 public:
  explicit session_over_nics(
      base::rendezvous_choice rendezvous = base::rendezvous_choice::automatic,
      bool rma_order = false)
      : a(net, net.add_host(0, 5000), with_sessions_over_nics(rendezvous, rma_order),
          {at_second_nic(0)}),
        b(net, net.add_host(1, 5001), with_sessions_over_nics(rendezvous, rma_order),
          {at_second_nic(1)}) {}

 protected:
  static constexpr std::size_t bytes = 64 * one_piece;

  void SetUp() override {
    to_b = a.meet(b);
    b.meet(a);
    b.expose(region, there);
    exchange(16);
    let_it_go_on();  // so that each knows the other's addresses
  }
  void TearDown() override {
    let_it_go_on();
    region.leave_core();
    EXPECT_EQ(net.complaint(), "");
    EXPECT_EQ(a.paths.connections.lost + b.paths.connections.lost, 0U);
  }

  void let_it_go_on() {
    for (int i = 0; i < 40; ++i) {
      a.progress(std::chrono::milliseconds(10));
      b.progress(std::chrono::milliseconds(10));
      net.advance(1'000'000);
    }
  }
  void end_of(test::simulated_endpoint& of) {
    for (int i = 0; i < 200 && of.queue.empty(); ++i) let_it_go_on();
    EXPECT_EQ(of.take().error, 0);
  }
  template <class Call>
  void start(Call&& call) {
    int ret = -FI_EAGAIN;
    for (int i = 0; i < 200 && ret == -FI_EAGAIN; ++i) {
      ret = call();
      if (ret == -FI_EAGAIN) let_it_go_on();
    }
    ASSERT_EQ(ret, 0);
  }
  void exchange(std::size_t length) {
    const auto sent = test::counting(length, ++last_message);
    std::vector<std::byte> received(length);
    ASSERT_EQ(b.receive(test::memory_of(received.data(), length), last_message, nullptr), 0);
    auto copy = sent;
    start(
        [&] { return a.send(to_b, test::memory_of(copy.data(), length), last_message, nullptr); });
    end_of(a);
    end_of(b);
    EXPECT_EQ(received, sent);
  }
  [[nodiscard]] rma_access access(std::size_t at) {
    return {.target = to_b,
            .address = region.address + at,
            .key = region.key,
            .completion = a.completion(&here)};
  }
  void start_writing(std::size_t length, bool inject = false) {
    here = test::counting(length, ++last_message);
    auto what = access(0);
    what.inject = inject;
    auto copy = here;
    auto& from = inject ? copy : here;
    start([&] { return a.ep->write(test::memory_of(from.data(), length), what); });
  }
  void end_of_write() {
    end_of(a);
    EXPECT_TRUE(std::equal(here.begin(), here.end(), there.begin()));
  }
  void expose_other_bytes() {
    const auto others = test::counting(bytes, ++last_message);
    std::copy(others.begin(), others.end(), there.begin());
  }
  void read(std::size_t length) {
    expose_other_bytes();
    here.assign(length, std::byte{0});
    start([&] { return a.ep->read(test::memory_of(here.data(), length), access(0)); });
    end_of(a);
    EXPECT_TRUE(std::equal(here.begin(), here.end(), there.begin()));
  }
  /// The connection that packets take.
  sim::wire_connection* in_use() {
    for (const auto& wire : net.connections())
      if (!wire->is_cut && !wire->is_rail && wire->ends[0].is_up && wire->ends[1].is_up)
        return wire.get();
    return nullptr;
  }
  /// A connection, of those for packets or of the rails, on which a read is under way.
  sim::wire_connection* with_read(bool of_rails) {
    for (const auto& wire : net.connections()) {
      if (wire->is_cut || wire->is_rail != of_rails) continue;
      for (const sim::wire_end& end : wire->ends)
        for (const auto& op : end.reporting)
          if (op->what == sim::operation::kind::read) return wire.get();
    }
    return nullptr;
  }
  template <class Condition>
  void step_until(Condition&& is_so) {
    for (int i = 0; i < 10'000; ++i) {
      a.progress(std::chrono::milliseconds(1));
      if (is_so()) return;
      b.progress(std::chrono::milliseconds(1));
      net.advance(250'000);
    }
    FAIL() << "never";
  }
  void move_away() {
    net.unplug(0, 0);
    exchange(100);
    ASSERT_EQ(a.paths.again.elsewhere, 1U);
    ASSERT_EQ(b.paths.again.elsewhere, 1U);
    ASSERT_EQ(in_use()->interfaces[0], 1U);
    ASSERT_EQ(in_use()->interfaces[1], 1U);
  }

  sim::network net{test::over_rdma(), sim::rng(1), nullptr};
  test::simulated_endpoint a;
  test::simulated_endpoint b;
  fi_addr_t to_b = 0;
  std::vector<std::byte> here;
  std::vector<std::byte> there = std::vector<std::byte>(bytes);
  reg::region region;
  unsigned last_message = 0;
};

TEST_F(session_over_nics, sends_messages_of_all_lengths_over_the_other_one) {
  move_away();
  for (const std::size_t length : {std::size_t{0}, std::size_t{1}, std::size_t{700}, bytes})
    exchange(length);
}

TEST_F(session_over_nics, writes_and_reads_with_keys_of_the_first_one) {
  move_away();
  for (const std::size_t length : {std::size_t{1}, std::size_t{700}, bytes}) {
    start_writing(length);
    end_of_write();
    read(length);
  }
  start_writing(16, true);
  end_of_write();
}

TEST_F(session_over_nics, comes_back_when_the_other_one_is_lost) {
  move_away();
  net.plug_in(0, 0);
  net.unplug(1, 1);
  exchange(100);
  EXPECT_EQ(in_use()->interfaces[0], 0U);
  start_writing(700);
  end_of_write();
  start_writing(bytes);
  end_of_write();
  EXPECT_EQ(a.paths.again.elsewhere, 2U);
}

// Which is twice as long each time.
TEST_F(session_over_nics, comes_home_after_a_pause_when_the_first_one_is_there_again) {
  for (unsigned returns = 1; returns <= 3; ++returns) {
    net.unplug(0, 0);
    exchange(100);
    net.plug_in(0, 0);
    ASSERT_EQ(in_use()->interfaces[0], 1U);
    const auto left = a.clock.at;
    for (int i = 0; i < 1000 && in_use()->interfaces[0] != 0; ++i) exchange(100);
    ASSERT_EQ(in_use()->interfaces[0], 0U);
    const auto pause = std::chrono::duration_cast<std::chrono::milliseconds>(a.clock.at - left);
    EXPECT_GT(pause, home_pause * (1 << (returns - 1)));
    EXPECT_EQ(a.paths.again.elsewhere, 2 * returns);
    start_writing(700);
    end_of_write();
  }
}

// It would be interrupted after each pause, for nothing.
TEST_F(session_over_nics, stays_away_as_long_as_the_first_one_is_not_there) {
  move_away();
  const auto left = a.clock.at;
  while (a.clock.at - left < 3 * home_pause) exchange(100);
  EXPECT_EQ(in_use()->interfaces[0], 1U);
  EXPECT_EQ(a.paths.connections.interrupted, 1U);
}

TEST_F(session_over_nics, leaves_the_first_one_to_a_rail_when_it_is_there_again) {
  move_away();
  net.plug_in(0, 0);
  for (int i = 0; i < 4; ++i) {
    start_writing(bytes);
    end_of_write();
    exchange(bytes);
  }
  EXPECT_EQ(in_use()->interfaces[0], 1U);
  EXPECT_GT(a.paths.rails.bytes + b.paths.rails.bytes, bytes / 2);
}

// What the first NIC had not done.
TEST_F(session_over_nics, does_again_what_was_written) {
  start_writing(700);
  net.unplug(0, 0);
  end_of_write();
  EXPECT_EQ(a.paths.again.rma, 1U);
  EXPECT_EQ(a.paths.again.elsewhere, 1U);
}

TEST_F(session_over_nics, does_again_what_takes_several_operations) {
  start_writing(bytes);
  net.unplug(0, 0);
  end_of_write();
  EXPECT_GT(a.paths.again.rma, 0U);
  EXPECT_EQ(a.paths.again.elsewhere, 1U);
}

TEST_F(session_over_nics, writes_while_it_moves_to_and_fro) {
  for (unsigned moves = 1; moves <= 6; ++moves) {
    start_writing(moves % 2 ? 700 : bytes);
    const unsigned interface = in_use()->interfaces[0];
    net.unplug(0, interface);
    end_of_write();
    net.plug_in(0, interface);
    EXPECT_EQ(a.paths.again.elsewhere, moves);
  }
}

TEST_F(session_over_nics, does_again_what_was_injected) {
  start_writing(16, true);
  net.unplug(0, 0);
  end_of_write();
  EXPECT_EQ(a.paths.again.rma, 1U);
  EXPECT_EQ(a.paths.again.elsewhere, 1U);
}

TEST_F(session_over_nics, does_again_what_was_read) {
  expose_other_bytes();
  here.assign(700, std::byte{0});
  start([&] { return a.ep->read(test::memory_of(here.data(), here.size()), access(5)); });
  net.unplug(0, 0);
  end_of(a);
  EXPECT_TRUE(std::equal(here.begin(), here.end(), there.begin() + 5));
  EXPECT_EQ(a.paths.again.rma, 1U);
}

// Each was an operation of the core, which takes no credit, and is a message now. The peer looks at
// none of them, and gives no credits back.
TEST_F(session_over_nics, does_no_more_again_than_the_peer_has_room_for) {
  constexpr std::size_t length = 16;
  const std::size_t room = test::small_settings().rx_buffers;
  const std::size_t writes = 3 * room;
  here = test::counting(writes * length, ++last_message);
  for (std::size_t at = 0; at < here.size(); at += length) {
    auto what = access(at);
    what.inject = true;
    start([&] { return a.ep->write(test::memory_of(&here[at], length), what); });
  }
  ASSERT_TRUE(a.queue.empty()) << "none has been done";
  net.unplug(0, 0);
  step_until([&] { return a.paths.again.rma != 0; });
  for (int i = 0; i < 20; ++i) {
    net.advance(1'000'000);
    a.progress(std::chrono::milliseconds(1));
  }
  EXPECT_LE(a.paths.again.rma, room);
  for (std::size_t i = 0; i < writes; ++i) end_of(a);
  EXPECT_TRUE(std::equal(here.begin(), here.end(), there.begin()));
  EXPECT_EQ(a.paths.again.rma, writes);
  EXPECT_EQ(a.paths.again.elsewhere, 1U);
}

// It is the operation, then, and not the network.
TEST_F(session_over_nics, does_nothing_again_that_connection_after_connection_is_lost_with) {
  here.assign(700, std::byte{0});
  start([&] { return a.ep->read(test::memory_of(here.data(), here.size()), access(5)); });
  for (int lost = 0; lost < 32 && a.queue.empty(); ++lost) {
    sim::wire_connection* const wire = with_read(false);
    ASSERT_NE(wire, nullptr) << lost;
    wire->cut();
    step_until([&] { return !a.queue.empty() || with_read(false) != nullptr; });
  }
  EXPECT_EQ(a.take().error, FI_ECONNRESET);
  EXPECT_GT(a.paths.again.rma, 0U);
  EXPECT_EQ(a.paths.again.elsewhere, 0U);
}

// The read behind what was written has the rail of that, and ends with it.
TEST_F(session_over_nics, ends_a_write_whose_rail_is_lost_behind_it) {
  read(bytes);  // has the rail made
  read(bytes);
  expose_other_bytes();
  start_writing(bytes);
  step_until([&] { return with_read(true) != nullptr; });
  ASSERT_NE(with_read(true), nullptr);
  with_read(true)->cut();
  end_of_write();
  EXPECT_EQ(a.paths.rails.lost, 1U);
}

TEST_F(session_over_nics, goes_on_with_a_long_message) {
  const auto sent = test::counting(bytes, 99);
  std::vector<std::byte> received(bytes);
  ASSERT_EQ(b.receive(test::memory_of(received.data(), bytes), 77, nullptr), 0);
  auto copy = sent;
  start([&] { return a.send(to_b, test::memory_of(copy.data(), bytes), 77, nullptr); });
  for (int i = 0; i < 2; ++i) {
    a.progress(std::chrono::milliseconds(0));
    b.progress(std::chrono::milliseconds(0));
    net.advance(1'000'000);
  }
  net.unplug(0, 0);
  end_of(a);
  end_of(b);
  EXPECT_EQ(received, sent);
  EXPECT_EQ(a.paths.again.elsewhere, 1U);
}

// Which one connection keeps, and several do not.
class session_in_order : public session_over_nics {
 protected:
  session_in_order() : session_over_nics(base::rendezvous_choice::automatic, true) {}
};

TEST_F(session_in_order, keeps_to_its_nic) {
  net.unplug(0, 0);
  let_it_go_on();
  EXPECT_EQ(a.paths.connections.resumed, 0U);
  net.plug_in(0, 0);
  exchange(100);
  EXPECT_EQ(a.paths.connections.resumed, 1U);
  EXPECT_EQ(a.paths.again.elsewhere, 0U);
}

/// To a device that no NIC reaches, through slots that the peer fills.
class session_with_slots : public session_over_nics {
 protected:
  session_with_slots() : session_over_nics(base::rendezvous_choice::write) {}

  void to_device_of_b() {
    constexpr sim::delay copies{100'000, 300'000};
    if (!device) device.emplace(net, copies, 16 * bytes);
    got = device->take(bytes);
    here = test::counting(bytes, ++last_message);
    start([&] { return b.receive(device->memory_of(got), last_message, &b); });
    start([&] { return a.send(to_b, test::memory_of(here.data(), bytes), last_message, &a); });
  }
  void end_of_message() {
    end_of(a);
    end_of(b);
    EXPECT_TRUE(std::ranges::equal(here, got));
  }

  std::optional<sim::simulated_device> device;
  std::span<std::byte> got;
};

TEST_F(session_with_slots, asks_what_they_are_called_elsewhere) {
  to_device_of_b();
  end_of_message();
  move_away();
  for (int i = 0; i < 3; ++i) {
    to_device_of_b();
    end_of_message();
  }
}

TEST_F(session_with_slots, fills_those_again_that_were_being_filled) {
  to_device_of_b();
  for (int i = 0; i < 10'000 && a.paths.staged_ops == 0 && b.paths.staged_ops == 0; ++i) {
    a.progress(std::chrono::milliseconds(0));
    b.progress(std::chrono::milliseconds(0));
    net.advance(100'000);
  }
  net.unplug(0, 0);
  end_of_message();
  EXPECT_EQ(a.paths.again.elsewhere, 1U);
}

}  // namespace
}  // namespace gaudi::proto
