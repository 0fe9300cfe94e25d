// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Rails over other NICs, and memory of devices that no NIC reaches.
#include <rdma/fi_errno.h>

#include <algorithm>
#include <optional>
#include <span>

#include "sim/audit.hpp"
#include "sim/device/simulated_device.hpp"
#include "two_nics.hpp"

namespace gaudi::proto {
namespace {

using test::rails_over_two_nics;

/// Two ends with two NICs, and a device each.
class staged_over_two_nics : public rails_over_two_nics {
 protected:
  explicit staged_over_two_nics(base::rendezvous_choice how = base::rendezvous_choice::automatic)
      : rails_over_two_nics(how) {}

  void SetUp() override {
    rails_over_two_nics::SetUp();
    before = a.paths.rails.bytes + b.paths.rails.bytes;
  }
  // Only while the endpoint is there, which copies by it.
  std::span<std::byte> on(std::optional<sim::simulated_device>& device) {
    constexpr sim::delay copies{100'000, 300'000};
    if (!device) device.emplace(net, copies, 16 * bytes);
    return device->take(bytes);
  }
  void message(const local_memory& from, std::span<std::byte> sent, const local_memory& to,
               std::span<const std::byte> got) {
    std::generate(sent.begin(), sent.end(), [&] { return static_cast<std::byte>(++last_byte); });
    ++last_byte;
    start([&] { return b.receive(to, 1, &b); });
    start([&] { return a.send(to_b, from, 1, &a); });
    end_of(a);
    end_of(b);
    EXPECT_TRUE(std::ranges::equal(sent, got));
  }
  void to_device_of_b() {
    const auto got = on(device_b);
    message(test::memory_of(here.data(), bytes), here, device_b->memory_of(got), got);
  }
  [[nodiscard]] std::size_t shared_out() const {
    return a.paths.rails.bytes + b.paths.rails.bytes - before;
  }

  std::optional<sim::simulated_device> device_a;
  std::optional<sim::simulated_device> device_b;
  std::size_t before = 0;
};

class written_through_slots : public staged_over_two_nics {
 protected:
  written_through_slots() : staged_over_two_nics(base::rendezvous_choice::write) {}
  void SetUp() override {
    staged_over_two_nics::SetUp();
    to_device_of_b();  // the slots are known at the rail then
  }
  void start_to_device_of_b() {
    fill(here);
    got = on(device_b);
    start([&] { return b.receive(device_b->memory_of(got), 1, &b); });
    ASSERT_EQ(a.send(to_b, test::memory_of(here.data(), bytes), 1, &a), 0);
  }
  void end_of_message_without(sim::wire_connection& rail) {
    rail.cut();
    end_of(a);
    end_of(b);
    EXPECT_TRUE(std::ranges::equal(here, got));
    EXPECT_EQ(a.paths.rails.lost, lost = 1U);
  }
  void end_without_peer() {
    host_b.kill();
    for (int i = 0; i < 100; ++i) {
      a.progress(std::chrono::milliseconds(10));
      net.advance(1'000'000);
    }
    EXPECT_NE(a.take().error, 0);
    EXPECT_EQ(endpoint_audit::leftover(*a.ep), "");
    lost = a.paths.rails.lost + b.paths.rails.lost;
  }

  void end_while_reads_wait() {
    sim::wire_connection* const rail = the_rail();
    ASSERT_NE(rail, nullptr);
    rail->has_no_room_for_reads = true;
    start_to_device_of_b();
    step_until([&] { return rail->refused_reads != 0; });
    end_without_peer();
  }

  std::span<std::byte> got;
};

// What another NIC has, it has not put into the slot yet (conditions::placement).
TEST_F(written_through_slots, are_told_of_when_their_bytes_are_there) {
  to_device_of_b();
  EXPECT_GT(shared_out(), 0U);
  EXPECT_EQ(a.paths.rails.lost, 0U);
}

TEST_F(written_through_slots, are_asked_for_once) {
  to_device_of_b();
  for (int i = 0; i < 3; ++i) to_device_of_b();
  const std::size_t known = registrations(b);
  EXPECT_GT(known, 0U);
  for (int i = 0; i < 10; ++i) to_device_of_b();
  EXPECT_EQ(registrations(b), known);
}

TEST_F(written_through_slots, are_filled_from_a_device) {
  for (int i = 0; i < 2; ++i) {
    const auto sent = on(device_a);
    const auto received = on(device_b);
    message(device_a->memory_of(sent), sent, device_b->memory_of(received), received);
  }
  EXPECT_GT(shared_out(), 0U);
  EXPECT_GT(registrations(a), 0U) << "the chunks that its other NIC sends";
}

TEST_F(written_through_slots, that_a_rail_is_lost_with_are_filled_by_others) {
  start_to_device_of_b();
  sim::wire_connection* const rail = the_rail();
  ASSERT_NE(rail, nullptr);
  step_until([&] { return is_under_way(*rail, sim::operation::kind::write); });
  end_of_message_without(*rail);
}

// The read behind the write is lost, and the peer closes its end.
TEST_F(written_through_slots, that_a_rail_is_lost_behind_are_told_of) {
  start_to_device_of_b();
  sim::wire_connection* rail = nullptr;
  step_until([&] { return (rail = find(sim::operation::kind::read)) != nullptr; });
  end_of_message_without(*rail);
}

TEST_F(written_through_slots, of_a_peer_that_is_gone_are_forgotten) {
  start_to_device_of_b();
  step_until([&] { return find(sim::operation::kind::read) != nullptr; });
  end_without_peer();
}

TEST_F(written_through_slots, of_a_peer_that_is_gone_are_forgotten_where_they_wait_for_room) {
  end_while_reads_wait();
}

// The next message is for another peer, and goes by no rail.
TEST_F(written_through_slots, of_a_peer_that_is_gone_leave_their_chunks_to_others) {
  end_while_reads_wait();
  test::simulated_endpoint c(net, net.add_host(2, 5002), test::with_two_rails(),
                             {test::some_address(3)});
  const fi_addr_t to_c = a.meet(c);
  c.meet(a);
  const auto sent = on(device_a);
  std::fill(sent.begin(), sent.end(), std::byte{42});
  c.receive(test::memory_of(there.data(), bytes), 1, &c);
  int ret = -FI_EAGAIN;
  for (int i = 0; i < 1000 && (ret == -FI_EAGAIN || a.queue.empty()); ++i) {
    if (ret == -FI_EAGAIN) ret = a.send(to_c, device_a->memory_of(sent), 1, &a);
    a.progress(std::chrono::milliseconds(10));
    c.progress(std::chrono::milliseconds(10));
    net.advance(1'000'000);
  }
  EXPECT_EQ(a.take().error, 0);
  EXPECT_TRUE(std::ranges::equal(sent, there));
}

class staged_in_chunks : public staged_over_two_nics {};

TEST_F(staged_in_chunks, are_read_by_another_nic) {
  to_device_of_b();
  to_device_of_b();
  EXPECT_GT(b.paths.rails.bytes, bytes / 4);
}

TEST_F(staged_in_chunks, are_written_by_another_nic) {
  for (int i = 0; i < 2; ++i) {
    const auto sent = on(device_a);
    message(device_a->memory_of(sent), sent, test::memory_of(there.data(), bytes), there);
  }
  EXPECT_GT(a.paths.rails.bytes, bytes / 4);
}

}  // namespace
}  // namespace gaudi::proto
