// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fabric.h>

namespace gaudi::fi {

/// Whether objects of this info may use device memory.
inline bool has_hmem(const fi_info& info) noexcept {
  return (info.caps & FI_HMEM) != 0;
}

/// Whether the application asks for FI_HMEM, anywhere in its hints, which may be null.
inline bool asks_hmem(const fi_info* hints) noexcept {
  return hints &&
         ((hints->caps & FI_HMEM) || (hints->tx_attr && (hints->tx_attr->caps & FI_HMEM)) ||
          (hints->rx_attr && (hints->rx_attr->caps & FI_HMEM)));
}

}  // namespace gaudi::fi
