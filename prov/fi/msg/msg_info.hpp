// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fabric.h>

#include "base/result.hpp"
#include "core/fid.hpp"
#include "fi/info/info_request.hpp"
#include "fi/info/naming.hpp"

/// fi_getinfo for connected endpoints (FI_EP_MSG). They are the core's own, so what they can do and
/// which hints they take is the core's to say; names are ours, and device memory is added where the
/// core takes dma-bufs.
namespace gaudi::fi {

/// Our entries, in the core's order. -FI_ENODATA: nothing matches.
base::result<core::unique_info> list_msg(const info_request& asked);

/// Makes an info of the core's ours, in place, but for the provider's name. One that is ours stays
/// as it is.
void present_as_ours(fi_info& info, bool hmem, domain_naming naming);

/// The core's info behind one of ours of FI_EP_MSG, to open objects with. Null: no memory.
core::unique_info core_info_behind(const fi_info& ours);

}  // namespace gaudi::fi
