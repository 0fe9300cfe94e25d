// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What gaudi_stress takes for right: a verifier that is blind would pass every run.
#include "image.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

namespace gaudi::stress {
namespace {

using bytes = std::vector<std::byte>;

settings settings_with(std::vector<operation> operations) {
  settings s;
  s.seed = 5;
  s.max_size = 4096;
  s.operations = std::move(operations);
  return s;
}

round_plan plan_of(const settings& s, std::uint64_t round = 1) {
  const std::vector<member> members(3, {.device = true, .inject = 64});
  return {.seed = s.seed, .round = round, .operations = plan_round(s, members, round, {})};
}

std::uint64_t word_at(std::span<const std::byte> from, std::size_t offset) {
  std::uint64_t word = 0;
  std::memcpy(&word, from.data() + offset, sizeof word);
  return word;
}

/// The memory of a worker after the round, as if each operation had copied its bytes.
bytes after_copies(const round_plan& plan, unsigned worker, memory_kind kind) {
  const image own(plan, worker, kind);
  bytes memory(own.before().begin(), own.before().end());
  for (const planned& p : plan.operations) {
    if (p.target != worker || p.far.memory != kind) continue;
    const image peer(plan, p.initiator, p.near.memory);
    std::copy_n(peer.before().data() + p.near.offset, p.size, memory.data() + p.far.offset);
  }
  return memory;
}

image expected(const round_plan& plan, unsigned worker, memory_kind kind) {
  image own(plan, worker, kind);
  for (std::size_t i = 0; i < plan.operations.size(); ++i)
    if (plan.operations[i].target == worker) own.expect_far(i);
  return own;
}

class copies : public testing::TestWithParam<operation> {
 protected:
  const settings chosen = settings_with({GetParam()});
  const round_plan plan = plan_of(chosen);
};

TEST_P(copies, of_the_right_bytes_are_right) {
  for (unsigned worker = 0; worker < 3; ++worker)
    for (const memory_kind kind : kinds) {
      bytes actual = after_copies(plan, worker, kind);
      EXPECT_EQ(expected(plan, worker, kind).find_difference(actual), std::nullopt);
    }
}

TEST_P(copies, with_any_one_byte_changed_are_wrong) {
  const image right = expected(plan, 1, memory_kind::device);
  bytes actual = after_copies(plan, 1, memory_kind::device);
  // Every byte takes long; these are in ranges, at their ends and between them.
  for (std::size_t at = 0; at < actual.size(); at += 61) {
    actual[at] ^= std::byte{0x40};
    EXPECT_NE(right.find_difference(actual), std::nullopt) << "byte " << at;
    actual[at] ^= std::byte{0x40};
  }
  EXPECT_EQ(right.find_difference(actual), std::nullopt);
}

TEST_P(copies, of_another_round_are_wrong) {
  const image right = expected(plan, 1, memory_kind::host);
  round_plan other = plan;
  other.round = 2;
  bytes actual = after_copies(other, 1, memory_kind::host);
  EXPECT_NE(right.find_difference(actual), std::nullopt);
}

INSTANTIATE_TEST_SUITE_P(of, copies,
                         testing::Values(operation::tsend, operation::write, operation::tinject),
                         [](const auto& test) { return std::string(name_of(test.param)); });

TEST(image, names_the_operation_whose_byte_is_wrong) {
  const round_plan plan = plan_of(settings_with({operation::write}));
  const auto found = std::find_if(plan.operations.begin(), plan.operations.end(),
                                  [](const planned& p) { return p.target == 1 && p.size > 3; });
  ASSERT_NE(found, plan.operations.end());
  bytes actual = after_copies(plan, 1, found->far.memory);
  actual[found->far.offset + 3] ^= std::byte{1};
  const auto said = expected(plan, 1, found->far.memory).find_difference(actual);
  ASSERT_TRUE(said);
  const auto number = static_cast<std::size_t>(found - plan.operations.begin());
  EXPECT_NE(said->find("byte 3 in"), std::string::npos) << *said;
  EXPECT_NE(said->find(describe(plan, number)), std::string::npos) << *said;
}

TEST(image, takes_any_bytes_of_what_failed_and_no_others) {
  const round_plan plan = plan_of(settings_with({operation::write}));
  const planned& p = plan.operations.front();
  image own = expected(plan, p.target, p.far.memory);
  own.ignore(p.far);
  bytes actual = after_copies(plan, p.target, p.far.memory);
  actual[p.far.offset] ^= std::byte{1};
  EXPECT_EQ(own.find_difference(actual), std::nullopt);
  actual[p.far.offset - 1] ^= std::byte{1};
  EXPECT_NE(own.find_difference(actual), std::nullopt);
}

TEST(image, takes_what_it_corrupted_for_right_where_it_was_sent_only) {
  const round_plan plan = plan_of(settings_with({operation::write}));
  const planned& p = plan.operations.front();
  image sender(plan, p.initiator, p.near.memory);
  sender.corrupt(0);
  bytes sent(sender.before().begin(), sender.before().end());
  EXPECT_EQ(sender.find_difference(sent), std::nullopt);
  bytes received = after_copies(plan, p.target, p.far.memory);
  std::copy_n(sent.data() + p.near.offset, p.size, received.data() + p.far.offset);
  EXPECT_NE(expected(plan, p.target, p.far.memory).find_difference(received), std::nullopt);
}

TEST(image, adds_the_sums_of_all) {
  const round_plan plan = plan_of(settings_with({operation::atomic}));
  const place sums = shared_sums(memory_kind::host);
  const image before(plan, 0, memory_kind::host);
  bytes actual(before.before().begin(), before.before().end());
  std::uint64_t sum = word_at(actual, sums.offset);
  for (const planned& p : plan.operations) {
    if (p.target != 0 || p.far.memory != memory_kind::host) continue;
    const image peer(plan, p.initiator, p.near.memory);
    for (std::size_t at = 0; at < p.size; at += sizeof sum) {
      const std::uint64_t value =
          word_at(actual, p.far.offset + at) + word_at(peer.before(), p.near.offset + at);
      std::memcpy(actual.data() + p.far.offset + at, &value, sizeof value);
    }
  }
  EXPECT_NE(word_at(actual, sums.offset), sum);
  EXPECT_EQ(expected(plan, 0, memory_kind::host).find_difference(actual), std::nullopt);
  // One that was done twice.
  sum = word_at(actual, sums.offset) + 1;
  std::memcpy(actual.data() + sums.offset, &sum, sizeof sum);
  EXPECT_NE(expected(plan, 0, memory_kind::host).find_difference(actual), std::nullopt);
}

TEST(image, swaps_where_the_value_compared_is_the_target_s) {
  const round_plan plan = plan_of(settings_with({operation::compare}));
  std::size_t swapped = 0;
  std::size_t kept = 0;
  for (std::size_t number = 0; number < plan.operations.size(); ++number) {
    const planned& p = plan.operations[number];
    image target(plan, p.target, p.far.memory);
    const image initiator(plan, p.initiator, memory_kind::host);
    bytes actual(target.before().begin(), target.before().end());
    for (std::size_t at = 0; at < p.size; at += sizeof(std::uint64_t)) {
      const bool swap =
          word_at(initiator.before(), p.compared.offset + at) == word_at(actual, p.far.offset + at);
      swap ? ++swapped : ++kept;
      if (swap)
        std::memcpy(actual.data() + p.far.offset + at,
                    initiator.before().data() + p.near.offset + at, sizeof(std::uint64_t));
    }
    target.expect_far(number);
    EXPECT_EQ(target.find_difference(actual), std::nullopt) << number;
  }
  EXPECT_GT(swapped, 0U);
  EXPECT_GT(kept, 0U);
}

}  // namespace
}  // namespace gaudi::stress
