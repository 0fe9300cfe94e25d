// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <string>
#include <vector>

#include "machine.hpp"
#include "report.hpp"

namespace gaudi::info {

enum class severity {
  stops,  // the provider, or zero copy, does not work
  slows,  // it works, slower or with less than the machine has
  note,   // could not be found out
};

/// "stops", "slows", "note".
const char* text_of(severity weight) noexcept;

/// What a finding is about, where the verdict needs to know.
enum class area { other, gaudi_access, rdma_access };

/// Something about the machine that stands in the way, and what to do about it.
struct finding {
  severity weight = severity::note;
  std::string subject;                ///< one or two words: "locked memory"
  std::string text;                   ///< one or two sentences
  std::vector<std::string> commands;  ///< the remedy, to be pasted line by line; not empty
  area about = area::other;
};

/// Judges what surrounds the provider, the worst first.
std::vector<finding> find_obstacles(const machine_fact& m, const report& r);

}  // namespace gaudi::info
