// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "common/pattern.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "common/pieces.hpp"

namespace gaudi::common {
namespace {

using bytes = std::vector<std::byte>;

bytes message(std::size_t size, std::uint64_t iteration = 7, unsigned direction = 0) {
  bytes made(size);
  pattern(size, iteration, direction).fill(made, 0);
  return made;
}

TEST(pattern, is_found_whole) {
  for (const std::size_t size : {1U, 7U, 8U, 9U, 64U, 4097U})
    EXPECT_EQ(pattern(size, 7, 0).find_difference(message(size), 0), std::nullopt) << size;
}

TEST(pattern, finds_any_wrong_byte) {
  const pattern expected(61, 7, 0);
  for (std::size_t at = 0; at < 61; ++at) {
    bytes wrong = message(61);
    wrong[at] ^= std::byte{0x10};
    EXPECT_EQ(expected.find_difference(wrong, 0), at);
  }
}

TEST(pattern, differs_between_messages) {
  const pattern expected(64, 7, 0);
  EXPECT_TRUE(expected.find_difference(message(64, 8), 0));
  EXPECT_TRUE(expected.find_difference(message(64, 7, 1), 0));
  EXPECT_TRUE(expected.find_difference(bytes(64), 0));
  bytes longer = message(72);
  longer.resize(64);
  EXPECT_TRUE(expected.find_difference(longer, 0));
}

TEST(pattern, does_not_repeat_in_a_message) {
  const bytes made = message(4096);
  bytes moved = made;
  std::rotate(moved.begin(), moved.begin() + 8, moved.end());
  EXPECT_EQ(pattern(4096, 7, 0).find_difference(moved, 0), 0U);
}

TEST(pieces, make_the_message_that_is_made_at_once) {
  bytes scratch(24);
  bytes stored(61);
  std::size_t calls = 0;
  fill_in_pieces(pattern(61, 7, 0), 61, scratch, [&](std::size_t done, auto piece) {
    EXPECT_LE(piece.size(), 24U);
    std::copy(piece.begin(), piece.end(), stored.begin() + static_cast<std::ptrdiff_t>(done));
    ++calls;
  });
  EXPECT_EQ(stored, message(61));
  EXPECT_EQ(calls, 3U);
}

TEST(pieces, find_a_difference_in_whichever_it_is) {
  bytes scratch(24);
  for (const std::size_t at : {0U, 23U, 24U, 60U}) {
    bytes wrong = message(61);
    wrong[at] ^= std::byte{1};
    const auto load = [&](std::size_t done, auto piece) {
      EXPECT_LE(done, at);
      std::copy_n(wrong.begin() + static_cast<std::ptrdiff_t>(done), piece.size(), piece.begin());
    };
    EXPECT_EQ(find_difference_in_pieces(pattern(61, 7, 0), 61, scratch, load), at);
  }
}

TEST(pieces, find_nothing_where_all_is_right) {
  bytes scratch(24);
  const bytes right = message(61);
  std::size_t loaded = 0;
  const auto load = [&](std::size_t done, auto piece) {
    std::copy_n(right.begin() + static_cast<std::ptrdiff_t>(done), piece.size(), piece.begin());
    loaded += piece.size();
  };
  EXPECT_EQ(find_difference_in_pieces(pattern(61, 7, 0), 61, scratch, load), std::nullopt);
  EXPECT_EQ(loaded, 61U);
}

}  // namespace
}  // namespace gaudi::common
