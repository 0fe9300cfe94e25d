// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include "sim/core/objects.hpp"
#include "simulated_endpoint.hpp"

namespace gaudi::proto::test {

inline constexpr std::size_t one_piece = 1024;

inline endpoint::settings with_two_rails(
    base::rendezvous_choice rendezvous = base::rendezvous_choice::automatic) {
  auto s = small_settings();
  s.rendezvous = rendezvous;
  s.kernel = nullptr;
  s.copies.table.calibrate = false;
  s.rails = {.count = 2, .chunk = one_piece, .others = {}, .pause = std::chrono::milliseconds(0)};
  return s;
}

inline net_address some_address(std::uint8_t last) {
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_addr.s_addr = htonl(0x0a000100 + last);
  return net_address(&in, sizeof in);
}

// An RDMA core, which wants to be told of all memory.
inline sim::conditions over_rdma() {
  auto how = slow_network();
  how.rdma = true;
  how.placement = {1'000'000'000, 2'000'000'000};
  return how;
}

/// Two ends with two NICs each.
class rails_over_two_nics : public testing::Test {
 public:
  explicit rails_over_two_nics(
      base::rendezvous_choice rendezvous = base::rendezvous_choice::automatic)
      : a(net, host_a, with_two_rails(rendezvous), {some_address(1)}),
        b(net, host_b, with_two_rails(rendezvous), {some_address(2)}) {}

 protected:
  static constexpr std::size_t bytes = 64 * one_piece;

  void SetUp() override {
    to_b = a.meet(b);
    a.meet(b);
    to_a = b.meet(a);
    b.expose(region, there);
    access(true);  // has them made
    ASSERT_EQ(a.paths.rails.made, 1U);
  }
  void TearDown() override {
    region.leave_core();
    EXPECT_EQ(net.complaint(), "");
    EXPECT_EQ(a.paths.rails.lost + b.paths.rails.lost, lost);
  }

  void let_it_go_on() {
    for (int i = 0; i < 20; ++i) {
      a.progress(std::chrono::milliseconds(10));
      b.progress(std::chrono::milliseconds(10));
      net.advance(1'000'000);
    }
  }
  template <class Call>
  void start(Call&& call) {
    int ret = -FI_EAGAIN;
    for (int i = 0; i < 100 && ret == -FI_EAGAIN; ++i) {
      ret = call();
      let_it_go_on();
    }
    ASSERT_EQ(ret, 0);
  }
  void fill(std::vector<std::byte>& what) {
    ++last_byte;  // not the same again, though their number is a multiple of 256
    std::generate(what.begin(), what.end(), [&] { return static_cast<std::byte>(++last_byte); });
  }
  void exchange(std::uint64_t tag) {
    fill(here);
    start([&] { return b.receive(memory_of(there.data(), bytes), tag, &there); });
    start([&] { return a.send(to_b, memory_of(here.data(), bytes), tag, &here); });
    end_of(a);
    end_of(b);
    EXPECT_EQ(there, here);
  }
  // No more than that happens after what `a` did to make it so.
  template <class Condition>
  void step_until(Condition&& is_so) {
    for (int i = 0; i < 10'000; ++i) {
      a.progress(std::chrono::milliseconds(0));
      if (is_so()) return;
      b.progress(std::chrono::milliseconds(0));
      net.advance(250'000);
    }
    FAIL() << "never";
  }
  void start_writing() {
    fill(here);
    const rma_access what{.target = to_b,
                          .address = region.address,
                          .key = region.key,
                          .completion = a.completion(&here)};
    ASSERT_EQ(a.ep->write(memory_of(here.data(), here.size()), what), 0);
  }
  // It ends well, though its rail is cut.
  void end_without(sim::wire_connection& rail) {
    rail.cut();
    for (int i = 0; i < 100 && a.queue.empty(); ++i) let_it_go_on();
    EXPECT_EQ(here, there);
    EXPECT_EQ(a.take().error, 0);
    EXPECT_EQ(a.paths.rails.lost, lost = 1U);
  }
  // The connection of the other NICs.
  sim::wire_connection* the_rail() {
    for (const auto& wire : net.connections()) {
      if (wire->ends[0].is_up && wire->is_rail) return wire.get();
    }
    return nullptr;
  }
  static bool is_under_way(const sim::wire_connection& on, sim::operation::kind what) {
    return std::any_of(on.ends.begin(), on.ends.end(), [&](const sim::wire_end& end) {
      return std::any_of(end.reporting.begin(), end.reporting.end(),
                         [&](const auto& op) { return op->what == what; });
    });
  }
  // One that has such an operation.
  sim::wire_connection* find(sim::operation::kind what) {
    for (const auto& wire : net.connections())
      if (is_under_way(*wire, what)) return wire.get();
    return nullptr;
  }
  // By `a`, on the region of `b`, whose bytes and those here are the same at the end.
  void access(bool read, void* descriptor = nullptr) {
    fill(read ? there : here);
    const auto memory = memory_of(here.data(), here.size(), descriptor);
    const rma_access what{.target = to_b,
                          .address = region.address,
                          .key = region.key,
                          .completion = a.completion(&here)};
    start([&] { return read ? a.ep->read(memory, what) : a.ep->write(memory, what); });
    end_of(a);
    EXPECT_EQ(here, there);
  }
  void end_of(simulated_endpoint& of) {
    for (int i = 0; i < 100 && of.queue.empty(); ++i) let_it_go_on();
    EXPECT_EQ(of.take().error, 0);
  }
  // With the other NIC, but for that of the write_fence.
  static std::size_t registrations(const node& of) {
    return sim::down<sim::core_domain>(of.other_nics.front()->core().domain()).keys.size() - 1;
  }

  sim::network net{over_rdma(), sim::rng(1), nullptr};
  sim::host& host_a = net.add_host(0, 5000);
  sim::host& host_b = net.add_host(1, 5001);
  simulated_endpoint a;
  simulated_endpoint b;
  fi_addr_t to_a = 0;
  fi_addr_t to_b = 0;
  std::vector<std::byte> here = std::vector<std::byte>(bytes);
  std::vector<std::byte> there = std::vector<std::byte>(bytes);
  reg::region region;
  unsigned last_byte = 0;
  unsigned lost = 0;
};

}  // namespace gaudi::proto::test
