// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/counters_layout.hpp"

// How long operations take, as a block of the counters page has it: fi_gaudi_counters(7).
namespace gaudi::base::counters {

/// What a histogram is of: block_header::number of a block of kind `latency`. A number never gets
/// another meaning.
enum class latency_kind : std::uint32_t {
  message = 0,
  rendezvous_send = 1,
  rendezvous_receive = 2,
  rma_write = 3,
  rma_read = 4,
  device_copy = 5,
};

inline constexpr std::array<std::string_view, 6> latency_names{
    "message", "rendezvous_send", "rendezvous_receive", "rma_write", "rma_read", "device_copy"};

/// The values of a block of kind `latency`, in nanoseconds, with buckets that double. Each of them
/// grows only. Written by one thread at a time.
struct latency_histogram {
  static constexpr std::size_t bucket_count = 46;

  std::uint64_t count = 0;
  std::uint64_t sum = 0;
  std::array<std::uint64_t, bucket_count> buckets{};

  /// The last nanosecond that a bucket counts; the first one begins at 0, each other one behind the
  /// one before, and the last one has no end.
  static constexpr std::uint64_t bound_of(std::size_t bucket) noexcept {
    return std::uint64_t{1} << bucket;
  }
  static constexpr std::size_t bucket_for(std::uint64_t nanoseconds) noexcept {
    const auto bucket = nanoseconds <= 1
                            ? std::size_t{0}
                            : static_cast<std::size_t>(std::bit_width(nanoseconds - 1));
    return bucket < bucket_count ? bucket : bucket_count - 1;
  }

  void add(std::uint64_t nanoseconds) noexcept {
    ++buckets[bucket_for(nanoseconds)];
    sum += nanoseconds;
    ++count;
  }
};

static_assert(sizeof(latency_histogram) ==
              (2 + latency_histogram::bucket_count) * sizeof(std::uint64_t));

}  // namespace gaudi::base::counters
