// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>

#include "common/failure.hpp"
#include "common/memory_option.hpp"
#include "common/sizes.hpp"

namespace gaudi::perf {
namespace {

using common::failure;
using common::mib;

// Bytes that one measurement moves, and that the slots of one buffer of each pair may fill
// together, unless told otherwise.
constexpr std::size_t default_volume = 512 * mib;
constexpr std::size_t slot_memory = 128 * mib;
constexpr std::size_t max_slots = 256;
constexpr std::uint64_t max_pages = 1U << 20U;
constexpr std::size_t max_pairs = 256;

constexpr int bad_option = 2;

const std::map<std::string, operation> operations{{"send", operation::send},
                                                  {"tagged", operation::tagged},
                                                  {"write", operation::write},
                                                  {"read", operation::read}};

// What makes no sense together: pages are about one endpoint, and the tour's table has no room.
void add_pair_options(CLI::App& app, CLI::Option* pages, CLI::Option* tour, plan& work) {
  auto* pairs = app.add_option("--pairs", work.pairs,
                               "independent pairs of endpoints, which do the same\nat once; "
                               "figures are of all together (default 1)")
                    ->check(CLI::Range(std::size_t{1}, max_pairs))
                    ->excludes(pages)
                    ->excludes(tour)
                    ->option_text("N");
  app.add_option(
         "--threads", work.threads,
         "with --pairs: threads of each side, which have the\npairs divided among them (default 1)")
      ->check(CLI::Range(std::size_t{1}, max_pairs))
      ->needs(pairs)
      ->option_text("N");
}

void check_together(const plan& work) {
  if (work.pages != 0 && !is_rma(work.op))
    throw CLI::ValidationError("--pages", "only with --op write or read");
  if (work.threads > work.pairs)
    throw CLI::ValidationError("--threads", "not more than --pairs, as each pair has one thread");
}

// Earlier runs are an option of their own: the one positional argument is the server.
void add_plot_options(CLI::App& app, CLI::Option* tour, options& out) {
  auto* plot = app.add_option("--plot", out.plot,
                              "also draw latency and bandwidth over the size into\nthis SVG file "
                              "(needs gnuplot)")
                   ->excludes(tour)
                   ->option_text("FILE");
  auto* overlay = app.add_option("--overlay", out.overlay,
                                 "with --plot: what --json or --csv printed of an\nearlier run, to "
                                 "be drawn as well; can be repeated")
                      ->needs(plot)
                      ->allow_extra_args(false)
                      ->option_text("FILE");
  app.add_flag("--plot-only", out.plot_only, "measure nothing, draw the runs of --overlay")
      ->needs(overlay);
}

}  // namespace

const char* name_of(operation op) {
  static constexpr std::array names{"send", "tagged", "write", "read"};
  return names.at(static_cast<std::size_t>(op));
}

const char* name_of(memory_kind kind) {
  return kind == memory_kind::host ? "host" : "device";
}

std::uint64_t iterations_for(const plan& p, std::size_t size) {
  if (p.iterations != 0) return p.iterations;
  const std::size_t pieces = std::max<std::size_t>(p.pages, 1) * p.pairs;
  return std::clamp<std::uint64_t>(default_volume / size / pieces, 8, 1000);
}

std::uint64_t warmup_for(const plan& p, std::size_t size) {
  if (p.warmup != 0) return p.warmup;
  return std::clamp<std::uint64_t>(iterations_for(p, size) / 10, 1, 100);
}

std::size_t slots_for(const plan& p, std::size_t size) {
  if (p.pages != 0) return p.pages;
  const std::size_t wanted = p.check ? std::max<std::size_t>(p.window, max_slots) : p.window;
  return std::max<std::size_t>(2, std::min(wanted, slot_memory / p.pairs / size));
}

void to_json(nlohmann::json& j, const plan& p) {
  j = {{"op", name_of(p.op)}, {"sizes", p.sizes},       {"iterations", p.iterations},
       {"warmup", p.warmup},  {"window", p.window},     {"bidirectional", p.bidirectional},
       {"check", p.check},    {"duration", p.duration}, {"pages", p.pages},
       {"pairs", p.pairs},    {"threads", p.threads},   {"stalls", p.stalls}};
}

void from_json(const nlohmann::json& j, plan& p) {
  p.op = operations.at(j.at("op").get<std::string>());
  j.at("sizes").get_to(p.sizes);
  j.at("iterations").get_to(p.iterations);
  j.at("warmup").get_to(p.warmup);
  j.at("window").get_to(p.window);
  j.at("bidirectional").get_to(p.bidirectional);
  j.at("check").get_to(p.check);
  p.duration = j.value("duration", 0.0);
  p.stalls = j.value("stalls", false);
  p.pages = j.value("pages", std::uint64_t{0});
  if (p.pages > max_pages || (p.pages != 0 && !is_rma(p.op)))
    throw failure("the peer asks for a run with pages that cannot be");
  p.pairs = j.value("pairs", std::size_t{1});
  p.threads = j.value("threads", std::size_t{1});
  if (p.pairs > max_pairs || p.threads == 0 || p.threads > p.pairs)
    throw failure("the peer asks for a run with no thread, or more threads than pairs");
  if (p.window == 0 || p.sizes.empty() || std::count(p.sizes.begin(), p.sizes.end(), 0U) != 0)
    throw failure("the peer asks for a run with no size, a size of 0 or no window");
}

std::optional<int> parse(int argc, char** argv, options& out) {
  CLI::App app{
      "Measures latency and bandwidth of a libfabric provider between two processes,\n"
      "from host or Gaudi device memory. Start it without an address on one side (the\n"
      "server), with the server's address on the other. The client's options decide\n"
      "what runs; each side chooses its own --memory.",
      "gaudi_perf"};
  app.set_version_flag("--version", "gaudi_perf " GAUDI_PERF_VERSION);
  std::string memory = "host";
  std::size_t size = 0;
  bool all = false;
  std::int64_t timeout = out.timeout.count();

  app.add_option("server-address", out.server, "the server's host name or address");
  app.add_option("--op", out.work.op, "send, tagged, write or read (default tagged)")
      ->transform(CLI::CheckedTransformer(operations))
      ->option_text("OP");
  app.add_option("--memory", memory, "host, device or device:N, N as in FI_GAUDI_DEVICE")
      ->option_text("KIND");
  auto* one = app.add_option("--size", size, "bytes per operation, K and M allowed (default 64)")
                  ->transform(CLI::AsSizeValue(false))
                  ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 40))
                  ->option_text("N");
  app.add_flag("--all", all, "every power of two from 1 B to 64 MiB")->excludes(one);
  app.add_option("--iters", out.work.iterations,
                 "operations per size (default: by size, 8 to 1000)")
      ->option_text("N");
  app.add_option("--warmup", out.work.warmup, "operations before those (default: a tenth)")
      ->option_text("N");
  app.add_option("--window", out.work.window, "operations in flight of a stream (default 16)")
      ->check(CLI::Range(1, 4096))
      ->option_text("N");
  auto* seconds = app.add_option("--duration", out.work.duration,
                                 "seconds that each size streams (default: a count)")
                      ->check(CLI::Range(0.001, 86400.0))
                      ->option_text("S");
  auto* both =
      app.add_flag("--bidirectional", out.work.bidirectional, "stream in both directions at once");
  auto* pages = app.add_option("--pages", out.work.pages,
                               "write or read: N pages of --size at once, apart in\nmemory, "
                               "against one piece of the same bytes")
                    ->check(CLI::Range(std::uint64_t{1}, max_pages))
                    ->excludes(seconds)
                    ->excludes(both)
                    ->option_text("N");
  app.add_flag("--check", out.work.check, "verify every byte of every operation");
  app.add_flag("--stalls", out.work.stalls,
               "also tell the longest time of a stream in which no\noperation finished")
      ->excludes(pages);
  auto* json = app.add_flag("--json", out.json, "print one JSON document in place of the table");
  app.add_flag("--csv", out.csv, "print comma-separated values in place of the table")
      ->excludes(json);
  app.add_option("--port", out.port, "TCP port to meet on (default 18515)")->option_text("P");
  app.add_option("--provider", out.provider, "libfabric provider (default gaudi)")
      ->option_text("NAME");
  app.add_option("--timeout", timeout, "seconds without progress to give up after\n(default 60)")
      ->check(CLI::Range(1, 86400))
      ->option_text("S");
  auto* tour = app.add_flag("--tour", out.tour,
                            "start both sides here, show all operations and\npairs of memory");
  add_pair_options(app, pages, tour, out.work);
  add_plot_options(app, tour, out);

  try {
    app.parse(argc, argv);
    const auto chosen = common::parse_memory(memory);
    if (chosen.device) out.memory = memory_kind::device;
    check_together(out.work);
    out.device = chosen.gaudi;
  } catch (const CLI::Error& error) {
    return app.exit(error) == 0 ? EXIT_SUCCESS : bad_option;
  }
  out.timeout = std::chrono::seconds(timeout);
  out.work.sizes = all ? common::all_sizes() : std::vector<std::size_t>{size != 0 ? size : 64};
  return std::nullopt;
}

}  // namespace gaudi::perf
