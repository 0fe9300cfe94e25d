// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What a calibration makes of devices and machines of several kinds, whose times a formula gives.
#include "copy/calibration.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

namespace gaudi::copy {
namespace {

constexpr std::uint64_t never = copy_row::never;

/// A machine by its figures. Its clock goes on with what it is asked to do.
class formula final : public copy_probe {
 public:
  double latency_ns = 10'000;
  double each_ns = 2'000;
  double bytes_per_ns = 10;  // of one queue
  double queues_gain = 1;    // of four
  double host_bytes_per_ns = 5;
  double pin_ns = 20'000;
  double pin_ns_per_byte = 0.05;
  bool is_read_only = false;

  // How it misbehaves.
  double clumsy = 1;          // by which factor all but every third measurement takes longer
  int fails_after = 1 << 30;  // measurements
  double others = 0;          // of the clock's time, the share in which others have the CPU
  int asked = 0;

  double now() override { return clock_; }
  double spent() override { return clock_ * (1 - others); }
  [[nodiscard]] bool allows(direction dir) const noexcept override {
    return !is_read_only || dir == direction::device_to_host;
  }
  std::optional<double> copies(direction dir, std::uint64_t length, unsigned count) override {
    EXPECT_TRUE(allows(dir));
    const auto bytes = static_cast<double>(length * count);
    const double rate = bytes_per_ns * (count == 4 ? queues_gain : 1);
    return takes(latency_ns + each_ns * (count - 1) + bytes / rate);
  }
  std::optional<double> pin(std::uint64_t length) override {
    return takes(pin_ns + pin_ns_per_byte * static_cast<double>(length));
  }
  std::optional<double> host_copy(std::uint64_t length) override {
    return takes(static_cast<double>(length) / host_bytes_per_ns);
  }

 private:
  std::optional<double> takes(double ns) {
    if (++asked > fails_after) return std::nullopt;
    if (asked % 3 != 0) ns *= clumsy;
    clock_ += ns;
    return ns;
  }
  double clock_ = 1e12;
};

TEST(calibration, finds_rate_and_times_of_every_direction) {
  formula machine;
  const copy_table table = calibrated(machine);
  for (const direction dir : all_directions) {
    EXPECT_NEAR(table[dir].bytes_per_ns, 10, 0.5) << name_of(dir);
    EXPECT_NEAR(table[dir].latency_ns, 10'000, 500) << name_of(dir);
    EXPECT_NEAR(table[dir].each_ns, 2'500, 600) << name_of(dir);
  }
  EXPECT_NEAR(table.host_bytes_per_ns, 5, 0.1);
}

TEST(calibration, measures_everything_five_times) {
  formula machine;
  static_cast<void>(calibrated(machine, std::chrono::seconds(1)));
  EXPECT_EQ(machine.asked, 5 * (3 * 4 + 3)) << "four of each direction, three of host memory";
}

TEST(calibration, splits_only_where_queues_gain) {
  formula one_link;
  EXPECT_EQ(calibrated(one_link)[direction::host_to_device].split, never);
  formula four_links;
  four_links.queues_gain = 3;
  const copy_row row = calibrated(four_links)[direction::host_to_device];
  EXPECT_LT(row.split, std::uint64_t{1} << 20);
  EXPECT_NEAR(row.bytes_per_ns, 30, 8);
}

TEST(calibration, a_split_pays_later_where_submissions_cost_more) {
  formula cheap, dear;
  cheap.queues_gain = dear.queues_gain = 2;
  cheap.bytes_per_ns = dear.bytes_per_ns = 2;
  dear.each_ns = 30'000;
  dear.latency_ns = 40'000;
  EXPECT_LT(calibrated(cheap)[direction::device_to_device].split,
            calibrated(dear)[direction::device_to_device].split);
}

// The shortest that wins back twice what its further submissions take.
TEST(calibration, splits_from_the_length_on_that_pays_for_the_submissions) {
  formula machine;
  machine.queues_gain = 2;
  machine.bytes_per_ns = 2;
  machine.each_ns = 30'000;
  machine.latency_ns = 40'000;
  const copy_row row = calibrated(machine, std::chrono::seconds(1))[direction::device_to_device];
  ASSERT_NE(row.split, never);
  constexpr double most = copy_probe::most;
  const double whole = machine.latency_ns + most / 2;
  const double split = machine.latency_ns + 3 * machine.each_ns + most / 4;
  const double won_by_each_byte = (whole - split) / most;
  const double further = 3 * row.each_ns;
  EXPECT_GE(won_by_each_byte * static_cast<double>(row.split), 2 * further);
  EXPECT_LT(won_by_each_byte * static_cast<double>(row.split - (64 << 10)), 2 * further);
}

TEST(calibration, pins_where_that_is_shorter_than_a_copy_by_the_cpu) {
  formula cheap_pins;
  const auto from = calibrated(cheap_pins)[direction::host_to_device].pin;
  EXPECT_GT(from, 64U << 10);
  EXPECT_LT(from, 4U << 20);
  formula free_cpu;  // no sooner, but without the CPU
  free_cpu.bytes_per_ns = 1;
  free_cpu.pin_ns = 200'000;
  free_cpu.pin_ns_per_byte = 0.01;
  EXPECT_EQ(calibrated(free_cpu)[direction::host_to_device].pin, copy_row{}.pin);
  formula dear_pins;
  dear_pins.pin_ns_per_byte = 1;
  EXPECT_EQ(calibrated(dear_pins)[direction::host_to_device].pin, never);
  formula free_pins;
  free_pins.pin_ns = free_pins.pin_ns_per_byte = 0;
  EXPECT_EQ(calibrated(free_pins)[direction::device_to_host].pin, 64U << 10);
  // Pinned for nothing: nothing is copied by the CPU there.
  EXPECT_EQ(calibrated(free_pins)[direction::device_to_device].pin, copy_row{}.pin);
}

// As long as the CPU would have less to do, but the whole be no sooner, pins are not worth it for
// short copies.
TEST(calibration, pins_no_short_copy_for_a_gain_that_may_be_the_clocks_mood) {
  formula machine;
  machine.pin_ns = 0;
  machine.pin_ns_per_byte = 0.185;  // 0.285 ns a byte of 64 KiB instead of 0.3
  EXPECT_EQ(calibrated(machine)[direction::host_to_device].pin, never);
}

TEST(calibration, takes_no_rate_from_a_clock_that_stood_still) {
  formula machine;
  machine.host_bytes_per_ns = std::numeric_limits<double>::infinity();
  const copy_table table = calibrated(machine);
  EXPECT_EQ(table.host_bytes_per_ns, copy_table{}.host_bytes_per_ns);
  EXPECT_EQ(table[direction::host_to_device].pin, copy_row{}.pin);
}

// Where the time ends between the short pins and the long ones, as anywhere else.
TEST(calibration, knows_all_of_what_pins_take_or_nothing) {
  formula machine;
  machine.pin_ns_per_byte = 1;
  const std::uint64_t known =
      calibrated(machine, std::chrono::seconds(1))[direction::host_to_device].pin;
  ASSERT_EQ(known, never);
  int with = 0, without = 0;
  for (int us = 1000; us < 20'000; us += 50) {
    formula short_of_time;
    short_of_time.pin_ns_per_byte = 1;
    const auto found =
        calibrated(short_of_time, std::chrono::microseconds(us))[direction::host_to_device].pin;
    EXPECT_TRUE(found == known || found == copy_row{}.pin) << us << " us: " << found;
    ++(found == known ? with : without);
  }
  EXPECT_GT(with, 10);
  EXPECT_GT(without, 10);
}

TEST(calibration, is_the_same_on_a_machine_that_is_busy_now_and_then) {
  formula idle, busy;
  busy.clumsy = 20;
  const copy_table wanted = calibrated(idle, std::chrono::seconds(1));
  const copy_table got = calibrated(busy, std::chrono::seconds(1));
  for (const direction dir : all_directions) {
    EXPECT_DOUBLE_EQ(got[dir].bytes_per_ns, wanted[dir].bytes_per_ns);
    EXPECT_DOUBLE_EQ(got[dir].latency_ns, wanted[dir].latency_ns);
    EXPECT_EQ(got[dir].split, wanted[dir].split);
    EXPECT_EQ(got[dir].pin, wanted[dir].pin);
  }
}

TEST(calibration, keeps_to_its_budget_and_to_defaults_for_the_rest) {
  formula slow;
  slow.bytes_per_ns = 0.05;  // 21 ms for the longest copy
  const double began = slow.now();
  const copy_table table = calibrated(slow);
  const double longest = slow.latency_ns + static_cast<double>(copy_probe::most) / 0.05;
  EXPECT_LT(slow.now() - began, 20e6 + longest);
  EXPECT_FALSE(table[direction::device_to_device].is_measured());
  EXPECT_EQ(table[direction::device_to_device].pin, copy_row{}.pin);
  EXPECT_EQ(table[direction::device_to_device].split, copy_row{}.split);
}

TEST(calibration, is_made_where_others_have_the_cpu_most_of_the_time) {
  formula alone, shared;
  alone.bytes_per_ns = shared.bytes_per_ns = 0.05;
  EXPECT_FALSE(calibrated(alone)[direction::device_to_device].is_measured())
      << "20 ms are not enough";
  shared.others = 0.75;
  for (const direction dir : all_directions)
    EXPECT_TRUE(calibrated(shared)[dir].is_measured()) << name_of(dir);
}

TEST(calibration, ends_where_others_have_the_cpu_all_of_the_time) {
  formula starved;
  starved.others = 1;
  starved.bytes_per_ns = 0.05;
  const double began = starved.now();
  static_cast<void>(calibrated(starved));
  const double longest = starved.latency_ns + static_cast<double>(copy_probe::most) / 0.05;
  EXPECT_LT(starved.now() - began, calibration_patience * 20e6 + longest);
}

TEST(calibration, believes_no_clock_that_stands_still_or_jumps) {
  formula still;
  still.latency_ns = still.each_ns = 0;
  still.bytes_per_ns = 1e9;
  EXPECT_FALSE(calibrated(still)[direction::host_to_device].is_measured());
  formula jumps;
  jumps.latency_ns = 1e9;
  EXPECT_FALSE(
      calibrated(jumps, std::chrono::seconds(1000))[direction::host_to_device].is_measured());
}

TEST(calibration, takes_copies_to_memory_that_is_not_to_be_written_to_as_those_from_it) {
  formula machine;
  machine.is_read_only = true;
  const copy_table table = calibrated(machine);
  EXPECT_NEAR(table[direction::device_to_host].bytes_per_ns, 10, 0.5);
  EXPECT_DOUBLE_EQ(table[direction::host_to_device].bytes_per_ns,
                   table[direction::device_to_host].bytes_per_ns);
  EXPECT_DOUBLE_EQ(table[direction::host_to_device].latency_ns,
                   table[direction::device_to_host].latency_ns);
  EXPECT_FALSE(table[direction::device_to_device].is_measured());
  EXPECT_EQ(table[direction::device_to_device].split, never);
}

TEST(calibration, asks_nothing_more_of_a_device_that_failed) {
  for (const int fails_after : {0, 1, 7, 20, 40}) {
    formula broken;
    broken.fails_after = fails_after;
    const copy_table table = calibrated(broken);
    EXPECT_EQ(broken.asked, fails_after + 1);
    EXPECT_FALSE(table[direction::device_to_device].is_measured() && fails_after < 40);
  }
}

}  // namespace
}  // namespace gaudi::copy
