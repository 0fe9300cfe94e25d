// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/domain_counters.hpp"

namespace gaudi::fi {

base::counters::subject subject_of(const core::inner_domain& core) noexcept {
  const fi_info& info = core.info();
  return {.kind = base::counters::block_kind::domain,
          .name = info.domain_attr->name ? info.domain_attr->name : "",
          .detail = info.fabric_attr->prov_name};
}

}  // namespace gaudi::fi
