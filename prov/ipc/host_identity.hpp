// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <filesystem>

namespace gaudi::ipc {

/// A number that processes on this host agree on from boot to boot, and others almost surely do
/// not; 0 where it cannot be told. From the kernel's boot_id (random(4)), which containers share.
/// The argument names that file; another one in tests.
std::uint32_t host_identity(
    const std::filesystem::path& boot_id = "/proc/sys/kernel/random/boot_id");

}  // namespace gaudi::ipc
