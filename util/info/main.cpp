// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <string>

#include "base/params.hpp"
#include "collect.hpp"
#include "print.hpp"

namespace gaudi::info {
namespace {

constexpr int bad_option = 2;

struct options {
  bool doctor = false;
  bool json = false;
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
  r.nics = collect_nics(chosen.sysfs);
  r.software = collect_software(thunk.get());
  if (chosen.doctor) probe(thunk, r);
  return r;
}

int run(const options& chosen) {
  const report r = collect(chosen);
  const verdict v = chosen.doctor ? judge(r) : verdict{};
  if (chosen.json) {
    print_json(r, chosen.doctor ? &v : nullptr);
  } else {
    print_text(r);
    if (chosen.doctor) print_verdict(v);
  }
  return static_cast<int>(v.what);
}

/// What main ends with where the command line is not to be carried out: it asked for help, or is
/// bad.
std::optional<int> parse(int argc, char** argv, options& chosen) {
  CLI::App app(
      "Shows the Gaudis and RDMA NICs of this machine, how near they are to each other, and which "
      "way the provider gaudi would take between them.",
      "gaudi_info");
  app.set_version_flag("--version", GAUDI_INFO_VERSION);
  app.add_flag("--doctor", chosen.doctor,
               "Try to register memory of each free Gaudi with each NIC, and say what stands in "
               "the way of zero copy; the exit status names the cause, see gaudi_info(1)");
  app.add_flag("--json", chosen.json, "One JSON document instead of text");
  app.add_option("--sysfs", chosen.sysfs, "Where sysfs is mounted, or a copy of another machine's")
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
