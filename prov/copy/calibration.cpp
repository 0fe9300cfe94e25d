// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "copy/calibration.hpp"

#include <algorithm>
#include <cmath>

#include "copy/bounce_pool.hpp"

namespace gaudi::copy {
namespace {

constexpr std::uint64_t short_copy = 4096;
constexpr unsigned short_copies = 16;
constexpr unsigned repeats = 5;

// What is beyond these was not the engine.
constexpr double min_rate = 0.01;  // bytes per ns
constexpr double max_rate = 1000;
constexpr double max_latency_ns = 2e6;

// Thresholds are kept where a wrong one costs little.
constexpr std::uint64_t min_threshold = std::uint64_t{64} << 10;
constexpr std::uint64_t max_threshold = std::uint64_t{64} << 20;

// A gain that may be the clock's mood is none.
constexpr double worth_it = 0.9;

class calibration {
 public:
  calibration(copy_probe& with, std::chrono::nanoseconds budget)
      : probe_(with),
        begin_(with.spent()),
        budget_(static_cast<double>(budget.count())),
        end_(with.now() + calibration_patience * budget_) {}

  copy_table run() {
    copy_table table;
    constexpr double share = 0.25;  // of each, and of what concerns host memory
    deadline_ = begin_;
    for (const direction dir : all_directions) {
      deadline_ += share * budget_;
      measure(dir, table[dir]);
    }
    deadline_ = begin_ + budget_;
    // What had no time in its turn, as the first one has threads to start and pages to touch.
    for (const direction dir : all_directions)
      if (!table[dir].is_measured()) measure(dir, table[dir]);
    if (!probe_.allows(direction::host_to_device))
      table[direction::host_to_device] = table[direction::device_to_host];
    measure_host(table);
    return table;
  }

 private:
  bool in_time() { return probe_.spent() < deadline_ && probe_.now() < end_; }

  template <class Measure>
  std::optional<double> min_of(Measure&& measure) {
    std::optional<double> least;
    for (unsigned i = 0; i < repeats && !failed_ && in_time(); ++i) {
      const std::optional<double> one = measure();
      failed_ = !one;
      if (one) least = std::min(*one, least.value_or(*one));
    }
    return failed_ ? std::nullopt : least;
  }
  std::optional<double> copies(direction dir, std::uint64_t length, unsigned count) {
    return min_of([&] { return probe_.copies(dir, length, count); });
  }

  // A row is measured as a whole or not at all.
  void measure(direction dir, copy_row& row) {
    if (!probe_.allows(dir)) return;
    const auto alone = copies(dir, short_copy, 1);
    const auto several = copies(dir, short_copy, short_copies);
    const auto whole = copies(dir, copy_probe::most, 1);
    if (!alone || !several || !whole) return;
    const double each = std::min(*several / short_copies, *alone);
    const auto split = copies(dir, copy_probe::most / split_parts, split_parts);
    const double best = std::min(*whole, split.value_or(*whole));
    // Latency is no part of a rate, but never most of the time either.
    const double moving = std::max(best - *alone, best / 2);
    const double rate = static_cast<double>(copy_probe::most) / moving;
    if (rate < min_rate || rate > max_rate || *alone > max_latency_ns) return;
    row.bytes_per_ns = rate;
    row.latency_ns = *alone;
    row.each_ns = each;
    if (split && *split < worth_it * *whole) row.split = split_from(*whole, *split, each);
  }

  // Where what is won pays for the further submissions twice.
  static std::uint64_t split_from(double whole, double split, double each) {
    const double won_per_byte = (whole - split) / static_cast<double>(copy_probe::most);
    const double from = 2 * (split_parts - 1) * each / won_per_byte;
    constexpr std::uint64_t max_steps = max_threshold / min_threshold;
    const double steps = std::ceil(from / static_cast<double>(min_threshold));
    return std::clamp<std::uint64_t>(static_cast<std::uint64_t>(steps), 1, max_steps) *
           min_threshold;
  }

  void measure_host(copy_table& table) {
    const auto copied = min_of([&] { return probe_.host_copy(copy_probe::most); });
    const auto short_pin = min_of([&] { return probe_.pin(min_threshold); });
    const auto long_pin = min_of([&] { return probe_.pin(copy_probe::most); });
    if (!copied || *copied <= 0) return;
    table.host_bytes_per_ns = static_cast<double>(copy_probe::most) / *copied;
    if (!short_pin || !long_pin) return;
    const double per_byte = std::max(*long_pin - *short_pin, 0.0) /
                            static_cast<double>(copy_probe::most - min_threshold);
    const double fixed = std::max(*short_pin - per_byte * min_threshold, 0.0);
    for (const direction dir : {direction::host_to_device, direction::device_to_host}) {
      copy_row& row = table[dir];
      if (row.is_measured()) row.pin = pin_from(row, fixed, per_byte, 1 / table.host_bytes_per_ns);
    }
  }

  // The first power of two whose copy is made sooner pinned than by way of chunks, where the CPU's
  // copies and the engine's overlap but for one chunk. From the default on it may take as long,
  // because the CPU is free meanwhile.
  static std::uint64_t pin_from(const copy_row& row, double fixed, double pin_per_byte,
                                double host_per_byte) {
    const double engine_per_byte = 1 / row.bytes_per_ns;
    for (std::uint64_t length = min_threshold; length <= max_threshold; length *= 2) {
      const auto bytes = static_cast<double>(length);
      const auto chunk = static_cast<double>(std::min(length, bounce_pool::usual_chunk));
      const double pinned = fixed + bytes * (pin_per_byte + engine_per_byte);
      const double bounced = bytes * std::max(host_per_byte, engine_per_byte) +
                             chunk * std::min(host_per_byte, engine_per_byte);
      const bool is_long = length >= copy_row{}.pin;
      if (pinned * worth_it < bounced && (is_long || pinned < worth_it * bounced)) return length;
    }
    return copy_row::never;
  }

  copy_probe& probe_;
  const double begin_;  // of the CPU's time, as deadline_
  const double budget_;
  const double end_;  // by the clock
  double deadline_ = 0;
  bool failed_ = false;
};

}  // namespace

copy_table calibrated(copy_probe& with, std::chrono::nanoseconds budget) {
  return calibration(with, budget).run();
}

}  // namespace gaudi::copy
