// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/counter_names.hpp"

namespace gaudi::top {

using base::counters::block_kind;

/// The values of a block by their place; those that the process does not have are 0.
using value_list = std::array<std::uint64_t, base::counters::max_values>;

/// What a process counts of one domain or device, or how long one kind of a domain's operations
/// took, over all that were open under that name.
struct subject {
  block_kind kind = block_kind::none;
  int number = -1;     ///< a device's index; a rail's; of latencies: which operations
  std::string name;    ///< NIC or device
  std::string detail;  ///< core provider or PCI address
  value_list values{};

  [[nodiscard]] bool is_same(const subject& other) const {
    return kind == other.kind && number == other.number && name == other.name &&
           detail == other.detail;
  }
};

/// Calls `visit` with the place and behaviour of each value of the kind.
template <class Visit>
void for_each_value(block_kind kind, Visit&& visit) {
  for (const auto& value : base::counters::values_of(kind)) visit(value.place, value.kind);
  if (kind != block_kind::latency) return;
  for (std::size_t i = 0; i < base::counters::latency_histogram::bucket_count; ++i)
    visit(base::counters::first_bucket + i, base::counters::behaviour::grows);
}

/// A process's counters page at one moment.
struct page {
  int pid = 0;                   ///< in the process's own PID namespace
  std::uint64_t start_time = 0;  ///< field 22 of /proc/PID/stat
  std::string command;
  std::string release;
  std::uint32_t unseen = 0;  ///< domains and devices whose counters are not in the page
  /// A block was coming or going in every copy: sums may miss it or have it twice.
  bool is_changing = false;
  std::vector<subject> subjects;
};

/// Where the value of that name is; fails to compile for a name that does not exist.
consteval std::size_t place_of(block_kind kind, std::string_view name) {
  for (const auto& value : base::counters::values_of(kind))
    if (value.name == name) return value.place;
  throw "no value has this name";
}

/// Names a value of a domain, or of a device, where a place is wanted.
struct domain_value {
  consteval domain_value(const char* name)  // NOLINT(google-explicit-constructor)
      : place(place_of(block_kind::domain, name)) {}
  std::size_t place;
};
struct device_value {
  consteval device_value(const char* name)  // NOLINT(google-explicit-constructor)
      : place(place_of(block_kind::device, name)) {}
  std::size_t place;
};

struct rail_value {
  consteval rail_value(const char* name)  // NOLINT(google-explicit-constructor)
      : place(place_of(block_kind::rail, name)) {}
  std::size_t place;
};

inline std::uint64_t get(const value_list& values, domain_value which) {
  return values[which.place];
}
inline std::uint64_t get_of_device(const value_list& values, device_value which) {
  return values[which.place];
}
inline std::uint64_t get_of_rail(const value_list& values, rail_value which) {
  return values[which.place];
}

}  // namespace gaudi::top
