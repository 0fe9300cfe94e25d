// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "outstanding_reader.hpp"

namespace gaudi::top {

/// The call into a driver that a thread of the process has been inside for longest, if that is a
/// second or more; null: there is none.
const base::outstanding::record* stuck_call(const outstanding_view& p, std::uint64_t now);

/// "registering 64.0M of device memory with mlx5_0"
std::string call_text(const base::outstanding::record& call);
/// A word for JSON.
std::string_view name_of_call(const base::outstanding::record& call);
/// The NIC's name; empty: the call is not about one.
std::string nic_of_call(const base::outstanding::record& call);

}  // namespace gaudi::top
