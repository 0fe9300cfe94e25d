// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <string>

#include "base/params.hpp"
#include "collect.hpp"
#include "findings.hpp"
#include "machine.hpp"
#include "messages.hpp"
#include "print.hpp"
#include "verdict.hpp"

namespace gaudi::info {
namespace {

constexpr int bad_option = 2;

struct options {
  bool doctor = false;
  bool json = false;
  bool all = false;
  std::string sysfs = "/sys";
};

report collect(const options& chosen) {
  report r;
  // Before libfabric starts, which forgets what was defined earlier.
  base::define_params();
  r.parameters = collect_parameters();
  const auto loaded = hl::thunk::load(base::params::get().hlthunk);
  const std::shared_ptr<const hl::thunk> thunk = loaded ? *loaded : nullptr;
  if (thunk) r.devices = collect_devices(*thunk, chosen.sysfs, "/proc");
  if (thunk) check_named_devices(*thunk, r.parameters);
  r.unknown_variables = base::unknown_variables(environ);
  r.nics = collect_nics(chosen.sysfs);
  r.gaudi_ports = collect_gaudi_ports(chosen.sysfs);
  r.rails = collect_rails();
  r.software = collect_software(thunk.get(), chosen.sysfs);
  if (chosen.doctor) probe(thunk, r);
  r.messages = expected_messages(r, base::params::get());
  return r;
}

std::vector<finding> examine(const options& chosen, const report& r) {
  machine_roots roots;
  roots.sysfs = chosen.sysfs;
  roots.in_kubernetes = std::getenv("KUBERNETES_SERVICE_HOST") != nullptr;
  return find_obstacles(collect_machine(roots, r), r);
}

int run(const options& chosen) {
  const report r = collect(chosen);
  const auto findings = chosen.doctor ? examine(chosen, r) : std::vector<finding>{};
  const verdict v = chosen.doctor ? judge(r, findings) : verdict{};
  if (chosen.json) {
    print_json(r, chosen.doctor ? &v : nullptr, findings);
  } else {
    if (chosen.doctor) print_verdict(v, findings);
    print_text(r, chosen.all);
  }
  return static_cast<int>(v.what);
}

/// What main ends with where the command line is not to be carried out: it asked for help, or is
/// bad.
std::optional<int> parse(int argc, char** argv, options& chosen) {
  CLI::App app(
      "Shows the Gaudis and RDMA NICs of this machine, how near they are to each other,\n"
      "and which way the provider gaudi would take between them.",
      "gaudi_info");
  app.set_version_flag("--version", "gaudi_info " GAUDI_INFO_VERSION);
  app.add_flag("--doctor", chosen.doctor,
               "Try each free Gaudi with each NIC, and say what is\n"
               "in the way of zero copy; the exit status names it,\nsee gaudi_info(1)");
  app.add_flag("--all", chosen.all, "List all parameters, not only those given");
  app.add_flag("--json", chosen.json, "One JSON document instead of text");
  app.add_option("--sysfs", chosen.sysfs, "Where sysfs is mounted, or another machine's copy")
      ->check(CLI::ExistingDirectory);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? EXIT_SUCCESS : bad_option;
  }
  return std::nullopt;
}

}  // namespace
}  // namespace gaudi::info

int main(int argc, char** argv) {
  try {
    gaudi::info::options chosen;
    if (const auto code = gaudi::info::parse(argc, argv, chosen)) return *code;
    return gaudi::info::run(chosen);
  } catch (const std::exception& error) {
    static_cast<void>(std::fprintf(stderr, "gaudi_info: %s\n", error.what()));
    return EXIT_FAILURE;
  }
}
