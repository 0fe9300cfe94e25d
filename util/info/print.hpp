// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include "report.hpp"
#include "verdict.hpp"

namespace gaudi::info {

/// For people, in 80 columns.
void print_text(const report& r);
void print_verdict(const verdict& v);

/// For programs: one JSON document. `v` may be null.
void print_json(const report& r, const verdict* v);

}  // namespace gaudi::info
