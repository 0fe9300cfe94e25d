// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/latency_histogram.hpp"
#include "rates.hpp"

namespace gaudi::top {

using histogram = base::counters::latency_histogram;

/// What a subject of kind `latency` is of; "other" for what later releases may add.
std::string_view operation_name(int number);

/// Of a subject of kind `latency`.
histogram histogram_of(const value_list& values);

/// Operations in all buckets: the page may be read between two writes of one operation.
std::uint64_t count_of(const histogram& h);

/// Nanoseconds that a part of the operations (0 to 1) did not take longer than, as far as buckets
/// tell: the end of one. None: there was no operation.
std::optional<std::uint64_t> quantile_of(const histogram& h, double part);

/// "512ns", "4.1us": at most five characters up to 999 s.
std::string duration_text(std::uint64_t nanoseconds);

/// Of all processes together.
struct operation_latency {
  int number = 0;
  histogram times{};
};

/// By number, those that there are times of: of late, or where there were none of late, of all
/// time.
std::vector<operation_latency> latencies_of(const changes& all);

}  // namespace gaudi::top
