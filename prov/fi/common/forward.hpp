// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

#include <type_traits>

#include "base/cancellation_deferred.hpp"

namespace gaudi::fi {

/// An entry of an operation table that calls the same entry of the core's object: `Wrapper` is the
/// class of ours, whose core() is the other; `Table` is the member that holds the table, `Entry`
/// the member of that. What belongs to the parent of a fork gives -FI_EOPBADSTATE instead.
///
///   fi_ops_msg ops{..., .send = forward<msg_endpoint, &fid_ep::msg, &fi_ops_msg::send>};
///
/// A thread that is cancelled in there (pthread_cancel(3)) ends in the core, which is what that
/// makes of it. Not so with forward_deferred, for what is not for speed.
template <class Wrapper, auto Table, auto Entry, bool Deferred = false>
struct forward_t {
  template <class R, class Object, class... Args>
  using function = R (*)(Object*, Args...);

  template <class R, class Object, class... Args>
  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr operator function<R, Object, Args...>() const noexcept {
    return [](Object* object, Args... args) -> R {
      auto& own = Wrapper::of(object);
      if constexpr (std::is_signed_v<R>) {
        if (own.used_after_fork()) [[unlikely]]
          return -FI_EOPBADSTATE;
      }
      [[maybe_unused]] const std::conditional_t<Deferred, base::cancellation_deferred, int>
          until_it_is_done{};
      auto* const core = own.core();
      if constexpr (std::is_same_v<Object, fid>) {
        return ((core->*Table)->*Entry)(&core->fid, args...);
      } else {
        return ((core->*Table)->*Entry)(core, args...);
      }
    };
  }
};
template <class Wrapper, auto Table, auto Entry>
inline constexpr forward_t<Wrapper, Table, Entry> forward{};
template <class Wrapper, auto Table, auto Entry>
inline constexpr forward_t<Wrapper, Table, Entry, true> forward_deferred{};

}  // namespace gaudi::fi
