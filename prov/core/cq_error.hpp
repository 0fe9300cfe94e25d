// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#include "core/inner_domain.hpp"

namespace gaudi::core {

/// Why an operation of the core failed, a positive FI_E*. verbs says FI_EIO for whatever the NIC
/// finds wrong, and what that was in its own words.
inline int cause_of(const fi_cq_err_entry& entry, const inner_domain& core) noexcept {
  constexpr int remote_access_error = 10;  // IBV_WC_REM_ACCESS_ERR, infiniband/verbs.h
  if (core.over_rdma() && entry.prov_errno == remote_access_error) return FI_EACCES;
  return entry.err ? entry.err : FI_EIO;
}

}  // namespace gaudi::core
