// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <string>

namespace gaudi::stress {

/// What can happen to simulated Gaudis (hlsim(7), FAULTS). What was made to happen ends with this.
class device_faults {
 public:
  device_faults();
  device_faults(const device_faults&) = delete;
  device_faults& operator=(const device_faults&) = delete;
  ~device_faults();

  /// Resets the device with this index, and again each time it is opened, until mended.
  void reset(int index);

  /// Nothing happens any more.
  void mend();

 private:
  std::string file_;
  bool is_struck_ = false;
};

}  // namespace gaudi::stress
