// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <optional>
#include <string>

#include "common/oob.hpp"

namespace gaudi::stress {

/// A machine that workers run on, as whoever leads the run sees it. Workers have the same numbers
/// everywhere. What is wrong with the machine itself is a failure.
class host {
 public:
  host() = default;
  host(const host&) = delete;
  host& operator=(const host&) = delete;
  virtual ~host() = default;

  /// Starts a worker; the result is this end of the connection to it.
  virtual common::oob_channel start(unsigned number) = 0;

  virtual void kill(unsigned number) = 0;

  /// How a worker ended that said nothing before, if one did.
  virtual std::optional<std::string> why_crashed(unsigned number) = 0;

  /// Waits for a worker to end; how, if that was badly.
  virtual std::optional<std::string> join(unsigned number) = 0;

  /// Resets the device that the driver numbers so, until mended.
  virtual void reset_device(int index) = 0;
  virtual void mend_devices() = 0;

  /// Why the machine takes part no more, if it does not.
  virtual std::optional<std::string> why_gone() = 0;

  /// Shows the user there a line.
  virtual void print(const std::string& line) = 0;
};

}  // namespace gaudi::stress
