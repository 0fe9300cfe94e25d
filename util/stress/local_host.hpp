// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <chrono>

#include "children.hpp"
#include "device_faults.hpp"
#include "host.hpp"

namespace gaudi::stress {

/// This machine. Its workers have the numbers from 0.
class local_host : public host {
 public:
  explicit local_host(std::chrono::seconds timeout);

  common::oob_channel start(unsigned number) override;
  void kill(unsigned number) override { workers_.kill(number); }
  std::optional<std::string> why_crashed(unsigned number) override {
    return workers_.why_crashed(number);
  }
  std::optional<std::string> join(unsigned number) override { return workers_.join(number); }
  void reset_device(int index) override { faults_.reset(index); }
  void mend_devices() override { faults_.mend(); }
  std::optional<std::string> why_gone() override { return std::nullopt; }
  void print(const std::string& line) override;

 private:
  const std::chrono::seconds timeout_;
  children workers_;
  device_faults faults_;
};

}  // namespace gaudi::stress
