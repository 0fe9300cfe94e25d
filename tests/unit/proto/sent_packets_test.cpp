// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/session/sent_packets.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <string>
#include <vector>

#include "proto/operation/buffer_pool.hpp"
#include "proto/session/session.hpp"

namespace gaudi::proto {
namespace {

// The buffers are only names here.
buffer& some_buffer(std::uintptr_t n) {
  return *reinterpret_cast<buffer*>(0x1000 * (n + 1));
}

void add(sent_packets& to, const std::string& text) {
  ASSERT_TRUE(to.reserve(text.size()));
  to.add(reinterpret_cast<const std::byte*>(text.data()), text.size());
}

std::string text_of(const sent_packets::packet& p) {
  if (p.whole) return "buffer";
  return {reinterpret_cast<const char*>(p.bytes.data()), p.bytes.size()};
}

std::vector<std::string> all_from(sent_packets& kept, std::uint32_t number) {
  std::vector<std::string> all;
  kept.each_from(number, [&](const sent_packets::packet& p) {
    all.push_back(std::to_string(p.number) + " " + text_of(p));
    return true;
  });
  return all;
}

void forget(sent_packets& kept, std::uint32_t number) {
  kept.forget_until(number, [](buffer&) { ADD_FAILURE() << "there is no buffer"; });
}

TEST(sent_packets, are_numbered_from_1_on_and_found_by_that) {
  sent_packets kept;
  EXPECT_TRUE(kept.empty());
  EXPECT_EQ(kept.first(), 1U);
  for (const char* text : {"a", "bb", "ccc"}) add(kept, text);
  EXPECT_EQ(all_from(kept, 1), (std::vector<std::string>{"1 a", "2 bb", "3 ccc"}));
  EXPECT_EQ(all_from(kept, 3), (std::vector<std::string>{"3 ccc"}));
  EXPECT_TRUE(all_from(kept, 4).empty());
  forget(kept, 2);
  EXPECT_EQ(kept.first(), 3U);
  EXPECT_EQ(all_from(kept, 1), (std::vector<std::string>{"3 ccc"}));
  forget(kept, 2);
  EXPECT_EQ(kept.first(), 3U) << "what is forgotten already";
  forget(kept, 3);
  EXPECT_TRUE(kept.empty());
}

TEST(sent_packets, end_their_walk_where_that_is_asked_for) {
  sent_packets kept;
  for (const char* text : {"a", "b", "c"}) add(kept, text);
  std::uint32_t last = 0;
  kept.each_from(1, [&](const sent_packets::packet& p) {
    last = p.number;
    return p.number < 2;
  });
  EXPECT_EQ(last, 2U);
}

TEST(sent_packets, give_their_buffers_back_in_order) {
  sent_packets kept;
  for (std::uintptr_t n = 0; n < 3; ++n) {
    ASSERT_TRUE(kept.reserve(0));
    kept.add(some_buffer(n));
    add(kept, "between");
  }
  std::vector<buffer*> back;
  kept.forget_until(3, [&](buffer& b) { back.push_back(&b); });
  EXPECT_EQ(back, (std::vector<buffer*>{&some_buffer(0), &some_buffer(1)}));
  EXPECT_EQ(all_from(kept, 1), (std::vector<std::string>{"4 between", "5 buffer", "6 between"}));
}

TEST(sent_packets, go_on_behind_the_largest_number) {
  sent_packets kept;
  const auto count_to = [&](std::uint32_t number) {
    while (kept.first() != number) {
      add(kept, "x");
      forget(kept, kept.first());
    }
  };
  // 2^32 of them would take a minute: what is compared is the distance.
  count_to(100);
  add(kept, "y");
  forget(kept, 100 - 0x80000000U);
  EXPECT_EQ(kept.first(), 100U) << "a number from before";
  EXPECT_FALSE(kept.empty());
}

// Against a queue that cannot be wrong: all lengths, and the ring at each of its places.
TEST(sent_packets, are_what_was_added_however_the_ring_turns) {
  std::mt19937 random(1);
  sent_packets kept;
  std::deque<std::string> model;
  std::uint32_t first = 1;
  for (int step = 0; step < 20'000; ++step) {
    const std::size_t most = step % 4000 < 2000 ? 8 : 60;  // it grows, and runs nearly empty
    if (model.size() < most && random() % 3 != 0) {
      model.emplace_back(random() % 257, static_cast<char>('a' + random() % 26));
      add(kept, model.back());
    } else if (!model.empty()) {
      const std::size_t count = 1 + random() % model.size();
      model.erase(model.begin(), model.begin() + static_cast<std::ptrdiff_t>(count));
      first += static_cast<std::uint32_t>(count);
      forget(kept, first - 1);
    }
    ASSERT_EQ(kept.first(), first);
    ASSERT_EQ(kept.empty(), model.empty());
    if (step % 16 != 0) continue;
    std::size_t at = 0;
    kept.each_from(first, [&](const sent_packets::packet& p) {
      EXPECT_EQ(text_of(p), model[at++]) << "step " << step;
      return !testing::Test::HasFailure();
    });
    ASSERT_EQ(at, model.size());
  }
  EXPECT_LE(kept.capacity(), 32768U) << "twice what is kept at most, as a power of two";
}

// A peer repeats what it has said until it has received more.
TEST(sent_packets, fill_their_memory_to_its_end) {
  sent_packets kept;
  ASSERT_TRUE(kept.reserve(504));
  const std::size_t capacity = kept.capacity();
  ASSERT_EQ(capacity, 2 * (504 + 8)) << "for two, each behind its length";
  add(kept, std::string(504, 'a'));
  add(kept, std::string(504, 'b'));
  EXPECT_EQ(kept.capacity(), capacity);
  EXPECT_EQ(all_from(kept, 2), (std::vector<std::string>{"2 " + std::string(504, 'b')}));
  add(kept, "c");
  EXPECT_GT(kept.capacity(), capacity);
}

TEST(session, knows_what_can_have_been_received) {
  session s;
  s.is_kept = true;
  wire::header head{};
  for (const char* text : {"a", "b", "c", "d", "e"}) {
    s.number(head);
    add(s.packets, text);
  }
  EXPECT_EQ(head.number, 5U);
  forget(s.packets, 3);
  for (const std::uint32_t n : {3U, 4U, 5U}) EXPECT_TRUE(s.may_be_received(n)) << n;
  for (const std::uint32_t n : {0U, 1U, 2U, 6U, 7U, 0x80000000U})
    EXPECT_FALSE(s.may_be_received(n)) << n;
}

}  // namespace
}  // namespace gaudi::proto
