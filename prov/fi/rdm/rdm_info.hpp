// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fabric.h>

#include "base/params.hpp"
#include "base/result.hpp"
#include "core/fid.hpp"
#include "fi/info/info_request.hpp"

namespace gaudi::fi {

/// Our entries for reliable datagram endpoints (FI_EP_RDM), in the core's order. -FI_ENODATA:
/// nothing matches; at info level the log says why.
base::result<core::unique_info> list_rdm(const info_request& r);

/// The core provider's info for an object that the application opens with one of our infos: same
/// interface, same addresses. Exactly one entry. -FI_ENODATA: the interface is gone.
base::result<core::unique_info> core_info_for(const fi_info& info, const base::params& params);

}  // namespace gaudi::fi
