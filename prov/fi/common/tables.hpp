// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "base/cancellation_deferred.hpp"
#include "fi/common/retired.hpp"

namespace gaudi::fi {

/// Stands for any operation that the provider does not offer. libfabric's inline wrappers call most
/// table entries unchecked, so every table must be complete; this converts to a function of
/// whatever signature the entry has, which fails with -FI_ENOSYS (or returns 0 or nullptr where the
/// result is unsigned or a pointer).
///
///   fi_ops_domain ops{.size = sizeof(ops), ..., .poll_open = not_supported, ...};
struct not_supported_t {
  template <class R, class... Args>
  using function = R (*)(Args...);

  template <class R, class... Args>
  constexpr operator function<R, Args...>() const noexcept {  // NOLINT(google-explicit-constructor)
    return [](Args...) -> R {
      if constexpr (std::is_signed_v<R>) {
        return -FI_ENOSYS;
      } else {
        return R{};
      }
    };
  }
};
inline constexpr not_supported_t not_supported{};

/// An operation table with room for entries that later releases append. Their inline wrappers call
/// some of these without a look at .size (libfabric 2.7: fi_cq_export_xpu), and so would run into
/// whatever lies behind the table; here that fails with -FI_ENOSYS. So do entries that the headers
/// we are built with have, and that `named` does not name. Only for tables whose appended entries
/// return int.
template <class Ops>
struct padded : Ops {
  using entry = int (*)();
  explicit padded(const Ops& named) noexcept : Ops(named) {
    auto* const table = reinterpret_cast<std::byte*>(static_cast<Ops*>(this));
    for (std::size_t at = sizeof(Ops::size); at < sizeof(Ops); at += sizeof(entry)) {
      entry one = nullptr;
      std::memcpy(&one, table + at, sizeof one);
      if (one) continue;
      one = not_supported;
      std::memcpy(table + at, &one, sizeof one);
    }
  }
  std::array<entry, 8> later{not_supported, not_supported, not_supported, not_supported,
                             not_supported, not_supported, not_supported, not_supported};
};

/// fid.ops of an object that can only be closed: start from a copy and set what it offers. A thread
/// is not cancelled in the middle of that.
template <int (*Close)(fid*)>
constexpr fi_ops only_close() noexcept {
  return {.size = sizeof(fi_ops),
          .close =
              [](fid* f) {
                const base::cancellation_deferred until_it_is_closed;
                return Close(f);
              },
          .bind = not_supported,
          .control = not_supported,
          .ops_open = not_supported,
          .tostr = not_supported,
          .ops_set = not_supported};
}

/// Command of fi_control, private to the provider: may a thread block on this fid's wait object? 0:
/// yes. -FI_EAGAIN: no, something is ready to be read. Fabric's trywait asks every fid so, whatever
/// its class.
inline constexpr int control_try_wait = static_cast<int>(retired::provider_specific | 1U);

/// Collectives are not offered by an endpoint: its fid_ep.collective.
extern fi_ops_collective no_collectives;

}  // namespace gaudi::fi
