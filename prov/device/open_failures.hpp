// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <chrono>
#include <string>

#include "base/result.hpp"

namespace gaudi::device {

/// The codes by which libraries and the kernel say that a device is not there.
bool is_absent(int code) noexcept;

// The one warning for a device that could not be had, and the code that callers document.

/// What opening `which` failed with. -FI_EBUSY, -FI_EAGAIN (still in reset after `timeout`),
/// -FI_ENODEV, -EMFILE, or the driver's.
base::error refuse(const std::string& which, int code, std::chrono::milliseconds timeout);
/// -FI_EBUSY: its descriptor came by fork from a process that uses it.
base::error refuse_parents(const std::string& bus_id);
/// -FI_EINVAL: the descriptor to adopt is a control node's.
base::error refuse_control(int fd);

}  // namespace gaudi::device
