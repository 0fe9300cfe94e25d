// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <fmt/format.h>

#include <cstdlib>
#include <exception>

#include "client.hpp"
#include "local_host.hpp"
#include "run.hpp"
#include "server.hpp"

namespace gaudi::stress {
namespace {

ending run_alone(const options& chosen) {
  std::vector<side> sides(1);
  sides[0].machine = std::make_unique<local_host>(chosen.common.timeout);
  sides[0].workers = chosen.processes;
  return run(chosen, std::move(sides));
}

ending run_as(const options& chosen) {
  if (chosen.is_server) return run_server(chosen);
  return chosen.server.empty() ? run_alone(chosen) : run_client(chosen);
}

}  // namespace
}  // namespace gaudi::stress

int main(int argc, char** argv) {
  try {
    gaudi::stress::options chosen;
    if (const auto code = gaudi::stress::parse(argc, argv, chosen)) return *code;
    const gaudi::stress::ending end = gaudi::stress::run_as(chosen);
    fmt::print("{}\n", end.verdict);
    return end.passed ? EXIT_SUCCESS : EXIT_FAILURE;
  } catch (const std::exception& error) {
    fmt::print(stderr, "gaudi_stress: {}\n", error.what());
    return EXIT_FAILURE;
  }
}
