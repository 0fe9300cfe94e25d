// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Rails over other NICs, where memory has other keys.
#include <rdma/fi_errno.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "peer_by_hand.hpp"
#include "sim/core/objects.hpp"

namespace gaudi::proto {
namespace {

using test::endpoint_by_itself;
using test::peer_by_hand;
using test::simulated_endpoint;

constexpr std::size_t one_piece = 1024;

endpoint::settings with_two_rails(
    base::rendezvous_choice rendezvous = base::rendezvous_choice::automatic) {
  auto s = test::small_settings();
  s.rendezvous = rendezvous;
  s.ipc = false;
  s.rails = {.count = 2, .chunk = one_piece, .others = {}, .pause = std::chrono::milliseconds(0)};
  return s;
}

net_address some_address(std::uint8_t last) {
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_addr.s_addr = htonl(0x0a000100 + last);
  return net_address(&in, sizeof in);
}

// An RDMA core, which wants to be told of all memory.
sim::conditions over_rdma() {
  auto how = test::slow_network();
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
    start([&] { return b.receive(test::memory_of(there.data(), bytes), tag, &there); });
    start([&] { return a.send(to_b, test::memory_of(here.data(), bytes), tag, &here); });
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
    ASSERT_EQ(a.ep->write(test::memory_of(here.data(), here.size()), what), 0);
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
      const auto* const asked = wire->ends[0].ep;
      if (asked && wire->ends[0].is_up && !asked->domain->takes_messages) return wire.get();
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
    const auto memory = test::memory_of(here.data(), here.size(), descriptor);
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
  static std::size_t registrations(const test::node& of) {
    return sim::down<sim::core_domain>(of.other_nics.front()->core().domain()).keys.size();
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

/// The same, where senders write messages into the memory of receivers.
class rails_over_two_nics_that_write : public rails_over_two_nics {
 public:
  rails_over_two_nics_that_write() : rails_over_two_nics(base::rendezvous_choice::write) {}
};

TEST_F(rails_over_two_nics, share_out_what_is_read) {
  access(true);
  EXPECT_GT(a.paths.rails.bytes, bytes / 4);
}

// It ends when it is in memory, and not when the peer's NIC has it.
TEST_F(rails_over_two_nics, share_out_what_is_written) {
  const auto before = a.paths.rails.bytes;
  access(false);
  EXPECT_GT(a.paths.rails.bytes, before + bytes / 4);
}

TEST_F(rails_over_two_nics_that_write, share_out_messages) {
  const auto before = a.paths.rails.bytes;
  exchange(1);
  exchange(2);
  EXPECT_GT(a.paths.rails.bytes, before + bytes / 4);
}

// The read behind the write is lost, and not made again: the peer closes its end.
TEST_F(rails_over_two_nics, that_are_lost_behind_a_write_leave_it_in_memory) {
  start_writing();
  sim::wire_connection* rail = nullptr;
  step_until([&] { return (rail = find(sim::operation::kind::read)) != nullptr; });
  ASSERT_NE(rail, nullptr);
  end_without(*rail);
}

TEST_F(rails_over_two_nics, that_are_lost_before_the_read_behind_a_write_leave_it_in_memory) {
  sim::wire_connection* const rail = the_rail();
  ASSERT_NE(rail, nullptr);
  rail->has_no_room_for_reads = true;
  start_writing();
  step_until([&] { return rail->refused_reads != 0; });
  end_without(*rail);
}

// It saves a way to the peer and back.
TEST_F(rails_over_two_nics, read_behind_writes_that_have_not_ended) {
  start_writing();
  step_until([&] { return find(sim::operation::kind::read) != nullptr; });
  EXPECT_NE(find(sim::operation::kind::write), nullptr);
  step_until([&] { return !a.queue.empty(); });
  EXPECT_EQ(here, there);
  EXPECT_EQ(a.take().error, 0);
}

TEST_F(rails_over_two_nics, share_out_a_message_of_which_neither_end_is_registered) {
  exchange(1);
  exchange(2);
  EXPECT_GT(b.paths.rails.bytes, bytes / 4);
  EXPECT_EQ(registrations(a), 0U);
}

TEST_F(rails_over_two_nics, register_a_region_once_and_until_it_goes) {
  for (int i = 0; i < 3; ++i) access(true);
  EXPECT_EQ(registrations(b), 1U);
  EXPECT_EQ(registrations(a), 0U);  // no descriptor: each piece for itself
  region.leave_core();
  EXPECT_EQ(registrations(b), 0U);
}

TEST_F(rails_over_two_nics, register_what_the_application_has_registered_once) {
  reg::region own;
  a.expose(own, here);
  for (int i = 0; i < 3; ++i) access(true, &own);
  EXPECT_EQ(registrations(a), 1U);
  own.leave_core();
  EXPECT_EQ(registrations(a), 0U);
}

/// An endpoint with a rail to another NIC of a peer's.
class rail_to_another_nic : public testing::Test {
 protected:
  // So long that it is under way when a question has been answered.
  static constexpr std::size_t bytes = 400 * one_piece;

  void SetUp() override {
    const net_address name = p.listen();
    start(true);
    wire::rail_names_fields names{};
    names.count = 2;
    names.other_nics = 2;
    names.names[0] = to_wire(address_of(p.said_of_itself()));
    names.names[1] = to_wire(name);
    p.say(wire::kind::rail_names, names, sizeof names);
    settle();
    ASSERT_EQ(v.paths.rails.made, 1U);
    end();
    while (p.heard<wire::rail_ask_fields>(wire::kind::ask_rail_keys)) {
    }
  }

  void settle() { p.settle(std::chrono::milliseconds(20)); }
  void start(bool read) {
    const auto memory = test::memory_of(here.data(), here.size());
    const rma_access access{.target = p.address(),
                            .address = target.address,
                            .key = target.key,
                            .completion = v.completion(&here)};
    int ret = -FI_EAGAIN;
    for (int i = 0; i < 100 && ret == -FI_EAGAIN; ++i)
      ret = read ? v.ep->read(memory, access) : v.ep->write(memory, access);
    ASSERT_EQ(ret, 0);
    settle();
  }
  void end() {
    for (int i = 0; i < 100 && v.queue.empty(); ++i) settle();
    EXPECT_EQ(v.take().error, 0);
  }
  wire::rail_ask_fields question() {
    const auto asked = p.heard<wire::rail_ask_fields>(wire::kind::ask_rail_keys);
    EXPECT_TRUE(asked);
    return asked ? *asked : wire::rail_ask_fields{};
  }
  void answer(const wire::rail_ask_fields& asked, std::vector<std::uint64_t> keys) {
    wire::rail_keys_fields fields{};
    fields.operation = asked.operation;
    fields.rail = asked.rail;
    fields.count = static_cast<std::uint32_t>(keys.size());
    std::copy_n(keys.begin(), std::min(keys.size(), wire::max_segments), fields.keys);
    p.say(wire::kind::rail_keys, fields);
    settle();
  }

  endpoint_by_itself v{with_two_rails()};
  peer_by_hand p{v};
  std::vector<std::byte> here = std::vector<std::byte>(bytes);
  std::vector<std::byte> there = test::counting(bytes);
  wire::segment target = p.expose(there);
};

TEST_F(rail_to_another_nic, carries_nothing_before_the_key_is_known) {
  start(true);
  const auto asked = question();
  EXPECT_EQ(asked.of, 0U);
  EXPECT_EQ(asked.key, target.key);
  EXPECT_EQ(asked.address, target.address);
  EXPECT_EQ(asked.length, bytes);
  EXPECT_EQ(asked.rail, 1U);
  EXPECT_EQ(v.paths.rails.bytes, 0U);
  answer(asked, {target.key});
  EXPECT_GT(v.paths.rails.bytes, 0U);
  end();
  EXPECT_EQ(here, there);
  EXPECT_EQ(p.waiting(wire::kind::ask_rail_keys), 0U);
}

TEST_F(rail_to_another_nic, uses_the_key_that_it_is_told) {
  start(true);
  const wire::segment same = p.expose(there);
  ASSERT_NE(same.key, target.key);
  answer(question(), {same.key});
  end();
  EXPECT_EQ(here, there);
  EXPECT_GT(v.paths.rails.bytes, 0U);
  EXPECT_EQ(v.paths.rails.lost, 0U);
}

TEST_F(rail_to_another_nic, is_not_used_where_the_peer_has_no_key) {
  start(true);
  const auto asked = question();
  answer(asked, {});
  answer(asked, {target.key, target.key});  // not the segments that there are
  end();
  EXPECT_EQ(here, there);
  EXPECT_EQ(v.paths.rails.bytes, 0U);
}

TEST_F(rail_to_another_nic, carries_writes_over_a_stream) {
  here = test::counting(bytes, 2);
  start(false);
  const auto asked = question();
  EXPECT_EQ(asked.writes, 1U);
  answer(asked, {target.key});
  end();
  EXPECT_EQ(here, there);
  EXPECT_GT(v.paths.rails.bytes, 0U);
}

TEST_F(rail_to_another_nic, ends_the_connection_with_an_answer_that_makes_no_sense) {
  start(true);
  answer(question(), std::vector<std::uint64_t>(wire::max_segments + 1));
  EXPECT_TRUE(p.is_cut_off());
}

TEST_F(rail_to_another_nic, of_a_stranger_has_no_keys) {
  std::vector<std::byte> exposed(one_piece);
  reg::region region;
  v.expose(region, exposed);
  wire::rail_ask_fields ask{};
  ask.operation = 7;
  ask.rail = 3;  // that nobody has made
  ask.key = region.key;
  ask.address = region.address;
  ask.length = region.length;
  p.say(wire::kind::ask_rail_keys, ask);
  settle();
  const auto said = p.heard_whole(wire::kind::rail_keys);
  ASSERT_TRUE(said);
  wire::rail_keys_fields answered{};
  ASSERT_EQ(said->size(), offsetof(wire::rail_keys_fields, keys));
  std::memcpy(&answered, said->data(), said->size());
  EXPECT_EQ(answered.operation, 7U);
  EXPECT_EQ(answered.count, 0U);
}

}  // namespace
}  // namespace gaudi::proto
