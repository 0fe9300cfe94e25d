// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "common/sizes.hpp"

namespace gaudi::rdma_check {
namespace {

std::string memory_text(const side& s) {
  return fmt::format("{}, {}{}", s.memory, s.device.empty() ? "" : s.device + ", ", s.nic);
}

}  // namespace

void to_json(nlohmann::json& j, const side& s) {
  j = {{"memory", s.memory}, {"device", s.device}, {"nic", s.nic}};
}

void from_json(const nlohmann::json& j, side& s) {
  j.at("memory").get_to(s.memory);
  j.at("device").get_to(s.device);
  j.at("nic").get_to(s.nic);
}

void to_json(nlohmann::json& j, const row& r) {
  j = {{"operation", r.operation},
       {"pair", r.pair},
       {"size", r.size},
       {"iterations", r.iterations},
       {"latency_us", r.latency},
       {"megabytes_per_second", r.megabytes_per_second},
       {"verified", r.difference.empty()},
       {"difference", r.difference},
       {"flushes", r.flushes}};
}

void from_json(const nlohmann::json& j, row& r) {
  j.at("operation").get_to(r.operation);
  j.at("pair").get_to(r.pair);
  j.at("size").get_to(r.size);
  j.at("iterations").get_to(r.iterations);
  j.at("latency_us").get_to(r.latency);
  j.at("megabytes_per_second").get_to(r.megabytes_per_second);
  j.at("difference").get_to(r.difference);
  j.at("flushes").get_to(r.flushes);
}

bool outcome::contents_right() const {
  return std::all_of(rows.begin(), rows.end(), [](const row& r) { return r.difference.empty(); });
}

void print_head(const outcome& o) {
  fmt::print("RDMA by libibverbs alone\n");
  fmt::print("  client: {}\n", memory_text(o.client));
  fmt::print("  server: {}\n", memory_text(o.server));
  fmt::print("latency: median, half a round trip for send -> and <-, else to the completion\n");
  fmt::print("MB/s = 10^6 bytes/s, up to 16 operations in flight\n\n");
  fmt::print("{:<10} {:<18} {:>8} {:>12} {:>10}  {}\n", "operation", "client, server", "size",
             "latency us", "MB/s", "verified");
}

void print_row(const row& r) {
  fmt::print("{:<10} {:<18} {:>8} {:>12.2f} {:>10.1f}  {}\n", r.operation, r.pair,
             common::size_text(r.size), r.latency.median, r.megabytes_per_second,
             r.difference.empty() ? "yes" : "NO: " + r.difference);
  std::fflush(stdout);
}

void print_end(const outcome& o) {
  fmt::print("\n");
  if (o.out_of_range)
    fmt::print("write past the server's memory: {}\n",
               o.out_of_range_fault.empty() ? "passed, it is refused (remote access error)"
                                            : "failed, " + o.out_of_range_fault);
  fmt::print("{}\n", o.contents_right() ? "All operations gave the right bytes."
                                        : "Contents DIFFER: see the last column.");
}

void print_json(const outcome& o) {
  nlohmann::json document{
      {"tool", "gaudi_rdma_check"}, {"version", GAUDI_RDMA_CHECK_VERSION}, {"client", o.client},
      {"server", o.server},         {"verified", o.contents_right()},      {"results", o.rows}};
  if (o.out_of_range)
    document["out_of_range"] = o.out_of_range_fault.empty() ? "passed" : o.out_of_range_fault;
  fmt::print("{}\n", document.dump(2));
}

}  // namespace gaudi::rdma_check
