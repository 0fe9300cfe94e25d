// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <set>

#include "common/failure.hpp"
#include "common/sizes.hpp"

namespace gaudi::stress {
namespace {

using common::kib;
using common::mib;

constexpr int bad_option = 2;
constexpr unsigned max_processes = 64;

const std::map<std::string, memory_choice> memories{{"host", memory_choice::host},
                                                    {"device", memory_choice::device},
                                                    {"mixed", memory_choice::mixed}};

/// What else a worker does, by the names that --operations has for it.
const std::map<std::string, bool settings::*> habits{
    {"cancel", &settings::cancel},   {"reconnect", &settings::reconnect},
    {"peek", &settings::peek},       {"claim", &settings::claim},
    {"discard", &settings::discard}, {"multirecv", &settings::multi_receive},
    {"ranges", &settings::ranges},   {"counters", &settings::counters},
};

void choose(const std::vector<std::string>& names, settings& out) {
  for (const auto& [name, habit] : habits) out.*habit = false;
  for (const std::string& name : names) {
    const auto* found = std::find(operation_names.begin(), operation_names.end(), name);
    if (const auto habit = habits.find(name); habit != habits.end())
      out.*habit->second = true;
    else if (found != operation_names.end())
      out.operations.push_back(static_cast<operation>(found - operation_names.begin()));
    else
      throw CLI::ValidationError("--operations", "no operation is called '" + name + "'");
  }
  if (out.operations.empty())
    throw CLI::ValidationError("--operations", "names nothing that moves bytes");
}

void choose_all(settings& out) {
  for (std::size_t i = 0; i < operation_names.size(); ++i)
    out.operations.push_back(static_cast<operation>(i));
}

// What the client decides would have no effect here.
void require_undecided(const CLI::App& app, const options& chosen) {
  if (!chosen.is_server) return;
  const std::set<std::string> own{"--server", "--port", "--processes", "--timeout"};
  for (const CLI::Option* given : app.parse_order())
    if (own.count(given->get_name()) == 0)
      throw CLI::ValidationError(given->get_name(), "is for the client to decide");
}

/// Alone there have to be two; each of two sides has one at least.
void require_peers(const options& chosen) {
  if (chosen.is_server || !chosen.server.empty() || chosen.processes > 1) return;
  throw CLI::ValidationError("--processes", "one is enough only with a server or a client");
}

}  // namespace

void to_json(nlohmann::json& j, const options& o) {
  j = {{"settings", o.common}, {"processes", o.processes}, {"seconds", o.seconds},
       {"rounds", o.rounds},   {"kill", o.kill},           {"reset", o.reset}};
}

void from_json(const nlohmann::json& j, options& o) {
  j.at("settings").get_to(o.common);
  j.at("processes").get_to(o.processes);
  j.at("seconds").get_to(o.seconds);
  j.at("rounds").get_to(o.rounds);
  j.at("kill").get_to(o.kill);
  j.at("reset").get_to(o.reset);
  if (o.processes < 1 || o.processes > max_processes)
    throw common::failure("the client asks for a number of processes that cannot be");
}

std::optional<int> parse(int argc, char** argv, options& out) {
  CLI::App app{
      "Has processes exchange Gaudi and host memory over a libfabric provider in every\n"
      "way that it offers, at random, and verifies each byte and each completion. Ends\n"
      "with a verdict. For two hosts start it with --server on one, and with the\n"
      "server's address on the other, the client, whose options decide what runs.\n"
      "See gaudi_stress(1).",
      "gaudi_stress"};
  app.set_version_flag("--version", "gaudi_stress " GAUDI_STRESS_VERSION);
  std::vector<std::string> names;
  std::int64_t timeout = out.common.timeout.count();
  out.common.max_size = mib;
  out.common.seed = std::random_device()();

  auto* address = app.add_option("server-address", out.server, "the server's host name or address");
  app.add_flag("--server", out.is_server, "wait for a client, and run with it")->excludes(address);
  app.add_option("--port", out.port, "TCP port to meet on (default 18515)")->option_text("P");
  app.add_option("--processes", out.processes, "on this host (default 4)")
      ->check(CLI::Range(1U, max_processes))
      ->option_text("N");
  auto* seconds = app.add_option("--seconds", out.seconds, "that the run takes (default 10)")
                      ->check(CLI::Range(0.001, 1e7))
                      ->option_text("S");
  app.add_option("--rounds", out.rounds, "end after so many rounds, not by time")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 40U))
      ->excludes(seconds)
      ->option_text("N");
  app.add_option("--seed", out.common.seed, "repeat the run that named this seed")
      ->option_text("N");
  app.add_option("--memory", out.common.memory,
                 "host, device, or mixed: both, where a process has\na Gaudi (default mixed)")
      ->transform(CLI::CheckedTransformer(memories))
      ->option_text("KIND");
  app.add_option("--max-size", out.common.max_size,
                 "largest operation in bytes, K and M allowed\n(default 1M)")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(std::size_t{1}, max_max_size))
      ->option_text("N");
  app.add_option("--operations", names,
                 "these only, separated by commas (default all):\n"
                 "send inject senddata tsend tinject tsenddata\n"
                 "write writedata read atomic fetch compare cancel\n"
                 "reconnect peek claim discard multirecv ranges\n"
                 "counters")
      ->delimiter(',')
      ->option_text("LIST");
  app.add_flag("--kill", out.kill, "kill a process now and then, and start it again");
  app.add_flag("--reset", out.reset, "reset a simulated Gaudi now and then");
  app.add_option("--corrupt", out.common.corrupt_round,
                 "send a wrong byte in this round, to see it found")
      ->option_text("ROUND");
  app.add_option("--provider", out.common.provider, "libfabric provider (default gaudi)")
      ->option_text("NAME");
  app.add_option("--timeout", timeout, "seconds without progress to give up after\n(default 60)")
      ->check(CLI::Range(std::int64_t{1}, max_timeout))
      ->option_text("S");

  try {
    app.parse(argc, argv);
    names.empty() ? choose_all(out.common) : choose(names, out.common);
    require_peers(out);
    require_undecided(app, out);
    if (out.reset && out.common.memory == memory_choice::host)
      throw CLI::ValidationError("--reset", "is for device memory, and --memory is host");
  } catch (const CLI::Error& error) {
    return app.exit(error) == 0 ? EXIT_SUCCESS : bad_option;
  }
  out.common.timeout = std::chrono::seconds(timeout);
  return std::nullopt;
}

}  // namespace gaudi::stress
