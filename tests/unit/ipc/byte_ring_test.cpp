// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ipc/byte_ring.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <random>
#include <vector>

#include "ring_of.hpp"

namespace gaudi::ipc {
namespace {

constexpr std::size_t capacity = 1024;

using test::packet_of;
using ring = test::ring_of<capacity>;

TEST(byte_ring, is_empty_at_first_and_after_the_last_packet) {
  ring r;
  EXPECT_TRUE(r.out.front().empty());
  ASSERT_TRUE(r.put(packet_of(1, 8)));
  EXPECT_EQ(r.get(), packet_of(1, 8));
  EXPECT_TRUE(r.out.front().empty());
  EXPECT_FALSE(r.out.damaged());
}

TEST(byte_ring, shows_nothing_before_it_is_committed) {
  ring r;
  ASSERT_TRUE(r.in.reserve(8));
  EXPECT_TRUE(r.out.front().empty());
  ASSERT_TRUE(r.put(packet_of(2, 16)));
  EXPECT_EQ(r.get(), packet_of(2, 16)) << "what was only reserved left nothing behind";
}

TEST(byte_ring, takes_no_packet_beyond_the_largest) {
  ring r;
  EXPECT_TRUE(r.in.reserve(largest_packet(capacity)));
  EXPECT_FALSE(r.in.reserve(largest_packet(capacity) + 1));
}

TEST(byte_ring, is_as_small_as_the_packet_allows) {
  for (const std::size_t packet : {1000, 16384 + 40, 65536 + 40, 1048576 + 40}) {
    EXPECT_GE(largest_packet(ring_capacity(packet)), packet);
    EXPECT_LT(largest_packet(ring_capacity(packet) / 2), packet);
  }
}

// The word of it would move between the processors' caches each time.
TEST(byte_ring, tells_the_writer_of_room_now_and_then_only) {
  ring r;
  std::vector<std::uint64_t> told;
  for (std::uint64_t i = 0; i < 500; ++i) {
    ASSERT_TRUE(r.put(packet_of(i, 8)));
    EXPECT_EQ(r.get(), packet_of(i, 8));
    if (told.empty() || told.back() != r.control.taken) told.push_back(r.control.taken);
  }
  constexpr std::uint64_t bytes = 500 * 16;
  EXPECT_LE(told.size(), bytes / (capacity / 4) + 1);
  EXPECT_GE(told.size(), bytes / (capacity / 2)) << "or it takes what is free for full";
}

// At every place in the ring, with every amount in it: a model that is a queue says the same.
TEST(byte_ring, is_a_queue_for_a_million_packets_of_random_sizes) {
  ring r;
  std::deque<std::vector<std::byte>> model;
  std::mt19937_64 random(4);
  std::uint64_t number = 0;
  std::uint64_t refused = 0;
  while (number < 1'000'000) {
    if (random() % 2) {
      auto packet = packet_of(number, 1 + random() % largest_packet(capacity));
      if (r.put(packet)) {
        model.push_back(std::move(packet));
        ++number;
      } else {
        ++refused;
        ASSERT_FALSE(model.empty()) << "an empty ring refused " << packet.size() << " bytes";
      }
    } else {
      const auto got = r.get();
      ASSERT_FALSE(r.out.damaged());
      ASSERT_EQ(got.empty(), model.empty());
      if (model.empty()) continue;
      ASSERT_EQ(got, model.front());
      model.pop_front();
    }
  }
  EXPECT_GT(refused, 1000U) << "the ring was never full";
}

TEST(byte_ring, wakes_a_reader_once_for_each_sleep) {
  ring r;
  const auto send = [&] {
    std::byte* const room = r.in.reserve(8);
    EXPECT_TRUE(room);
    std::memset(room, 1, 8);
    return r.in.commit(true);
  };
  EXPECT_FALSE(send()) << "nobody sleeps";
  EXPECT_FALSE(r.out.sleep()) << "a packet is there";
  EXPECT_FALSE(send()) << "it did not go to sleep";
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(r.get().empty());
  EXPECT_TRUE(r.out.sleep());
  EXPECT_TRUE(send());
  EXPECT_FALSE(send());
}

struct damage {
  std::uint64_t written;
  std::uint64_t length_word;
};

class damaged_ring : public testing::TestWithParam<damage> {};

// What another process writes is its word: no length of its leads out of the ring.
TEST_P(damaged_ring, gives_nothing_and_says_so) {
  ring r;
  std::memcpy(r.data, &GetParam().length_word, sizeof(std::uint64_t));
  r.control.written = GetParam().written;
  EXPECT_TRUE(r.out.front().empty());
  EXPECT_TRUE(r.out.damaged());
  ASSERT_TRUE(r.in.reserve(8));
  EXPECT_TRUE(r.out.front().empty()) << "for good";
}

TEST(byte_ring, gives_nothing_of_a_packet_of_which_only_a_part_is_there) {
  ring r;
  ASSERT_TRUE(r.put(packet_of(1, 8)));
  EXPECT_EQ(r.get(), packet_of(1, 8));
  const std::uint64_t length = 64;
  std::memcpy(r.data + r.control.written, &length, sizeof length);
  r.control.written = r.control.written + 64;
  EXPECT_TRUE(r.out.front().empty()) << "its length takes 8 more";
  EXPECT_TRUE(r.out.damaged());
}

INSTANTIATE_TEST_SUITE_P(by, damaged_ring,
                         testing::Values(damage{capacity + 8, 8},    // more than there is room for
                                         damage{13, 8},              // not at a packet's end
                                         damage{8, 8},               // a length without its packet
                                         damage{16, 0},              // no length
                                         damage{512, 4096},          // beyond the ring
                                         damage{512, 1ULL << 63},    // beyond memory
                                         damage{capacity, ~0ULL}));  // a skip with nothing behind

}  // namespace
}  // namespace gaudi::ipc
