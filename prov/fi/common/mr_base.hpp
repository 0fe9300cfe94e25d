// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>
#include <sys/uio.h>

#include <cstdint>

#include "fi/common/tables.hpp"
#include "reg/region.hpp"

namespace gaudi::fi {

/// What the memory regions of both kinds of domain are: a fid_mr around a region. The domain must
/// outlive it.
template <class Domain>
struct mr_base : fid_mr {
  /// `ops` as region_ops makes them.
  mr_base(Domain& d, void* user_context, fi_ops& ops) noexcept
      : fid_mr{.fid = {.fclass = FI_CLASS_MR, .context = user_context, .ops = &ops},
               .mem_desc = nullptr,
               .key = 0},
        parent(d) {}

  void cover(const iovec& range, std::uint64_t access) noexcept {
    region.address = reinterpret_cast<std::uint64_t>(range.iov_base);
    region.length = range.iov_len;
    region.access = access;
  }

  Domain& parent;
  reg::region region;
};

/// fid.ops of a region. It is usable at once, so there is nothing for FI_ENABLE to do.
template <int (*Close)(fid*)>
fi_ops region_ops(int (*bind)(fid*, fid*, std::uint64_t)) noexcept {
  fi_ops ops = only_close<Close>();
  ops.bind = bind;
  ops.control = [](fid*, int command, void*) { return command == FI_ENABLE ? 0 : -FI_ENOSYS; };
  return ops;
}

}  // namespace gaudi::fi
