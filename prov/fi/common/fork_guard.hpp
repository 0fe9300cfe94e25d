// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_errno.h>

#include "base/fork_generation.hpp"

namespace gaudi::fi {

/// Part of an object that must not be used, nor closed, in a process that came by fork from the one
/// that opened it: both would use the same sockets and NIC queues. Any thread.
class fork_guard {
 public:
  /// Says so once in such a process.
  [[nodiscard]] bool used_after_fork() const noexcept {
    if (generation_ == base::current_fork_generation()) [[likely]]
      return false;
    warn();
    return true;
  }

 private:
  static void warn() noexcept;

  const unsigned generation_ = base::fork_generation();
};

/// An entry of an operation table that is `Call`, but gives -FI_EOPBADSTATE where
/// Wrapper::of(object).used_after_fork().
///
///   fi_ops_av ops{..., .remove = in_own_process<av, remove>};
template <class Wrapper, auto Call>
struct in_own_process_t;
template <class Wrapper, class R, class Object, class... Args, R (*Call)(Object*, Args...) noexcept>
struct in_own_process_t<Wrapper, Call> {
  static R entry(Object* object, Args... args) noexcept {
    if (Wrapper::of(object).used_after_fork()) [[unlikely]]
      return -FI_EOPBADSTATE;
    return Call(object, args...);
  }
};
template <class Wrapper, auto Call>
inline constexpr auto in_own_process = in_own_process_t<Wrapper, Call>::entry;

}  // namespace gaudi::fi
