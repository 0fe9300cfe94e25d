// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "operation.hpp"

namespace gaudi::stress {

enum class memory_choice : unsigned { host, device, mixed };

inline constexpr std::size_t max_max_size = std::size_t{1} << 30U;
inline constexpr std::int64_t max_timeout = 86400;

/// What all workers of a run have in common.
struct settings {
  std::uint64_t seed = 0;
  std::size_t max_size = 0;  ///< bytes of an operation
  std::vector<operation> operations;
  memory_choice memory = memory_choice::mixed;
  bool cancel = true;
  bool reconnect = true;
  bool peek = true;                 ///< some messages are looked for, then received
  bool claim = true;                ///< some are claimed, then received
  bool discard = true;              ///< some are discarded
  bool multi_receive = true;        ///< some come into buffers that take many
  bool ranges = true;               ///< some RMA is on several ranges of the target's
  bool counters = true;             ///< fi_cntr counts what completions tell
  std::uint64_t corrupt_round = 0;  ///< in which a byte is sent that is not the right one; 0: none
  std::chrono::seconds timeout{60};
  std::string provider = "gaudi";
};

void to_json(nlohmann::json& j, const settings& s);
/// A failure for what no command line gives.
void from_json(const nlohmann::json& j, settings& s);

}  // namespace gaudi::stress
