// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "copy/copy_table.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace gaudi::copy {
namespace {

constexpr std::uint64_t page = 4096;

}  // namespace

std::string length_text(std::uint64_t length) {
  if (length == copy_row::never) return "off";
  if (length % (1 << 20) == 0) return std::to_string(length >> 20) + "M";
  if (length % (1 << 10) == 0) return std::to_string(length >> 10) + "K";
  return std::to_string(length);
}

std::string limit_text(std::uint64_t most) {
  return length_text(most == 0 ? copy_row::never : most);
}

const char* name_of(direction dir) noexcept {
  constexpr std::array<const char*, 3> names{"h2d", "d2h", "d2d"};
  return names.at(static_cast<std::size_t>(dir));
}

void copy_table::apply(const base::copy_overrides& wanted) noexcept {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const base::copy_override& fixed = wanted.directions[i];
    rows[i].pin = fixed.pin.value_or(rows[i].pin);
    rows[i].split = fixed.split.value_or(rows[i].split);
    rows[i].chunk = fixed.chunk.value_or(rows[i].chunk);
  }
  nic = wanted.to_device().nic.value_or(nic);
}

std::string to_text(const copy_row& row) {
  std::string text = "not measured";
  if (row.is_measured()) {
    std::array<char, 96> measured{};
    static_cast<void>(std::snprintf(measured.data(), measured.size(),
                                    "%.1f GB/s, %.1f us alone, %.1f us each", row.bytes_per_ns,
                                    row.latency_ns / 1e3, row.each_ns / 1e3));
    text = measured.data();
  }
  return text + ", pin=" + length_text(row.pin) + ", split=" + length_text(row.split) +
         ", chunk=" + (row.chunk != 0 ? length_text(row.chunk) : "auto");
}

std::uint64_t part_length(const copy_row& row, std::uint64_t length) noexcept {
  if (length < row.split) return length;
  return (length / split_parts + page) & ~(page - 1);
}

std::uint64_t best_chunk(const copy_row& row, std::uint64_t length,
                         const pipeline_cost_model& way) noexcept {
  if (row.chunk != 0) return row.chunk;
  if (!row.is_measured()) return 0;
  constexpr double spare = 3;  // times its CPU's, for a chunk's own time
  const double cost = row.each_ns + way.message_ns;
  const double exposed = row.bytes_per_ns < way.busy_from ? way.exposed : 1;
  // The least of length / chunk * cost * exposed + stages * chunk / rate.
  const double min_time =
      std::sqrt(static_cast<double>(length) * cost * exposed * row.bytes_per_ns / way.stages);
  return static_cast<std::uint64_t>(std::max(min_time, spare * cost * row.bytes_per_ns));
}

unsigned best_depth(const copy_row& row, std::uint64_t chunk,
                    const pipeline_cost_model& way) noexcept {
  if (!row.is_measured() || chunk == 0) return 0;
  constexpr double most = 256;
  const double elsewhere =
      (row.latency_ns + way.wait_ns) * row.bytes_per_ns / static_cast<double>(chunk);
  return 2 * (way.stages + 1) + static_cast<unsigned>(std::ceil(std::min(elsewhere, most)));
}

}  // namespace gaudi::copy
