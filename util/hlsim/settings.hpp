// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <string>

#include "model.hpp"

namespace hlsim {

/// When a submission may be overtaken by a later one on another queue.
enum class reorder { never, sometimes, always };

/// The environment variables HLSIM_*, see hlsim(7). Read once per process.
struct settings {
  std::string folder;  ///< where the device files live
  uint32_t devices = 2;
  kind devices_are;                  ///< all of them
  uint64_t hbm = 0;                  ///< bytes; 0 = as the model has
  uint64_t page = 0;                 ///< bytes; 0 = as the model has
  double h2d = 0, d2h = 0, d2d = 0;  ///< bytes per nanosecond; 0 = as fast as the machine copies
  uint64_t latency_ns = 0;           ///< per submission
  uint64_t release_ns = 0;           ///< how long open says EAGAIN after the last close
  uint64_t reset_ns = 0;             ///< how long a reset takes once nobody holds the device
  uint64_t cs_timeout_ns = 0;        ///< of a submission that hangs; 0 = never
  uint64_t kill_ns = 0;              ///< patience with who keeps a reset device; 0 = for ever
  uint64_t bar = UINT64_MAX;         ///< bytes of HBM that PCIe reaches
  bool old_kernel = false;           ///< Linux 6.1's driver, not 6.12's
  reorder order = reorder::sometimes;
  bool dry = false;    ///< copies take their time and move nothing
  std::string faults;  ///< HLSIM_FAULT
  std::string sysfs;   ///< a folder to be made look like /sys; empty = none
};

/// The settings of this process. Thread-safe. A value that does not parse is named on stderr and
/// the default is used.
const settings& current_settings();

/// The model that HLSIM_GENERATION and HLSIM_HBM_STACKS chose. A device that is open has the one
/// its opener chose.
const model& configured_model();

/// Reads "512M", "95.25G", "4096"; 0 when `text` is not a size.
uint64_t parse_size(const char* text) noexcept;

}  // namespace hlsim
