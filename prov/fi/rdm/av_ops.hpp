// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_domain.h>

#include "fi/rdm/av.hpp"

namespace gaudi::fi {

/// fi_av_open. FI_AV_UNSPEC becomes FI_AV_TABLE in `attr`. -FI_ENOSYS: named (shared) vectors and
/// scalable endpoints are not offered. `parent`: see av_parent.
int av_open(const av_parent& parent, fi_av_attr* attr, fid_av** out, void* context) noexcept;

}  // namespace gaudi::fi
