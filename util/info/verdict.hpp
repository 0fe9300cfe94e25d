// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <string>
#include <vector>

#include "findings.hpp"
#include "report.hpp"

namespace gaudi::info {

/// Exit status of --doctor; gaudi_info(1) lists them. They do not change from release to release.
enum class cause : int {
  none = 0,  // a NIC reaches each Gaudi's memory
  no_library = 10,
  no_device = 11,
  device_busy = 12,
  device_in_reset = 13,
  device_fails = 14,
  no_right_to_device = 15,
  no_rdma_device = 20,
  nic_not_offered = 21,
  no_right_to_nic = 22,
  bad_parameter = 30,
  provider_not_found = 31,
  old_libfabric = 40,
  no_kernel_support = 41,
  nic_driver = 42,
  peer_to_peer = 43,
  small_bar = 44,
  descriptors = 45,
  locked_memory = 46,
  no_export = 47,
  registration = 48,
};

/// The first thing that stands in the way of zero copy, and what to do about it.
struct verdict {
  cause what = cause::none;
  std::string finding;                  ///< one sentence
  std::string remedy;                   ///< empty where nothing is to be done
  std::vector<std::string> commands{};  ///< of the remedy, to be pasted line by line
};

/// Judges a probed report. Where nodes of devices are missing or forbidden, which `findings` tell,
/// that is why nothing was seen behind them.
verdict judge(const report& r, const std::vector<finding>& findings = {});

}  // namespace gaudi::info
