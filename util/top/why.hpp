// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "outstanding_reader.hpp"

namespace gaudi::top {

/// What is known when somebody asks why a process does not get on.
struct evidence {
  outstanding_view subject;
  std::vector<outstanding_view> host;  ///< all processes of this host that show theirs
  std::uint64_t now = 0;               ///< CLOCK_MONOTONIC, ns
};

struct verdict {
  std::string_view culprit;  ///< one word for a script, see gaudi_top(1)
  std::string text;          ///< one line
};

/// Who or what keeps the process: what the oldest operation waits for, and where that is a peer of
/// this host, what is the matter with that one.
verdict verdict_of(const evidence& known);

/// "4 ms", "12 s", "3 min", "2 h".
std::string age_text(std::uint64_t nanoseconds);
/// "192.0.2.1:5000", "[::1]:5000"
std::string address_text(const base::outstanding::record& r);
/// A word for tables and JSON.
std::string_view name_of(base::outstanding::wait_reason why);

/// The verdict, then tables of 80 columns.
std::string text_of(const evidence& known);
/// The same as a JSON document in one line.
std::string json_of(const evidence& known);

}  // namespace gaudi::top
