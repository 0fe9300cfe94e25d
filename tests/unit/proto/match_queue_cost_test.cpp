// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What must not depend on depth does not: key comparisons are counted, not time.
#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <ostream>
#include <string>

#include "proto/match/match_queue.hpp"

namespace gaudi::proto {
namespace {

struct counting_probe {
  static inline std::size_t comparisons = 0;
  static void compared() { ++comparisons; }
};
using counted_queue = basic_match_queue<counting_probe>;

constexpr std::size_t deep = 65'536;
// A look-up that hits compares 1.5 keys on average when there are as many buckets as keys and the
// keys spread at random.
constexpr double few = 2.0;

template <class Work>
double comparisons_per_item(std::size_t items, Work&& posted_op) {
  counting_probe::comparisons = 0;
  posted_op();
  return static_cast<double>(counting_probe::comparisons) / static_cast<double>(items);
}

struct keys {
  const char* name;
  uint64_t (*tag)(uint64_t i);
  uint32_t (*source)(uint64_t i);
};

void PrintTo(const keys& k, std::ostream* out) {
  *out << k.name;
}

class match_queue_cost : public ::testing::TestWithParam<keys> {
 protected:
  void post_all(uint32_t (*source)(uint64_t)) {
    for (uint64_t i = 0; i != deep; ++i) {
      receives_[i].tag = GetParam().tag(i);
      receives_[i].source = source(i);
      queue_.post(receives_[i]);
    }
  }
  void match(uint64_t i) {
    ASSERT_EQ(queue_.match_arrival(GetParam().source(i), GetParam().tag(i)), &receives_[i]);
  }
  void take(uint64_t i) {
    ASSERT_EQ(queue_.find_arrival(GetParam().source(i), GetParam().tag(i), 0), &messages_[i]);
    queue_.remove(messages_[i]);
  }
  template <class Work>
  static void forwards(Work&& posted_op) {
    for (uint64_t i = 0; i != deep; ++i) posted_op(i);
  }
  template <class Work>
  static void backwards(Work&& posted_op) {
    for (uint64_t i = deep; i-- != 0;) posted_op(i);
  }
  void add_all() {
    for (uint64_t i = 0; i != deep; ++i) {
      messages_[i].tag = GetParam().tag(i);
      messages_[i].source = GetParam().source(i);
      queue_.add_arrival(messages_[i]);
    }
  }

  std::deque<posted_hook> receives_{deep};
  std::deque<arrived_hook> messages_{deep};
  counted_queue queue_;
};

TEST_P(match_queue_cost, posting_and_matching) {
  EXPECT_LT(comparisons_per_item(deep, [&] { post_all(GetParam().source); }), few);
  EXPECT_LT(comparisons_per_item(deep, [&] { forwards([&](uint64_t i) { match(i); }); }), few);
}

TEST_P(match_queue_cost, matching_in_reverse) {
  post_all(GetParam().source);
  EXPECT_LT(comparisons_per_item(deep, [&] { backwards([&](uint64_t i) { match(i); }); }), few);
}

TEST_P(match_queue_cost, queueing_and_taking_messages) {
  // A message is queued under three keys.
  EXPECT_LT(comparisons_per_item(deep, [&] { add_all(); }), 3 * few);
  EXPECT_LT(comparisons_per_item(deep, [&] { forwards([&](uint64_t i) { take(i); }); }), few);
}

TEST_P(match_queue_cost, taking_messages_in_reverse) {
  add_all();
  EXPECT_LT(comparisons_per_item(deep, [&] { backwards([&](uint64_t i) { take(i); }); }), few);
}

INSTANTIATE_TEST_SUITE_P(
    patterns, match_queue_cost,
    ::testing::Values(
        keys{"sequential", [](uint64_t i) { return i; }, [](uint64_t) { return 1u; }},
        keys{"upper half", [](uint64_t i) { return i << 32; }, [](uint64_t) { return 1u; }},
        keys{"top bits", [](uint64_t i) { return i << 48; }, [](uint64_t) { return 1u; }},
        keys{"both halves", [](uint64_t i) { return (i >> 8) << 32 | (i & 255); },
             [](uint64_t) { return 1u; }},
        keys{"equal halves", [](uint64_t i) { return i << 32 | i; }, [](uint64_t) { return 1u; }},
        keys{"strided", [](uint64_t i) { return i * 4096; }, [](uint64_t) { return 1u; }},
        keys{"mebibytes", [](uint64_t i) { return i << 20; }, [](uint64_t) { return 1u; }},
        keys{"per source", [](uint64_t i) { return i & 255; },
             [](uint64_t i) { return static_cast<uint32_t>(i >> 8); }},
        keys{"one tag", [](uint64_t) { return uint64_t{7}; },
             [](uint64_t i) { return static_cast<uint32_t>(i); }},
        keys{"rank in tag", [](uint64_t i) { return i << 32 | 99; },
             [](uint64_t i) { return static_cast<uint32_t>(i); }}),
    [](const auto& pattern) {
      std::string name = pattern.param.name;
      for (char& c : name) c = c == ' ' ? '_' : c;
      return name;
    });

class match_queue_flat : public ::testing::Test {
 protected:
  std::deque<posted_hook> receives_{deep};
  std::deque<arrived_hook> messages_{deep};
  counted_queue queue_;
};

TEST_F(match_queue_flat, any_source_receives_of_different_tags) {
  for (uint64_t i = 0; i != deep; ++i) {
    receives_[i].tag = i;
    queue_.post(receives_[i]);
  }
  const double cost = comparisons_per_item(deep, [&] {
    for (uint64_t i = deep; i-- != 0;) ASSERT_EQ(queue_.match_arrival(5, i), &receives_[i]);
  });
  EXPECT_LT(cost, few);
}

TEST_F(match_queue_flat, any_source_search_among_messages_of_different_tags) {
  for (uint64_t i = 0; i != deep; ++i) {
    messages_[i].tag = i;
    messages_[i].source = static_cast<uint32_t>(i % 100);
    queue_.add_arrival(messages_[i]);
  }
  const double cost = comparisons_per_item(deep, [&] {
    for (uint64_t i = deep; i-- != 0;) {
      ASSERT_EQ(queue_.find_arrival(any_source, i, 0), &messages_[i]);
      queue_.remove(messages_[i]);
    }
  });
  EXPECT_LT(cost, few);
}

TEST_F(match_queue_flat, untagged_traffic) {
  const double receiving = comparisons_per_item(deep, [&] {
    for (posted_hook& r : receives_) queue_.post(r);
    for (posted_hook& r : receives_) ASSERT_EQ(queue_.match_arrival(3, 0), &r);
  });
  EXPECT_LE(receiving, 2.0);
  const double unexpected = comparisons_per_item(deep, [&] {
    for (arrived_hook& m : messages_) queue_.add_arrival(m);
    for (arrived_hook& m : messages_) {
      ASSERT_EQ(queue_.find_arrival(any_source, 0, 0), &m);
      queue_.remove(m);
    }
  });
  EXPECT_LE(unexpected, 4.0);
}

TEST_F(match_queue_flat, many_receives_of_one_key_do_not_hide_another) {
  for (posted_hook& r : receives_) {
    r.source = 1;
    queue_.post(r);
  }
  posted_hook other[64];
  for (uint64_t i = 0; i != 64; ++i) {
    other[i].source = 1;
    other[i].tag = i + 1;
    queue_.post(other[i]);
  }
  const double cost = comparisons_per_item(64, [&] {
    for (posted_hook& r : other) ASSERT_EQ(queue_.match_arrival(1, r.tag), &r);
  });
  EXPECT_LT(cost, few);
}

TEST_F(match_queue_flat, removing_compares_nothing) {
  for (uint64_t i = 0; i != deep; ++i) {
    receives_[i].tag = i / 4;
    receives_[i].ignore = i % 2;
    queue_.post(receives_[i]);
    messages_[i].tag = i / 4;
    queue_.add_arrival(messages_[i]);
  }
  const double cost = comparisons_per_item(deep, [&] {
    for (uint64_t i = deep; i-- != 0;) {
      queue_.remove(receives_[i]);
      queue_.remove(messages_[i]);
    }
  });
  EXPECT_EQ(cost, 0.0);
}

TEST_F(match_queue_flat, masked_receives_cost_nothing_once_they_are_gone) {
  receives_[0].ignore = 1;
  queue_.post(receives_[0]);
  queue_.remove(receives_[0]);
  receives_[1].source = 2;
  queue_.post(receives_[1]);
  const double cost =
      comparisons_per_item(1, [&] { ASSERT_EQ(queue_.match_arrival(2, 0), &receives_[1]); });
  EXPECT_EQ(cost, 1.0);
}

TEST_F(match_queue_flat, a_masked_receive_from_one_source_skips_other_sources) {
  for (std::size_t i = 0; i != 1000; ++i) {
    messages_[i].source = 1;
    queue_.add_arrival(messages_[i]);
  }
  messages_[1000].source = 2;
  queue_.add_arrival(messages_[1000]);
  const double cost = comparisons_per_item(
      1, [&] { ASSERT_EQ(queue_.find_arrival(2, 0, 0xff), &messages_[1000]); });
  EXPECT_LE(cost, few);
}

TEST_F(match_queue_flat, a_masked_search_ends_at_an_earlier_exact_receive) {
  receives_[0].source = 2;
  queue_.post(receives_[0]);
  for (std::size_t i = 1; i != 1000; ++i) {
    receives_[i].tag = 0xf00;
    receives_[i].ignore = 0xff;
    queue_.post(receives_[i]);
  }
  const double cost =
      comparisons_per_item(1, [&] { ASSERT_EQ(queue_.match_arrival(2, 0), &receives_[0]); });
  EXPECT_LE(cost, few);
}

}  // namespace
}  // namespace gaudi::proto
