// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include "base/params.hpp"
#include "core/inner_domain.hpp"
#include "proto/rail_settings.hpp"

namespace gaudi::fi {

/// What FI_GAUDI_RAILS says to the endpoints of a domain: the first rail is the interface that the
/// domain is of. Interfaces that do not exist, or have no address of the family, are left out after
/// a warning; over verbs all that are named, as all rails share the domain's NIC there.
proto::rail_settings rails_of(const core::inner_domain& core, const base::params& p);

}  // namespace gaudi::fi
