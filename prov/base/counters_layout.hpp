// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

// The counters page: what a process lets others see of its counters, as fi_gaudi_counters(7)
// documents it. All numbers are the host's, all strings end with a zero byte.
namespace gaudi::base::counters {

/// Name of the page's memfd; a process has the page open for as long as it lives.
inline constexpr char page_name[] = "gaudi-fi-counters";

/// A reader takes no page with another magic or version. What is new comes behind what there was,
/// within the sizes that the header gives; the version changes where that cannot be.
inline constexpr std::array<char, 8> magic{'G', 'A', 'U', 'D', 'I', 'C', 'T', 'R'};
inline constexpr std::uint32_t version = 1;

struct page_header {
  std::array<char, 8> magic;
  std::uint32_t version;
  std::uint32_t header_size;  ///< bytes: the first block begins there
  std::uint64_t page_size;    ///< bytes of all
  std::uint32_t block_size;   ///< bytes of a block
  std::uint32_t block_count;
  std::int32_t pid;          ///< in the process's own PID namespace
  std::uint32_t unseen;      ///< domains and devices that found no free block: nobody sees theirs
  std::uint64_t start_time;  ///< of the process, as field 22 of /proc/PID/stat has it
  std::uint64_t changes;     ///< odd while a block comes or goes; a reader looks before and after
  std::array<char, 16> command;
  std::array<char, 16> release;  ///< of the provider
};

enum class block_kind : std::uint32_t {
  none = 0,     ///< the block is free
  domain = 1,   ///< a libfabric domain: one NIC
  device = 2,   ///< a Gaudi
  latency = 3,  ///< how long operations of a domain take (latency_histogram.hpp)
  rail = 4,     ///< a rail of a domain's endpoints, behind the first
};

enum class block_state : std::uint32_t {
  open = 1,
  closed = 2,  ///< the sum of those of this kind, name and number that were open before
};

struct block_header {
  block_kind kind;
  block_state state;
  std::uint32_t value_count;  ///< of the values those that the kind has
  /// A device's, as FI_GAUDI_DEVICE counts them; of latencies, which operations they are of; a
  /// rail's, from 1 on; else -1.
  std::int32_t number;
  std::array<char, 64> name;    ///< a domain's or rail's NIC, as libfabric has it; "Gaudi2"
  std::array<char, 32> detail;  ///< a domain's core provider; a device's PCI address
  std::array<std::uint64_t, 2> spare;
};

inline constexpr std::size_t max_values = 64;

/// Values only grow, but for those that are counts of what there is now (counter_names.hpp). Each
/// is written as a whole; several of them need not be of one moment.
struct block {
  block_header head;
  alignas(64) std::array<std::uint64_t, max_values> values;
};

inline constexpr std::size_t page_size = 81920;
inline constexpr std::size_t header_size = sizeof(block);
inline constexpr std::size_t block_count = (page_size - header_size) / sizeof(block);

static_assert(sizeof(page_header) == 88 && sizeof(page_header) <= header_size);
static_assert(sizeof(block_header) == 128 && sizeof(block) == 640);
static_assert(header_size + block_count * sizeof(block) == page_size);

}  // namespace gaudi::base::counters
