// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What an announcement of a rendezvous may say of the source's memory.
#include "proto/operation/rts.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>

#include "peer_by_hand.hpp"

namespace gaudi::proto {
namespace {

bool is_taken(std::uint64_t length, std::initializer_list<std::uint64_t> segments,
              std::uint8_t flags = 0) {
  wire::rts_fields rts{};
  rts.length = length;
  for (const std::uint64_t one : segments) rts.segments[rts.segment_count++].length = one;
  wire::rts_fields out;
  return parse_rts(reinterpret_cast<const std::byte*>(&rts), rts_size(rts), out, flags);
}

TEST(rts, has_segments_that_add_up_to_its_length) {
  EXPECT_TRUE(is_taken(8, {8}));
  EXPECT_TRUE(is_taken(8, {3, 5}));
  EXPECT_FALSE(is_taken(8, {3, 4}));
  EXPECT_FALSE(is_taken(8, {3, 6}));
}

TEST(rts, has_no_segments_whose_sum_wraps) {
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  EXPECT_FALSE(is_taken(8, {most - 7, 16}));
  EXPECT_FALSE(is_taken(8, {16, most - 7}));
}

TEST(rts, has_none_where_the_sink_says_where_to_write) {
  EXPECT_TRUE(is_taken(8, {}, wire::needs_cts));
  EXPECT_FALSE(is_taken(8, {8}, wire::needs_cts));
}

TEST(rts, has_all_the_segments_that_it_counts) {
  wire::rts_fields rts{};
  rts.length = 8;
  rts.segment_count = 1;
  rts.segments[0].length = 8;
  wire::rts_fields out;
  const auto* bytes = reinterpret_cast<const std::byte*>(&rts);
  EXPECT_TRUE(parse_rts(bytes, rts_size(rts), out, 0));
  EXPECT_FALSE(parse_rts(bytes, rts_size(rts) - 1, out, 0));
  rts.segment_count = wire::max_segments + 1;
  EXPECT_FALSE(parse_rts(bytes, sizeof rts, out, 0));
}

// A core need not take them.
TEST(rts, names_no_parts_that_are_empty) {
  test::endpoint_by_itself v;
  test::peer_by_hand p(v);
  auto bytes = test::counting(20'000);
  const std::array<iovec, 3> parts{
      {{bytes.data(), 8000}, {bytes.data(), 0}, {&bytes[8000], 12'000}}};
  ASSERT_EQ(v.send(p.address(), test::memory_of(parts), 1, &v), 0);
  p.settle();
  const auto said = p.heard_whole(wire::kind::rts);
  ASSERT_TRUE(said);
  wire::rts_fields rts{};
  ASSERT_EQ(said->size(), sizeof(wire::eager_fields) + offsetof(wire::rts_fields, segments) +
                              2 * sizeof(wire::segment));
  std::memcpy(&rts, said->data() + sizeof(wire::eager_fields),
              said->size() - sizeof(wire::eager_fields));
  EXPECT_EQ(rts.segment_count, 2U);
  EXPECT_EQ(rts.segments[1].length, 12'000U);
}

}  // namespace
}  // namespace gaudi::proto
