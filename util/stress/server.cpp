// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "server.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <utility>

#include "common/failure.hpp"
#include "handshake.hpp"
#include "local_host.hpp"
#include "remote_host.hpp"

namespace gaudi::stress {
namespace {

std::vector<side> both_sides(const options& own, const options& work, common::oob_channel& client,
                             const common::oob_listener& port) {
  std::vector<side> sides(2);
  sides[0].machine = std::make_unique<local_host>(work.common.timeout);
  sides[0].workers = own.processes;
  sides[0].name = "server";
  sides[0].address = client.local_address();
  sides[1].machine = std::make_unique<remote_host>(client, port, work.common.timeout);
  sides[1].workers = work.processes;
  sides[1].name = "client";
  return sides;
}

// A client that has gone is what the verdict says already.
void tell_verdict(common::oob_channel& client, const ending& end) {
  try {
    client.exchange({{"verdict", end.verdict}, {"passed", end.passed}});
  } catch (const common::failure&) {
  }
}

ending lead(const options& own, common::oob_channel& client, const common::oob_listener& port) {
  const options work = welcome(client, own.processes);
  client.set_timeout(2 * work.common.timeout);
  std::vector<side> sides = both_sides(own, work, client, port);
  for (const side& one : sides)
    one.machine->print(
        fmt::format("processes: {} on the server, from number 0; {} on the client, from number {}",
                    own.processes, work.processes, own.processes));
  ending end = run(work, std::move(sides));
  tell_verdict(client, end);
  return end;
}

}  // namespace

ending run_server(const options& chosen) {
  const common::oob_listener port(chosen.port);
  fmt::print("waiting for a client on port {}\n", chosen.port);
  std::fflush(stdout);
  common::oob_channel client = port.accept(chosen.common.timeout);
  try {
    return lead(chosen, client, port);
  } catch (const common::peer_failure&) {
    throw;
  } catch (const std::exception& error) {
    client.tell_failure(error.what());
    throw;
  }
}

}  // namespace gaudi::stress
