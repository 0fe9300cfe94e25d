// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_errno.h>
#include <sys/types.h>

#include <exception>

#include "base/cancellation_deferred.hpp"

namespace gaudi::fi {

/// Runs the body of an operation of the C interface. Allocation is all that can throw below, and
/// nothing may leave the library. Nor may a thread be cancelled in it (pthread_cancel(3)), which
/// would end the process here: what can sleep or enters the kernel below defers that
/// (base::cancellation_deferred). Always inlined, and so is the lambda, by an attribute of its own
/// where the compiler would not: else each argument of the C call is stored for it, and read again.
template <class Call>
[[gnu::always_inline]] inline ssize_t guarded(Call&& call) noexcept {
  try {
    return call();
  } catch (const std::exception&) {
    return -FI_ENOMEM;
  }
}

/// The same for an operation that sleeps. A thread that is cancelled (pthread_cancel(3)) ends while
/// it sleeps, and what it leaves through is not noexcept.
template <class Call>
ssize_t guarded_sleeping(Call&& call) {
  try {
    return call();
  } catch (const std::exception&) {
    return -FI_ENOMEM;
  }
}

/// guarded(), for functions that return int: those that open, register, ask and set, which are not
/// for speed, and in which a thread is not cancelled.
template <class Call>
int guarded_int(Call&& call) noexcept {
  const base::cancellation_deferred until_it_is_done;
  return static_cast<int>(guarded([&]() -> ssize_t { return call(); }));
}

}  // namespace gaudi::fi
