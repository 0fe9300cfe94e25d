// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <gtest/gtest.h>

#include <set>

#include "base/clock.hpp"
#include "base/random_source.hpp"

namespace gaudi::base {
namespace {

struct driven : clock::source, random_source::source {
  clock::time_point now() noexcept override { return time; }
  std::uint64_t next() noexcept override { return ++number; }
  clock::time_point time{};
  std::uint64_t number = 0;
};

TEST(clock, is_the_machines_unless_it_is_driven) {
  const auto before = std::chrono::steady_clock::now();
  const auto read = clock().now();
  EXPECT_LE(before, read);
  EXPECT_LE(read, std::chrono::steady_clock::now());
}

TEST(clock, reads_its_source_and_so_do_copies) {
  driven source;
  const clock driven_clock(source);
  const clock copy = driven_clock;
  source.time += std::chrono::hours(1);
  EXPECT_EQ(driven_clock.now(), source.time);
  EXPECT_EQ(copy.now(), source.time);
}

TEST(random_source, of_the_kernel_does_not_repeat_itself) {
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 64; ++i) seen.insert(random_source().next());
  EXPECT_EQ(seen.size(), 64u);
}

TEST(random_source, draws_from_its_source_and_so_do_copies) {
  driven source;
  const random_source seeded(source);
  const random_source copy = seeded;
  EXPECT_EQ(seeded.next(), 1u);
  EXPECT_EQ(copy.next(), 2u);
}

}  // namespace
}  // namespace gaudi::base
