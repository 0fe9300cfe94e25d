// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ipc/cooperative_copy.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <optional>
#include <thread>
#include <vector>

namespace gaudi::ipc {
namespace {

struct joint_copy_ : testing::Test {
  cooperative_copies::begun begin(std::uint64_t length, std::uint32_t piece) {
    auto begun = copies.begin(length, piece);
    EXPECT_TRUE(begun);
    return *begun;
  }
  /// As the helper has it, who was told the words and the plan.
  cooperative_copy told(const cooperative_copies::begun& b) {
    return {words[b.words], b.copy.plan()};
  }

  cooperative_copies::words words;
  cooperative_copies copies{words};
};

TEST_F(joint_copy_, is_made_of_pieces_in_order_the_last_of_which_is_shorter) {
  auto mine = begin(2500, 1000);
  auto peers = told(mine);
  const auto first = mine.copy.take();
  const auto second = peers.take_assist();
  const auto third = mine.copy.take();
  ASSERT_TRUE(first && second && third);
  EXPECT_EQ(first->offset, 0U);
  EXPECT_EQ(second->offset, 1000U);
  EXPECT_EQ(third->offset, 2000U);
  EXPECT_EQ(third->length, 500U);
  EXPECT_FALSE(mine.copy.take());
  EXPECT_EQ(mine.copy.helped(), 0U);
  peers.gave(*second, 0);
  EXPECT_EQ(mine.copy.helped(), 1000U);
  EXPECT_FALSE(peers.take_assist());
  EXPECT_TRUE(mine.copy.stop());
}

TEST_F(joint_copy_, has_no_empty_piece_after_whole_ones) {
  auto mine = begin(2000, 1000);
  EXPECT_TRUE(mine.copy.take());
  EXPECT_EQ(mine.copy.take()->length, 1000U);
  EXPECT_FALSE(mine.copy.take());
  EXPECT_FALSE(told(mine).take_assist());
}

TEST_F(joint_copy_, ends_for_both_when_it_is_stopped_but_not_under_a_helper_at_work) {
  auto mine = begin(3000, 1000);
  auto peers = told(mine);
  const auto piece = peers.take_assist();
  ASSERT_TRUE(piece);
  EXPECT_FALSE(mine.copy.stop()) << "the helper still writes";
  peers.gave(*piece, 5);
  EXPECT_TRUE(mine.copy.stop());
  EXPECT_EQ(mine.copy.error(), 5);
  EXPECT_FALSE(mine.copy.take());
  EXPECT_FALSE(peers.take_assist());
  EXPECT_TRUE(mine.copy.stop());
}

TEST_F(joint_copy_, gives_a_late_helper_nothing_of_the_next_copy) {
  auto earlier = begin(1000, 100);
  auto late = told(earlier);
  ASSERT_TRUE(earlier.copy.stop());
  copies.end(earlier.words);
  auto later = begin(1000, 100);
  ASSERT_EQ(later.words, earlier.words);
  EXPECT_FALSE(late.take_assist());
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(later.copy.take()) << i;
}

TEST_F(joint_copy_, begins_without_what_became_of_the_one_before) {
  auto earlier = begin(2000, 1000);
  auto helper = told(earlier);
  const auto good = helper.take_assist();
  ASSERT_TRUE(good);
  helper.gave(*good, 0);
  const auto bad = helper.take_assist();
  ASSERT_TRUE(bad);
  helper.gave(*bad, 5);
  ASSERT_TRUE(earlier.copy.stop());
  copies.end(earlier.words);
  const auto later = begin(2000, 1000);
  ASSERT_EQ(later.words, earlier.words);
  EXPECT_EQ(later.copy.error(), 0);
  EXPECT_EQ(later.copy.helped(), 0U);
}

TEST_F(joint_copy_, there_are_as_many_at_once_as_there_are_words) {
  for (std::size_t i = 0; i < cooperative_copies::most; ++i) begin(1, 1);
  EXPECT_FALSE(copies.begin(1, 1));
  copies.end(3);
  EXPECT_EQ(begin(1, 1).words, 3U);
}

// Two threads; the helper is never more than one copy behind, as between processes.
TEST_F(joint_copy_, every_piece_of_many_copies_is_taken_once) {
  constexpr int rounds = 5'000;
  constexpr std::size_t pieces = 8;
  std::vector<std::atomic<int>> taken(pieces);
  std::atomic<int> round{0};
  std::optional<cooperative_copies::begun> now;
  std::uint64_t helped = 0;
  std::thread helper([&] {
    for (int seen = 0; seen < rounds;) {
      if (round.load() <= seen) {
        std::this_thread::yield();
        continue;
      }
      seen = round.load();
      auto copy = told(*now);
      while (const auto piece = copy.take_assist()) {
        ++taken[piece->offset];
        copy.gave(*piece, 0);
      }
      round.store(-seen);
    }
  });
  for (int i = 1; i <= rounds; ++i) {
    now = begin(pieces, 1);
    round.store(i);
    std::uint64_t own = 0;
    while (const auto piece = now->copy.take()) {
      ++taken[piece->offset];
      ++own;
    }
    while (own + now->copy.helped() < pieces) std::this_thread::yield();
    helped += now->copy.helped();
    for (auto& times : taken) ASSERT_EQ(times.exchange(0), 1) << "round " << i;
    while (!now->copy.stop() || round.load() != -i) std::this_thread::yield();
    copies.end(now->words);
  }
  helper.join();
  EXPECT_LE(helped, std::uint64_t{rounds} * pieces);
}

// Each end writes a word and then reads the other's: without a barrier in between both could find
// that the other has not begun. The owner comes at another moment in each round, which has several
// copies: on a busy machine it is the rounds that take time.
TEST_F(joint_copy_, is_not_stopped_for_the_owner_while_the_helper_has_just_taken_a_piece) {
  constexpr int rounds = 1'000;
  std::vector<cooperative_copies::begun> now;
  std::array<bool, cooperative_copies::most> took{};
  std::atomic<int> round{0};
  std::atomic<int> helped{0};
  std::thread helper([&] {
    for (int seen = 1; seen <= rounds; ++seen) {
      while (round.load() != seen) std::this_thread::yield();
      for (std::size_t i = 0; i < now.size(); ++i) {
        auto copy = told(now[i]);
        const auto piece = copy.take_assist();
        took[i] = piece.has_value();
        if (piece) copy.gave(*piece, 0);
      }
      helped.store(seen);
    }
  });
  int missed = 0;
  for (int i = 1; i <= rounds; ++i) {
    now.clear();
    while (now.size() < cooperative_copies::most) now.push_back(begin(1, 1));
    round.store(i);
    for (volatile int before = i % 64; before > 0;) before = before - 1;
    std::array<bool, cooperative_copies::most> through_without_it{};
    for (std::size_t n = 0; n < now.size(); ++n)
      through_without_it[n] = now[n].copy.stop() && now[n].copy.helped() == 0;
    while (helped.load() != i) std::this_thread::yield();
    for (std::size_t n = 0; n < now.size(); ++n) {
      if (through_without_it[n] && took[n]) ++missed;
      copies.end(now[n].words);
    }
  }
  helper.join();
  EXPECT_EQ(missed, 0);
}

}  // namespace
}  // namespace gaudi::ipc
