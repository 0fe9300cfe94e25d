// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <string>
#include <vector>

#include "base/params.hpp"
#include "proto/transfer/path_choice.hpp"
#include "report.hpp"

namespace gaudi::info {

/// Between this host and another one that is like it, by the provider's own choice. Empty without a
/// Gaudi or a core, and where only gaudi_info --doctor can tell whether a NIC reaches the Gaudis.
/// Without pairs that nothing can move bytes between, which a Gaudi3's may be. Their kind is
/// "Gaudi" where that is the same for all, else "Gaudi Z" and "Gaudi S".
std::vector<message_fact> expected_messages(const report& r, const base::params& params);

/// For people: who moves the bytes, and where to.
const char* way_text(proto::transfer_path path) noexcept;

}  // namespace gaudi::info
