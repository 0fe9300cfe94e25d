// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_errno.h>

#include <new>
#include <utility>

#include "base/result.hpp"

namespace gaudi::hl {

/// Runs a function that gives a base::result, and turns memory exhaustion in it (containers,
/// strings) into -FI_ENOMEM: no exception leaves a room.
template <class Function>
auto or_no_memory(Function&& function) -> decltype(function()) {
  try {
    return std::forward<Function>(function)();
  } catch (const std::bad_alloc&) {
    return base::error{-FI_ENOMEM};
  }
}

}  // namespace gaudi::hl
