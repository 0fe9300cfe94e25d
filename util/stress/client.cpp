// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "client.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "children.hpp"
#include "common/failure.hpp"
#include "device_faults.hpp"
#include "handshake.hpp"
#include "worker.hpp"

namespace gaudi::stress {
namespace {

using nlohmann::json;

/// This machine, for the server (remote_host).
class client {
 public:
  /// first: the number of the first worker here.
  client(const options& chosen, common::oob_channel& server, unsigned first)
      : chosen_(chosen),
        server_(server),
        workers_([first](auto& leader, unsigned number) { work(leader, number - first); }) {}

  ending obey() {
    for (;;) {
      const json order = server_.receive();
      if (order.contains("verdict")) {
        server_.send({{"read", true}});
        return {order["verdict"], order.at("passed")};
      }
      if (order.contains("line"))
        print(order["line"]);
      else if (order.contains("start"))
        start(order["start"]);
      else
        server_.send({{"why", answer(order).value_or("")}});
    }
  }

 private:
  static void print(const std::string& line) {
    fmt::print("{}\n", line);
    std::fflush(stdout);  // a process that is forked later would print it again
  }

  void start(unsigned number) {
    workers_.start(number, [&] {
      auto leader =
          common::oob_channel::connect(chosen_.server, chosen_.port, chosen_.common.timeout);
      leader.set_timeout(4 * chosen_.common.timeout);
      leader.send({{"worker", number}});
      return leader;
    });
  }

  std::optional<std::string> answer(const json& order) {
    if (order.contains("why")) return workers_.why_crashed(order["why"]);
    if (order.contains("join")) return workers_.join(order["join"]);
    if (order.contains("kill"))
      workers_.kill(order["kill"]);
    else if (order.contains("reset"))
      faults_.reset(order["reset"]);
    else if (order.contains("mend"))
      faults_.mend();
    else
      throw common::failure("the server asks for what is unknown here: " + order.dump());
    return std::nullopt;
  }

  const options& chosen_;
  common::oob_channel& server_;
  children workers_;
  device_faults faults_;
};

ending failed(const std::string& why, std::uint64_t seed) {
  return {fmt::format("FAILED: {}; repeat with --seed {}", why, seed), false};
}

}  // namespace

ending run_client(const options& chosen) {
  auto server = common::oob_channel::connect(chosen.server, chosen.port, chosen.common.timeout);
  const unsigned first = introduce(server, chosen);
  // The server gives up first, and says why.
  server.set_timeout(4 * chosen.common.timeout);
  try {
    return client(chosen, server, first).obey();
  } catch (const common::peer_failure& error) {
    return failed(fmt::format("the server failed: {}", error.reason()), chosen.common.seed);
  } catch (const std::exception& error) {
    server.tell_failure(error.what());
    return failed(fmt::format("the server is gone: {}", error.what()), chosen.common.seed);
  }
}

}  // namespace gaudi::stress
