// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_errno.h>
#include <sys/types.h>

#include <new>

namespace gaudi::fi {

/// Runs the body of an operation of the C interface. Allocation is all that can throw below, and
/// nothing may leave the library.
template <class Call>
ssize_t guarded(Call&& call) noexcept {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return -FI_ENOMEM;
  }
}

}  // namespace gaudi::fi
