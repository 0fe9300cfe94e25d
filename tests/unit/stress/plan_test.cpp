// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

namespace gaudi::stress {
namespace {

settings all_operations(std::uint64_t seed = 3) {
  settings s;
  s.seed = seed;
  s.max_size = std::size_t{1} << 20U;
  for (std::size_t i = 0; i < operation_names.size(); ++i)
    s.operations.push_back(static_cast<operation>(i));
  return s;
}

const std::vector<member> four{{true, 64}, {true, 64}, {false, 64}, {true, 100}};

std::vector<std::tuple<operation, unsigned, unsigned, std::size_t, std::size_t, std::size_t>>
essence(const std::vector<planned>& plan) {
  std::vector<std::tuple<operation, unsigned, unsigned, std::size_t, std::size_t, std::size_t>> all;
  for (const planned& p : plan)
    all.emplace_back(p.op, p.initiator, p.target, p.size, p.near.offset, p.far.offset);
  return all;
}

TEST(plan, is_the_same_for_the_same_seed_and_round_and_no_other) {
  const auto one = essence(plan_round(all_operations(), four, 1, {}));
  EXPECT_EQ(one, essence(plan_round(all_operations(), four, 1, {})));
  EXPECT_NE(one, essence(plan_round(all_operations(), four, 2, {})));
  EXPECT_NE(one, essence(plan_round(all_operations(4), four, 1, {})));
}

TEST(plan, has_every_operation_memory_and_pair_before_long) {
  std::map<operation, int> operations;
  std::map<std::pair<memory_kind, memory_kind>, int> memories;
  std::map<std::pair<unsigned, unsigned>, int> pairs;
  for (std::uint64_t round = 1; round <= 3; ++round)
    for (const planned& p : plan_round(all_operations(), four, round, {})) {
      ++operations[p.op];
      ++memories[{p.near.memory, p.far.memory}];
      ++pairs[{p.initiator, p.target}];
      EXPECT_NE(p.initiator, p.target);
    }
  EXPECT_EQ(operations.size(), operation_names.size());
  EXPECT_EQ(memories.size(), 4U);
  EXPECT_EQ(pairs.size(), 12U);
}

TEST(plan, lets_no_two_ranges_touch_but_those_of_sums) {
  for (std::uint64_t round = 1; round <= 20; ++round) {
    std::map<std::pair<unsigned, memory_kind>, std::vector<place>> used;
    const settings s = all_operations();
    for (const planned& p : plan_round(s, four, round, {})) {
      used[{p.initiator, p.near.memory}].push_back(p.near);
      auto& far = used[{p.target, p.far.memory}];
      if (p.mode == receive_mode::multi) {
        // Both buffers, once for all messages that they take.
        for (const place& at : multi_buffers(p.far))
          if (std::none_of(far.begin(), far.end(),
                           [&](const place& other) { return other.offset == at.offset; }))
            far.push_back(at);
      } else if (p.op != operation::atomic) {
        far.push_back(p.far);
      }
      for (const place& at : {p.result, p.compared})
        if (at.size > 0) used[{p.initiator, at.memory}].push_back(at);
    }
    for (auto& [owner, places] : used) {
      places.push_back(shared_sums(owner.second));
      std::sort(places.begin(), places.end(),
                [](const place& a, const place& b) { return a.offset < b.offset; });
      for (std::size_t i = 1; i < places.size(); ++i)
        EXPECT_LT(places[i - 1].offset + places[i - 1].size, places[i].offset);
      EXPECT_LT(places.back().offset + places.back().size, capacity_for(s));
    }
  }
}

TEST(plan, keeps_to_what_a_worker_has) {
  for (std::uint64_t round = 1; round <= 20; ++round)
    for (const planned& p : plan_round(all_operations(), four, round, {})) {
      if (p.initiator == 2) {
        EXPECT_EQ(p.near.memory, memory_kind::host);
      }
      if (p.target == 2) {
        EXPECT_EQ(p.far.memory, memory_kind::host);
      }
      if (is_injected(p.op)) {
        EXPECT_LE(p.size, p.initiator == 3 ? 100U : 64U);
        EXPECT_EQ(p.near.memory, memory_kind::host);
      }
      EXPECT_LE(p.size, std::size_t{1} << 20U);
      if (!is_message(p.op)) {
        EXPECT_GT(p.size, 0U);
      }
      EXPECT_LE(p.size, p.far.size);
    }
}

TEST(plan, has_untagged_messages_of_a_victim_in_host_memory) {
  settings s = all_operations();
  s.memory = memory_choice::device;
  for (const planned& p : plan_round(s, four, 1, {fault_kind::reset, 1})) {
    if (!is_untagged(p.op)) continue;
    if (p.initiator == 1) {
      EXPECT_EQ(p.near.memory, memory_kind::host);
    }
    if (p.target == 1) {
      EXPECT_EQ(p.far.memory, memory_kind::host);
    }
  }
}

TEST(plan, has_every_way_to_receive_before_long) {
  std::map<receive_mode, int> modes;
  for (std::uint64_t round = 1; round <= 6; ++round)
    for (const planned& p : plan_round(all_operations(), four, round, {})) {
      ++modes[p.mode];
      if (is_peeked(p.mode)) {
        EXPECT_TRUE(is_tagged(p.op));
      }
      if (p.mode == receive_mode::multi) {
        EXPECT_TRUE(is_untagged(p.op));
      }
    }
  EXPECT_EQ(modes.size(), 6U);
}

TEST(plan, has_no_way_to_receive_that_was_not_asked_for) {
  const auto modes_with = [](bool settings::*habit) {
    settings s = all_operations();
    s.peek = s.claim = s.discard = s.multi_receive = false;
    s.*habit = true;
    std::map<receive_mode, int> modes;
    for (std::uint64_t round = 1; round <= 6; ++round)
      for (const planned& p : plan_round(s, four, round, {})) ++modes[p.mode];
    EXPECT_GT(modes[receive_mode::plain], 0);
    modes.erase(receive_mode::plain);
    std::vector<receive_mode> special;
    for (const auto& [mode, count] : modes) special.push_back(mode);
    return special;
  };
  EXPECT_EQ(modes_with(&settings::cancel), std::vector<receive_mode>{});
  EXPECT_EQ(modes_with(&settings::peek), std::vector{receive_mode::peek});
  EXPECT_EQ(modes_with(&settings::claim), std::vector{receive_mode::claim});
  EXPECT_EQ(modes_with(&settings::discard), std::vector{receive_mode::discard});
  EXPECT_EQ(modes_with(&settings::multi_receive), std::vector{receive_mode::multi});
}

// Where a message was, or was to be, in memory that goes with a device, no peek can tell of it.
TEST(plan, looks_for_no_message_of_a_lost_device) {
  settings s = all_operations();
  s.memory = memory_choice::device;
  for (const planned& p : plan_round(s, four, 1, {fault_kind::reset, 1})) {
    const bool lost = (p.initiator == 1 && p.near.memory == memory_kind::device) ||
                      (p.target == 1 && p.far.memory == memory_kind::device);
    if (lost) {
      EXPECT_FALSE(is_peeked(p.mode));
    }
  }
}

TEST(plan, gives_all_messages_of_a_pair_room_in_its_buffers) {
  for (std::uint64_t round = 1; round <= 20; ++round) {
    const auto plan = plan_round(all_operations(), four, round, {});
    const std::size_t least = min_multi_receive(plan);
    std::map<std::pair<unsigned, unsigned>, std::vector<const planned*>> messages;
    for (const planned& p : plan)
      if (is_untagged(p.op)) messages[{p.initiator, p.target}].push_back(&p);
    for (const auto& [pair, own] : messages) {
      std::size_t sum = 0;
      std::size_t longest = 0;
      for (const planned* p : own) {
        EXPECT_EQ(p->mode, own.front()->mode) << "all or none";
        sum += p->size;
        longest = std::max(longest, p->size);
      }
      if (own.front()->mode != receive_mode::multi) continue;
      EXPECT_LE(longest, least);
      const auto [first, second] = multi_buffers(own.front()->far);
      EXPECT_GE(first.size, std::max<std::size_t>(longest, 1)) << "its first message fits";
      // Whatever the first one takes.
      EXPECT_GE(second.size, sum + least);
      EXPECT_LT(first.offset + first.size, second.offset);
      EXPECT_EQ(second.offset + second.size, own.front()->far.offset + own.front()->far.size);
    }
  }
}

}  // namespace
}  // namespace gaudi::stress
