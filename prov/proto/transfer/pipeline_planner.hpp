// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include "copy/copy_table.hpp"
#include "proto/connection/endpoint_settings.hpp"
#include "proto/operation/device_copies.hpp"
#include "proto/operation/transfer.hpp"

namespace gaudi::proto {

/// In which chunks a transfer is staged, and how many of them are in flight: as the device's copy
/// table has it (copy::dma_engine::table), within what the parameters allow. Has no state of its
/// own. Not thread safe: the caller holds the domain lock.
class pipeline_planner {
 public:
  pipeline_planner(const endpoint_settings& config, device_copies& copies) noexcept
      : config_(config), copies_(copies) {}

  /// Decided once for each transfer, when its first chunk is due.
  const transfer::pipeline_params& params_of(transfer& t) const;

 private:
  [[nodiscard]] copy::copy_row row_for(const transfer& t) const;

  const endpoint_settings& config_;
  device_copies& copies_;
};

}  // namespace gaudi::proto
