// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_errno.h>

#include <exception>
#include <new>
#include <utility>

#include "base/result.hpp"

namespace gaudi::hl {

/// Runs a function that gives a base::result, and turns memory exhaustion in it (containers,
/// strings) into -FI_ENOMEM, and what else the standard library throws (a thread that cannot be
/// started) into -FI_EOTHER: no exception leaves a room.
template <class Function>
auto or_no_memory(Function&& function) -> decltype(function()) {
  try {
    return std::forward<Function>(function)();
  } catch (const std::bad_alloc&) {
    return base::error{-FI_ENOMEM};
  } catch (const std::exception&) {
    return base::error{-FI_EOTHER};
  }
}

}  // namespace gaudi::hl
