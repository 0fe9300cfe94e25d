// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include "failure.hpp"
#include "options.hpp"

namespace gaudi::rdma_check {

/// Runs this side from the first look for an RDMA device to the last line of the report. The value
/// is what the program ends with; what keeps the run from its end is a failure.
exit_code run(const options& chosen);

}  // namespace gaudi::rdma_check
