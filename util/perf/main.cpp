// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "common/gnuplot.hpp"
#include "plot.hpp"
#include "report.hpp"
#include "session.hpp"
#include "tour.hpp"

namespace gaudi::perf {
namespace {

std::size_t capacity_for(const plan& p) {
  std::size_t capacity = 0;
  for (const std::size_t size : p.sizes) capacity = std::max(capacity, size * slots_for(p, size));
  return capacity;
}

oob_channel meet(const options& chosen) {
  if (!chosen.server.empty())
    return oob_channel::connect(chosen.server, chosen.port, chosen.timeout);
  if (!chosen.json && !chosen.csv) {
    fmt::print("waiting for a client on port {}\n", chosen.port);
    std::fflush(stdout);
  }
  return oob_channel::accept(chosen.port, chosen.timeout);
}

plotted_run run_on(oob_channel& oob, options chosen) {
  const bool client = !chosen.server.empty();
  if (client)
    oob.send(chosen.work);
  else
    chosen.work = oob.receive().get<plan>();

  session work({.ep = {.provider = chosen.provider,
                       .device = chosen.memory == memory_kind::device,
                       .source = oob.local_address()},
                .pairs = chosen.work.pairs,
                .threads = chosen.work.threads,
                .timeout = chosen.timeout},
               oob, client);
  const side own = describe(work.first_endpoint(), chosen.memory);
  const side peer = oob.exchange(own).get<side>();
  work.use_memory(chosen.memory, capacity_for(chosen.work));
  std::vector<measurement> results;
  for (const std::size_t size : chosen.work.sizes)
    results.push_back(work.run(step_for(chosen.work, size)));

  // The client's figures are shown on both sides.
  if (client)
    oob.send(results);
  else
    results = oob.receive().get<std::vector<measurement>>();
  oob.barrier();
  const auto print = chosen.json ? print_json : chosen.csv ? print_csv : print_table;
  const side& first = client ? own : peer;
  const side& second = client ? peer : own;
  print(chosen.work, first, second, results);
  return {"this run: " + run_kind(name_of(chosen.work.op), first.memory, second.memory), results};
}

plotted_run run(const options& chosen) {
  if (chosen.device) setenv("FI_GAUDI_DEVICE", chosen.device->c_str(), 1);
  oob_channel oob = meet(chosen);
  try {
    return run_on(oob, chosen);
  } catch (const peer_failure&) {
    throw;
  } catch (const std::exception& error) {
    oob.tell_failure(error.what());
    throw;
  }
}

// What cannot be drawn is told before anything is measured.
void run_and_plot(const options& chosen) {
  common::svg_plot plot(chosen.plot);
  std::vector<plotted_run> runs;
  for (const auto& file : chosen.overlay) runs.push_back(read_run(file));
  if (!chosen.plot_only) runs.insert(runs.begin(), run(chosen));
  plot.draw(plot_script(runs));
}

}  // namespace
}  // namespace gaudi::perf

int main(int argc, char** argv) {
  try {
    gaudi::perf::options chosen;
    if (const auto code = gaudi::perf::parse(argc, argv, chosen)) return *code;
    if (chosen.tour) return gaudi::perf::run_tour(chosen);
    if (chosen.plot.empty())
      gaudi::perf::run(chosen);
    else
      gaudi::perf::run_and_plot(chosen);
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gaudi_perf: %s\n", error.what());
    return EXIT_FAILURE;
  }
}
