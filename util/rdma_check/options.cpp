// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>

#include "common/memory_option.hpp"
#include "common/sizes.hpp"
#include "failure.hpp"

namespace gaudi::rdma_check {
namespace {

using common::kib;
using common::mib;

constexpr const char* description =
    "Checks RDMA between two machines with libibverbs and librdmacm alone, from and\n"
    "to host or Gaudi memory, and verifies every byte. Start it without an address on\n"
    "one side (the server), with the server's address on the other. The client's\n"
    "options decide what runs; each side chooses its own --memory. What a NIC wrote\n"
    "to a Gaudi is flushed before it is verified: the NIC reads the last byte back.\n"
    "See gaudi_rdma_check(1).";
constexpr const char* exit_status =
    "Exit status: 0 all verified, 1 contents differ, 2 bad option, 3 no RDMA device\n"
    "or no connection, 4 dma-bufs refused, 5 no Gaudi, 6 an RDMA operation failed";

const std::vector<std::size_t> usual_sizes{64, 4 * kib, 64 * kib, mib};

void parse_operation(const std::string& text, options& out) {
  for (const operation op : all_operations())
    if (text == "all" || text == name_of(op)) out.work.operations.push_back(op);
  if (out.work.operations.empty())
    throw CLI::ValidationError("--op",
                               "expects all, send, write, write_imm or read, not '" + text + "'");
}

/// Values that are looked at after parsing.
struct raw_values {
  std::string memory = "host";
  std::string op = "all";
  std::int64_t timeout = 0;  // seconds
  bool all = false;
};

void add_work(CLI::App& app, options& out, raw_values& raw) {
  app.add_option("--op", raw.op, "all (default), send, write, write_imm or read")
      ->option_text("OP");
  auto* sizes = app.add_option("--size", out.work.sizes,
                               "bytes per operation, K and M allowed; several\nwith commas "
                               "between (default 64,4K,64K,1M)")
                    ->delimiter(',')
                    ->allow_extra_args(false)
                    ->transform(CLI::AsSizeValue(false))
                    ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 30))
                    ->option_text("N[,N...]");
  app.add_flag("--all", raw.all, "every power of two from 1 B to 64 MiB")->excludes(sizes);
  app.add_option("--iters", out.work.iterations, "operations per size (default: by size, 4 to 200)")
      ->option_text("N");
  app.add_flag("--out-of-range", out.work.out_of_range,
               "at the end write past the server's memory, which\nmust fail");
}

void add_side(CLI::App& app, options& out, raw_values& raw) {
  app.add_option("server-address", out.server, "the server's host name or address");
  app.add_option("--memory", raw.memory,
                 "host (default), device or device:N, N as in\nFI_GAUDI_DEVICE")
      ->option_text("KIND");
  app.add_option("--port", out.port, "of the RDMA connection manager (default 18515)")
      ->check(CLI::Range(1, 65535))
      ->option_text("P");
  app.add_option("--bind", out.bind, "this machine's, which chooses the NIC")
      ->option_text("ADDRESS");
  app.add_option("--timeout", raw.timeout,
                 "seconds without progress to give up after\n(default 30)")
      ->check(CLI::Range(1, 86400))
      ->option_text("S");
  app.add_flag("--json", out.json, "print one JSON document in place of the table");
}

}  // namespace

std::optional<int> parse(int argc, char** argv, options& out) {
  CLI::App app{description, "gaudi_rdma_check"};
  app.footer(exit_status);
  app.set_version_flag("--version", "gaudi_rdma_check " GAUDI_RDMA_CHECK_VERSION);
  raw_values raw{.timeout = out.timeout.count()};
  add_side(app, out, raw);
  add_work(app, out, raw);
  try {
    app.parse(argc, argv);
    const auto memory = common::parse_memory(raw.memory);
    out.device = memory.device;
    out.gaudi = memory.gaudi.value_or("");
    parse_operation(raw.op, out);
  } catch (const CLI::Error& error) {
    // Not the parser's own codes, of which there are many.
    return app.exit(error) == 0 ? 0 : static_cast<int>(exit_code::bad_option);
  }
  out.timeout = std::chrono::seconds(raw.timeout);
  if (out.work.sizes.empty()) out.work.sizes = raw.all ? common::all_sizes() : usual_sizes;
  return std::nullopt;
}

}  // namespace gaudi::rdma_check
