// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include "proto/rma/atomics.hpp"
#include "proto/rma/rma_initiator.hpp"
#include "proto/rma/rma_ranges.hpp"
#include "proto/rma/rma_target.hpp"

namespace gaudi::proto {

/// RMA and atomics of an endpoint, at both ends. Composes them, and nothing else.
struct one_sided {
  one_sided(core::inner_domain& core, const endpoint_settings& config,
            rma_initiator::parts initiates, rma_target::parts serves)
      : initiator(core, config, initiates),
        ranges({initiates.connections, initiator}, config.rma_order),
        target(serves, counters),
        atomics({serves.connections, serves.keys, initiates.copies, serves.channel, serves.table,
                 serves.completion},
                counters, config.eager_size) {}

  peer_access_counters counters;
  rma_initiator initiator;
  rma_ranges ranges;
  rma_target target;
  proto::atomics atomics;
};

}  // namespace gaudi::proto
