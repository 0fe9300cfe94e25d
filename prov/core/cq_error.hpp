// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#include <cerrno>

#include "core/inner_domain.hpp"

namespace gaudi::core {

/// Why an operation of the core failed, a positive FI_E*; FI_ECONNRESET when its connection went.
///
/// tcp flushes what a lost connection still had to do with FI_ECANCELED (tcpx_ep_flush_queue in
/// libfabric 1.17, xnet_ep_flush_queue in 2.1), which an application takes for its own fi_cancel.
/// verbs says that, or FI_EIO for whatever the NIC finds wrong, and what it was in its own words.
inline int cause_of(int error, int in_words_of_core, bool over_rdma) noexcept {
  if (over_rdma) {
    switch (in_words_of_core) {  // enum ibv_wc_status, infiniband/verbs.h
      case 5:                    // IBV_WC_WR_FLUSH_ERR
      case 12:                   // IBV_WC_RETRY_EXC_ERR
        return FI_ECONNRESET;
      case 10:  // IBV_WC_REM_ACCESS_ERR
        return FI_EACCES;
      default:
        break;
    }
  }
  switch (error) {
    case 0:
      return FI_EIO;
    case FI_ECANCELED:
    case FI_ENOTCONN:
    case FI_ECONNABORTED:
    case FI_ESHUTDOWN:
    case EPIPE:
      return FI_ECONNRESET;
    default:
      return error;
  }
}

inline int cause_of(const fi_cq_err_entry& entry, const inner_domain& core) noexcept {
  return cause_of(entry.err, entry.prov_errno, core.over_rdma());
}

}  // namespace gaudi::core
