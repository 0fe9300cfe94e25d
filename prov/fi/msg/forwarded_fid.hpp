// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_errno.h>

#include <cstdint>

#include "fi/common/guard.hpp"
#include "fi/common/tables.hpp"

namespace gaudi::fi {

/// fid.ops of an object that has one of the core's behind it. `Wrapper::of(fid)->core()` is that.
template <class Wrapper, int (*Close)(fid*)>
constexpr fi_ops forwarded_fid_ops() noexcept {
  fi_ops ops = only_close<Close>();
  ops.control = [](fid* f, int command, void* arg) {
    if (Wrapper::of(f).used_after_fork()) return -FI_EOPBADSTATE;
    fid* const core = &Wrapper::of(f).core()->fid;
    return core->ops->control(core, command, arg);
  };
  ops.ops_open = [](fid* f, const char* name, std::uint64_t flags, void** out, void* context) {
    if (Wrapper::of(f).used_after_fork()) return -FI_EOPBADSTATE;
    fid* const core = &Wrapper::of(f).core()->fid;
    return core->ops->ops_open(core, name, flags, out, context);
  };
  return ops;
}

template <class Wrapper>
int close_endpoint(fid* f) noexcept {
  // To close it would shut the connection down for the parent.
  if (!Wrapper::of(f).used_after_fork()) delete &Wrapper::of(f);
  return 0;
}

/// The same for an endpoint, active or passive: it can be bound.
template <class Wrapper>
fi_ops endpoint_fid_ops() noexcept {
  fi_ops ops = forwarded_fid_ops<Wrapper, close_endpoint<Wrapper>>();
  ops.bind = [](fid* f, fid* other, std::uint64_t flags) {
    if (Wrapper::of(f).used_after_fork()) return -FI_EOPBADSTATE;
    return guarded_int([&] { return Wrapper::of(f).bind(other, flags); });
  };
  return ops;
}

}  // namespace gaudi::fi
