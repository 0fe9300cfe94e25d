// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What an engine's device is measured with, and how long what was measured is known.
#include "copy/engine_probe.hpp"

#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "fake_engine.hpp"

namespace gaudi::copy {
namespace {

using testing::_;

/// A device whose copies have ended when they are looked at.
class a_measured_engine : public testing::Test {
 protected:
  a_measured_engine() {
    ON_CALL(fake_.driver.library, wait_for_cs(_, _, _, _))
        .WillByDefault([this](int, std::uint64_t number, std::uint64_t, std::uint32_t* status) {
          take_as_long_as(fake_.submitted.at(number - 1));
          *status = static_cast<std::uint32_t>(hl::cs_status::completed);
          return 0;
        });
  }
  /// The CPU copies as many bytes, so that there is something to be measured.
  void take_as_long_as(const gaudi::test::fake_engine::submission& copy) {
    for (const hl::lin_dma& packet : copy.packets)
      std::memcpy(to_.data(), from_.data(), std::min<std::size_t>(packet.size, from_.size()));
  }

  gaudi::test::fake_engine fake_;
  std::vector<std::byte> from_{copy_probe::most}, to_{copy_probe::most};
};

TEST_F(a_measured_engine, copies_each_way_between_memory_of_the_probe) {
  const auto engine = *dma_engine::for_device(fake_.open());
  const auto probe = engine_probe::make(*engine);
  ASSERT_TRUE(probe);
  for (const direction dir : all_directions) {
    fake_.submitted.clear();
    ASSERT_TRUE((*probe)->copies(dir, 4096, 1));
    const hl::lin_dma& packet = fake_.submitted.at(0).packets.at(0);
    EXPECT_EQ(device::is_device_address(packet.src), dir != direction::host_to_device);
    EXPECT_EQ(device::is_device_address(packet.dst), dir != direction::device_to_host);
    EXPECT_GE(std::max(packet.dst, packet.src) - std::min(packet.dst, packet.src), 4096U);
  }
}

TEST_F(a_measured_engine, takes_the_threads_time_on_the_cpu_for_what_was_spent) {
  const auto engine = *dma_engine::for_device(fake_.open());
  const auto probe = engine_probe::make(*engine);
  ASSERT_TRUE(probe);
  const auto thread_ns = [] {
    timespec time{};
    EXPECT_EQ(::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time), 0);
    return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
  };
  const double before = thread_ns();
  const double spent = (*probe)->spent();
  EXPECT_LE(before, spent);
  EXPECT_LE(spent, thread_ns());
}

// A device stays what it is while the process lives. Where its time was not enough for all of the
// table, the next engine tries again.
TEST_F(a_measured_engine, is_measured_once_however_many_engines_follow) {
  const auto gaudi = fake_.open();
  auto first = *dma_engine::for_device(gaudi);
  const copy_table known = first->table();
  const auto is_measured = [&](direction dir) { return known[dir].is_measured(); };
  const bool is_complete = std::all_of(all_directions.begin(), all_directions.end(), is_measured);
  const auto submitted = fake_.submitted.size();
  ASSERT_GT(submitted, 0U);
  first.reset();
  const auto second = *dma_engine::for_device(gaudi);
  const copy_table& again = second->table();
  EXPECT_EQ(fake_.submitted.size() == submitted, is_complete);
  for (const direction dir : all_directions)
    EXPECT_TRUE(!is_complete || again[dir].bytes_per_ns == known[dir].bytes_per_ns);
}

TEST_F(a_measured_engine, has_a_time_of_the_cpu_s_copies) {
  const auto engine = *dma_engine::for_device(fake_.open());
  const auto probe = engine_probe::make(*engine);
  ASSERT_TRUE(probe);
  const auto took = (*probe)->host_copy(copy_probe::most);
  ASSERT_TRUE(took);
  EXPECT_GE(*took, 0);
}

}  // namespace
}  // namespace gaudi::copy
