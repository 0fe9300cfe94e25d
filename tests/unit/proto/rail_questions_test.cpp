// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What a peer is told that memory is called at another NIC of this end.
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "device_by_hand.hpp"
#include "peer_by_hand.hpp"
#include "reg/key_table.hpp"
#include "two_nics.hpp"

namespace gaudi::proto {
namespace {

class questions_of_a_peer : public testing::Test {
 protected:
  /// How many keys the answer has.
  std::uint32_t keys_of(wire::rail_ask_fields question) {
    question.operation = 7;
    question.nic = 1;
    p.say(wire::kind::ask_rail_keys, question);
    settle();
    const auto answer = p.heard_whole(wire::kind::rail_keys);
    EXPECT_TRUE(answer);
    wire::rail_keys_fields fields{};
    if (answer) std::memcpy(&fields, answer->data(), std::min(answer->size(), sizeof fields));
    EXPECT_EQ(fields.operation, 7U);
    return fields.count;
  }
  void settle() { p.settle(std::chrono::milliseconds(20)); }
  /// Asked of the whole region, which nobody can ask for any more then.
  std::uint32_t keys_of_all(reg::region& region) {
    wire::rail_ask_fields question{};
    question.key = region.key;
    question.address = region.address;
    question.length = region.length;
    const std::uint32_t count = keys_of(question);
    v.keys.remove(region);
    region.leave_core();
    return count;
  }
  /// The operation of a long message that waits for a receive.
  std::uint64_t send(const local_memory& memory) {
    EXPECT_EQ(v.send(p.address(), memory, 1, &v), 0);
    settle();
    const auto rts = p.heard<wire::eager_fields>(wire::kind::rts);
    EXPECT_TRUE(rts);
    return rts ? rts->operation : 0;
  }

  test::device_by_hand dev;
  std::vector<std::byte> bytes = std::vector<std::byte>(20'000);
  test::endpoint_by_itself v{test::with_two_rails(), {test::some_address(1)}};
  test::peer_by_hand p{v};
};

TEST_F(questions_of_a_peer, are_answered_for_a_region_that_the_core_knows) {
  reg::region region;
  v.expose(region, bytes);
  EXPECT_EQ(keys_of_all(region), 1U);
}

// This end is to take part in every access.
TEST_F(questions_of_a_peer, have_no_answer_for_a_region_that_only_this_end_reaches) {
  reg::region region;
  v.expose(region, bytes, reg::key_table::software_bit | 5);
  EXPECT_EQ(keys_of_all(region), 0U);
}

TEST_F(questions_of_a_peer, are_answered_for_a_message_in_host_memory) {
  wire::rail_ask_fields question{};
  question.of = send(test::memory_of(bytes.data(), bytes.size()));
  EXPECT_EQ(keys_of(question), 1U);
  question.writes = 1;
  EXPECT_EQ(keys_of(question), 0U) << "it may only be read";
}

TEST_F(questions_of_a_peer, have_no_answer_for_memory_that_the_nic_does_not_take) {
  static fi_ops_mr refusing{};
  refusing.reg = [](auto...) { return -FI_ENOMEM; };
  fi_ops_mr*& ops = v.other_nics.front()->core().domain()->mr;
  wire::rail_ask_fields question{};
  question.of = send(test::memory_of(bytes.data(), bytes.size()));
  auto* const usual = std::exchange(ops, &refusing);
  EXPECT_EQ(keys_of(question), 0U);
  ops = usual;
}

// Whose address means nothing to a NIC that was not told of it.
TEST_F(questions_of_a_peer, have_no_answer_for_a_message_in_device_memory) {
  wire::rail_ask_fields question{};
  question.of = send(dev.part(bytes.size()));
  EXPECT_EQ(keys_of(question), 0U);
  v.ep->shut_down();
  dev.engine.finish_all();
}

}  // namespace
}  // namespace gaudi::proto
