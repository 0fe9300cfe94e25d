// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>

#include "host.hpp"

namespace gaudi::stress {

/// The client's machine, as the server sees it: the client does there what this asks for
/// (client.cpp), and its workers connect to the server's port.
class remote_host : public host {
 public:
  /// client: the connection to it. Both must outlive this.
  remote_host(common::oob_channel& client, const common::oob_listener& port,
              std::chrono::seconds timeout)
      : client_(client), port_(port), timeout_(timeout) {}

  common::oob_channel start(unsigned number) override;
  void kill(unsigned number) override { ask({{"kill", number}}); }
  std::optional<std::string> why_crashed(unsigned number) override;
  std::optional<std::string> join(unsigned number) override;
  void reset_device(int index) override { ask({{"reset", index}}); }
  void mend_devices() override { ask({{"mend", true}}); }
  std::optional<std::string> why_gone() override;
  void print(const std::string& line) override { client_.send({{"line", line}}); }

 private:
  nlohmann::json ask(const nlohmann::json& order);
  static bool is_worker(common::oob_channel& caller, unsigned number);

  common::oob_channel& client_;
  const common::oob_listener& port_;
  const std::chrono::seconds timeout_;
};

}  // namespace gaudi::stress
