// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>

namespace gaudi::device {

/// Whether anything of this process's lies at `address`, which a Gaudi1's memory may have as well.
/// One system call. Thread safe; what other threads map and unmap meanwhile is anybody's guess.
bool has_host_page(std::uint64_t address) noexcept;

}  // namespace gaudi::device
