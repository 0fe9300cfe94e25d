// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <string>

namespace gaudi::rdma_check {

/// Why a call into the provider's rooms failed: the last warning that they gave, without its line
/// end, or else the words for `code` (a negative errno). Forgets the warning.
std::string reason_of(int code);

}  // namespace gaudi::rdma_check
