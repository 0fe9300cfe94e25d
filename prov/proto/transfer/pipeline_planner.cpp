// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/transfer/pipeline_planner.hpp"

#include <algorithm>
#include <limits>

namespace gaudi::proto {
namespace {

constexpr std::size_t page = 4096;
constexpr double never = std::numeric_limits<double>::infinity();
// The cost of a chunk would show in shorter ones, and what is measured is not that exact.
constexpr std::size_t min_chunk = std::size_t{64} * 1024;
// Of a copy within a device: long enough for its rate, and several for several queues.
constexpr std::size_t max_within_device = std::size_t{4} << 20;
// Shorter transfers have few chunks in any case, and need not wait for the table.
constexpr std::size_t min_for_table = std::size_t{256} * 1024;

// After the copy comes the wire, with a write of the core's and a message, and the other copy. Over
// tcp the CPU carries the wire, 2 bytes per ns or more. In shared memory there are two short
// messages and the copy, and the CPU has little to do meanwhile.
// (tests/perf/compare.py staged and local-staged, with chunks from FI_GAUDI_COPY_TABLE.)
constexpr copy::pipeline_cost_model over_core{
    .message_ns = 8'000, .exposed = 0.2, .busy_from = 1.5, .wait_ns = 150'000, .stages = 2};
constexpr copy::pipeline_cost_model over_link{
    .message_ns = 3'000, .exposed = 0.12, .busy_from = never, .wait_ns = 10'000, .stages = 1};

copy::direction direction_of(const transfer& t) noexcept {
  if (t.pull.via_copy_engine) return copy::direction::device_to_device;
  return t.strategy == transfer_strategy::push ? copy::direction::device_to_host
                                               : copy::direction::host_to_device;
}

device::device* first_device(const local_memory& memory) noexcept {
  for (std::size_t i = 0; i < memory.count(); ++i) {
    if (memory[i].owner) return memory[i].owner;
  }
  return nullptr;
}

// Where nothing was measured: small enough that the first copy, the wire and the last copy overlap
// for most of the transfer.
std::size_t usual_chunk(const transfer& t) noexcept {
  return t.length / (t.slots.are_shared ? 32 : 16);
}

}  // namespace

// Nothing measured, and nothing fixed, where the engine is not to be had: the copy itself says why.
copy::copy_row pipeline_planner::row_for(const transfer& t) const {
  device::device* const on = first_device(t.memory);
  if (!on || t.length < min_for_table) return {};
  const auto engine = copies_.engine_for(*on);
  return engine ? (*engine)->table()[direction_of(t)] : copy::copy_row{};
}

const transfer::pipeline_params& pipeline_planner::params_of(transfer& t) const {
  if (t.pipeline.chunk != 0) return t.pipeline;
  const copy::copy_row row = row_for(t);
  t.pipeline.depth = config_.staging_depth;
  if (t.pull.via_copy_engine) {
    t.pipeline.chunk = std::min<std::size_t>(copy::part_length(row, t.length), max_within_device);
    return t.pipeline;
  }
  const copy::pipeline_cost_model& way = t.slots.are_shared ? over_link : over_core;
  std::size_t chunk = copy::best_chunk(row, t.length, way);
  if (chunk == 0) chunk = usual_chunk(t);
  if (row.chunk == 0) chunk = std::max((chunk + page - 1) & ~(page - 1), min_chunk);
  t.pipeline.chunk = std::min(chunk, config_.staging_chunk);
  if (const unsigned depth = copy::best_depth(row, t.pipeline.chunk, way))
    t.pipeline.depth = std::min<std::size_t>(depth, config_.staging_depth);
  return t.pipeline;
}

}  // namespace gaudi::proto
