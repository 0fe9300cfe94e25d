// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "processes.hpp"

namespace gaudi::top {

struct sample {
  std::chrono::steady_clock::time_point taken_at;
  std::vector<process> processes;
};

/// A subject and what it counted between two samples. Levels have no change.
struct change {
  const process* owner = nullptr;
  const subject* now = nullptr;
  value_list counted{};
};

/// What happened between two samples of the same host. It refers to the later one.
struct changes {
  std::optional<double> seconds;  ///< none: there is no earlier sample
  std::vector<change> subjects;
};

changes between(const sample* before, const sample& now);

/// Which way the bytes of a domain went, in parts of 1 that together are 1.
struct path_shares {
  double zero_copy = 0;  ///< between device memory and the wire
  double direct = 0;     ///< between host memory and the wire
  double staged = 0;     ///< through host buffers
  double eager = 0;      ///< through message buffers
  double local = 0;      ///< from process to process, or within a device
};

/// Of a domain's values, or of a sum of several domains'.
std::uint64_t bytes_of(const value_list& counted);
std::uint64_t operations_of(const value_list& counted);
std::uint64_t stalls_of(const value_list& counted);
path_shares shares_of(const value_list& counted);
/// None: nothing was looked up.
std::optional<double> hit_rate_of(const value_list& counted);

/// All domains of a NIC, all users of a device, or a rail of all domains over one NIC.
struct total {
  block_kind kind;
  int number;
  std::string name;
  std::string detail;  ///< a device's PCI address
  value_list counted{};
  value_list levels{};
};

/// By device index, then by name.
std::vector<total> totals_of(const changes& all, block_kind kind);

}  // namespace gaudi::top
