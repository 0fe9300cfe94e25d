// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/common/domain_counters.hpp"

namespace gaudi::fi {

base::counters::subject subject_of(const core::inner_domain& core) noexcept {
  const fi_info& info = core.info();
  return {.kind = base::counters::block_kind::domain,
          .name = info.domain_attr->name ? info.domain_attr->name : "",
          .detail = info.fabric_attr->prov_name};
}

domain_latencies::domain_latencies(const core::inner_domain& core) {
  if (!base::counters::are_published()) return;
  base::counters::subject about = subject_of(core);
  about.kind = base::counters::block_kind::latency;
  for (std::size_t i = 0; i < histograms_.of_kind.size(); ++i) {
    about.number = static_cast<std::int32_t>(i);
    histograms_.of_kind[i] = &*published_.emplace_back(about);
  }
}

}  // namespace gaudi::fi
