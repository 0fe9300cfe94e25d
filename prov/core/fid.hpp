// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fabric.h>

#include <memory>

namespace gaudi::core {

/// Closes a libfabric object of the inner provider. Children must be closed before their parents:
/// declare owners in opening order, so that destruction runs the other way round.
struct fid_closer {
  template <class Fid>
  void operator()(Fid* f) const noexcept {
    fi_close(&f->fid);
  }
};

/// Sole owner of a fid (fid_fabric, fid_domain, fid_ep, ...).
template <class Fid>
using unique_fid = std::unique_ptr<Fid, fid_closer>;

struct info_freer {
  void operator()(fi_info* info) const noexcept { fi_freeinfo(info); }
};

/// Sole owner of a fi_info list.
using unique_info = std::unique_ptr<fi_info, info_freer>;

}  // namespace gaudi::core
