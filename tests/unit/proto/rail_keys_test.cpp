// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Rails over other NICs, where memory has other keys.
#include <rdma/fi_errno.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "peer_by_hand.hpp"
#include "two_nics.hpp"

namespace gaudi::proto {
namespace {

using test::endpoint_by_itself;
using test::one_piece;
using test::peer_by_hand;
using test::rails_over_two_nics;
using test::with_two_rails;

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

// The memory that it comes to may have more parts.
TEST_F(rails_over_two_nics_that_write, share_out_a_message_that_fills_the_first_part_only) {
  std::vector<std::byte> rest(one_piece);
  const std::array<iovec, 2> parts{{{there.data(), bytes}, {rest.data(), rest.size()}}};
  exchange(1);  // has them made
  const auto before = a.paths.rails.bytes;
  fill(here);
  start([&] { return b.receive(test::memory_of(parts), 2, &there); });
  start([&] { return a.send(to_b, test::memory_of(here.data(), bytes), 2, &here); });
  end_of(a);
  end_of(b);
  EXPECT_EQ(there, here);
  EXPECT_GT(a.paths.rails.bytes, before + bytes / 4);
}

TEST_F(rails_over_two_nics, let_threads_sleep_when_there_is_nothing_to_do) {
  let_it_go_on();
  EXPECT_FALSE(a.ep->needs_polling());
  EXPECT_FALSE(b.ep->needs_polling());
}

// While the domain's lock is held, which the destructor knows nothing of.
TEST_F(rails_over_two_nics, leave_nothing_registered_behind) {
  rma_access what{.target = to_b,
                  .address = region.address,
                  .key = region.key,
                  .inject = true,
                  .completion = a.completion(&here)};
  start([&] { return a.ep->write(test::memory_of(here.data(), 100), what); });
  end_of(a);
  exchange(1);
  region.leave_core();
  for (auto* end : {&a, &b}) {
    end->ep->shut_down();
    EXPECT_TRUE(sim::down<sim::core_domain>(end->core->domain()).keys.empty());
    EXPECT_TRUE(sim::down<sim::core_domain>(end->other_nics.front()->core().domain()).keys.empty());
  }
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
    names.places[0].name = to_wire(address_of(p.said_of_itself()));
    names.places[1].name = to_wire(name);
    names.places[1].nic = 1;
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
    fields.nic = asked.nic;
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
  EXPECT_EQ(asked.nic, 1U);
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

// What it has begun with is what it ends with, whatever the peer says later.
TEST_F(rail_to_another_nic, keeps_the_key_that_it_was_told_first) {
  start(true);
  const auto asked = question();
  answer(asked, {target.key});
  answer(asked, {target.key + 1});
  ASSERT_TRUE(v.queue.empty()) << "the second answer came too late";
  end();
  EXPECT_EQ(here, there);
  EXPECT_EQ(v.paths.rails.lost, 0U);
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

TEST_F(rail_to_another_nic, that_is_not_there_has_no_keys) {
  std::vector<std::byte> exposed(one_piece);
  reg::region region;
  v.expose(region, exposed);
  wire::rail_ask_fields ask{};
  ask.operation = 7;
  ask.nic = 3;
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

// Whoever asks need not have made a rail, nor want one.
struct rail_keys_without_rails : public testing::Test {
  std::uint64_t ask_for(std::uint64_t operation, bool writes) {
    wire::rail_ask_fields question{};
    question.operation = 7;
    question.of = operation;
    question.nic = 1;
    question.writes = writes ? 1 : 0;
    p.say(wire::kind::ask_rail_keys, question);
    settle();
    const auto answer = p.heard<wire::rail_keys_fields>(wire::kind::rail_keys);
    EXPECT_TRUE(answer);
    return answer ? answer->count : 0;
  }
  void settle() { p.settle(std::chrono::milliseconds(20)); }
  void say_done(std::uint64_t operation) {
    p.say(wire::kind::fin,
          wire::fin_fields{.head = {}, .operation = operation, .status = 0, .reserved = 0});
    for (int i = 0; i < 100 && v.queue.empty(); ++i) settle();
  }

  std::vector<std::byte> bytes = std::vector<std::byte>(20'000);
  endpoint_by_itself v{with_two_rails(), {test::some_address(1)}};
  peer_by_hand p{v};
};

TEST_F(rail_keys_without_rails, of_a_sink_are_told_and_it_ends_as_ever) {
  EXPECT_EQ(v.ep->receives().receive(test::memory_of(bytes.data(), bytes.size()),
                                     {.completion = v.completion()}),
            0);
  p.announce(77, bytes.size());
  settle();
  const auto granted = p.heard<wire::cts_fields>(wire::kind::cts);
  ASSERT_TRUE(granted);
  EXPECT_EQ(ask_for(granted->target_operation, true), 1U);
  say_done(granted->target_operation);
  EXPECT_EQ(v.take().error, 0);
}

TEST_F(rail_keys_without_rails, of_a_source_are_told_and_it_ends_as_ever) {
  const auto memory = test::memory_of(bytes.data(), bytes.size());
  int ret = -FI_EAGAIN;
  for (int i = 0; i < 100 && ret == -FI_EAGAIN; ++i)
    ret = v.ep->send(memory, {.to = p.address(), .completion = v.completion()});
  ASSERT_EQ(ret, 0);
  settle();
  const auto announced = p.heard<wire::eager_fields>(wire::kind::rts);
  ASSERT_TRUE(announced);
  EXPECT_EQ(ask_for(announced->operation, false), 1U);
  say_done(announced->operation);
  EXPECT_EQ(v.take().error, 0);
}

}  // namespace
}  // namespace gaudi::proto
