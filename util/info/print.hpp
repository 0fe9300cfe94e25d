// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <vector>

#include "findings.hpp"
#include "report.hpp"
#include "verdict.hpp"

namespace gaudi::info {

/// For people, in 80 columns; `all` parameters or those that differ from their defaults.
void print_text(const report& r, bool all = false);
/// What --doctor found, to stand before that.
void print_verdict(const verdict& v, const std::vector<finding>& findings);

/// For programs: one JSON document. `v` may be null.
void print_json(const report& r, const verdict* v, const std::vector<finding>& findings);

}  // namespace gaudi::info
