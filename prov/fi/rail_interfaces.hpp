// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <memory>
#include <vector>

#include "base/params.hpp"
#include "core/inner_domain.hpp"
#include "proto/rail_settings.hpp"
#include "reg/other_nic.hpp"

namespace gaudi::fi {

/// NICs beside a domain's own.
using rail_nics = std::vector<std::unique_ptr<reg::other_nic>>;

/// Those that FI_GAUDI_RAILS names, or all (auto), over verbs: RDMA devices, each with a core
/// domain. Over tcp none: rails over other interfaces need no other domain there. One that is named
/// and does not exist, or has no address like the domain's, is left out after a warning. Throws
/// std::bad_alloc.
rail_nics open_rail_nics(const core::inner_domain& own, const base::params& p);

/// What FI_GAUDI_RAILS says to the endpoints of a domain: the first rail is the interface that the
/// domain is of. Interfaces that do not exist, or have no address of the family, are left out after
/// a warning.
proto::rail_settings rails_of(const core::inner_domain& own, const rail_nics& nics,
                              const base::params& p);

}  // namespace gaudi::fi
