// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "common/sizes.hpp"
#include "memory.hpp"

namespace gaudi::perf {
namespace {

std::string memory_text(const side& s) {
  return s.device.empty() ? s.memory : fmt::format("{} ({})", s.memory, s.device);
}

double gigabits(const measurement& m) {
  return m.megabytes_per_second * 8 / 1000;
}

// How many pages at once, and how they compare.
void print_pages(const plan& p, const std::vector<measurement>& results) {
  fmt::print("{} pages at once, counted as one; against one piece of the same bytes:\n\n", p.pages);
  fmt::print("{:>7} {:>8} {:>9} {:>10} {:>10} {:>8} {:>9} {:>12} {}\n", "page", "count", "min us",
             "median us", "MB/s", "pages/s", "of one", "EAGAIN/page", "path");
  for (const auto& m : results)
    fmt::print("{:>7} {:>8} {:>9.1f} {:>10.1f} {:>10.1f} {:>8.0f} {:>9.3f} {:>12.3f} {}\n",
               common::size_text(m.size), m.iterations, m.latency.min, m.latency.median,
               m.megabytes_per_second, m.messages_per_second, m.of_one_piece, m.refused_per_page,
               m.path);
}

void print_single(const std::vector<measurement>& results) {
  const bool path_shown = std::any_of(results.begin(), results.end(),
                                      [](const measurement& m) { return !m.path.empty(); });
  fmt::print("{:>7} {:>8} {:>8} {:>9} {:>8} {:>8} {:>7} {:>8} {}\n", "size", "count", "min us",
             "median us", "p99 us", "MB/s", "Gb/s", "ops/s", path_shown ? "path" : "");
  for (const auto& m : results)
    fmt::print("{:>7} {:>8} {:>8.2f} {:>9.2f} {:>8.2f} {:>8.1f} {:>7.2f} {:>8.0f} {}\n",
               common::size_text(m.size), m.iterations, m.latency.min, m.latency.median,
               m.latency.p99, m.megabytes_per_second, gigabits(m), m.messages_per_second, m.path);
}

// The pairs' own rates beside those of all together, in place of the fastest and slowest operation.
void print_pairs(const std::vector<measurement>& results) {
  fmt::print("{:>7} {:>9} {:>9} {:>9} {:>8} {:>9} {:>8} {:>8} {}\n", "size", "count", "median us",
             "MB/s", "Gb/s", "ops/s", "min pair", "max pair", "path");
  for (const auto& m : results) {
    const rate_range pairs = range_of_pairs(m);
    fmt::print("{:>7} {:>9} {:>9.2f} {:>9.1f} {:>8.2f} {:>9.0f} {:>8.1f} {:>8.1f} {}\n",
               common::size_text(m.size), m.iterations, m.latency.median, m.megabytes_per_second,
               gigabits(m), m.messages_per_second, pairs.min, pairs.max, m.path);
  }
}

// Below the table, which has no room for it: "cma: the sender's memory can be read from here".
void print_reasons(const std::vector<measurement>& results) {
  std::vector<std::string> lines;
  for (const auto& m : results) {
    for (const auto& [name, reason] : m.reasons) {
      std::string line = fmt::format("{}: {}", m.path, reason.text);
      if (std::find(lines.begin(), lines.end(), line) == lines.end())
        lines.push_back(std::move(line));
    }
  }
  if (!lines.empty()) fmt::print("\n{}\n", fmt::join(lines, "\n"));
}

// Below the table, too: "1 MiB: no operation finished for up to 12.345 ms".
void print_stalls(const std::vector<measurement>& results) {
  for (const auto& m : results)
    fmt::print("{}: no operation finished for up to {:.3f} ms\n", common::size_text(m.size),
               m.longest_stall / 1000);
}

const char* latency_kind(operation op) {
  if (op == operation::write) return "time to delivery";
  return op == operation::read ? "time to completion" : "half round trip";
}

}  // namespace

void to_json(nlohmann::json& j, const side& s) {
  j = {{"memory", s.memory},
       {"device", s.device},
       {"copies", s.copies},
       {"provider", s.provider},
       {"domain", s.domain}};
}

void from_json(const nlohmann::json& j, side& s) {
  j.at("memory").get_to(s.memory);
  j.at("device").get_to(s.device);
  j.at("copies").get_to(s.copies);
  j.at("provider").get_to(s.provider);
  j.at("domain").get_to(s.domain);
}

side describe(endpoint& ep, memory_kind memory) {
  side s{.memory = name_of(memory),
         .device = {},
         .copies = true,
         .provider = ep.info().fabric_attr->prov_name,
         .domain = ep.info().domain_attr->name};
  if (memory == memory_kind::device) {
    fi_gaudi_device_attr attr{};
    require(ep.device_ops().query_device(ep.domain(), &attr), "opening the Gaudi");
    s.device = fmt::format("{} {}", attr.name, attr.pci_addr);
    s.copies = can_copy(ep);
  }
  return s;
}

void print_table(const plan& p, const side& client, const side& server,
                 const std::vector<measurement>& results) {
  fmt::print("{} over {} ({}){}{}\n", name_of(p.op), client.provider, client.domain,
             p.bidirectional ? ", bidirectional" : "", p.check ? ", every byte verified" : "");
  fmt::print("client memory: {}\nserver memory: {}\n", memory_text(client), memory_text(server));
  if (p.pages != 0) return print_pages(p, results);
  if (p.pairs > 1)
    fmt::print("{} pairs at once, {} on each side; min and max pair in MB/s\n", p.pairs,
               p.threads == 1 ? "one thread" : fmt::format("{} threads", p.threads));
  fmt::print("latency: {}; bandwidth: {} in flight, Gb/s = 10^9 bits/s\n\n", latency_kind(p.op),
             p.window);
  p.pairs > 1 ? print_pairs(results) : print_single(results);
  print_reasons(results);
  if (p.stalls) print_stalls(results);
}

void print_csv(const plan& p, const side& client, const side& server,
               const std::vector<measurement>& results) {
  fmt::print(
      "op,client_memory,server_memory,device,size,count,min_us,median_us,p99_us,MB_per_s,Gb_per_s,"
      "ops_per_s,path,pairs,threads,min_pair_MB_per_s,max_pair_MB_per_s,path_reasons,"
      "longest_stall_us\n");
  const std::string& device = client.device.empty() ? server.device : client.device;
  for (const auto& m : results) {
    const rate_range pairs = range_of_pairs(m);
    fmt::print(
        "{},{},{},{},{},{},{:.3f},{:.3f},{:.3f},{:.3f},{:.4f},{:.1f},{},{},{},{:.3f},{:.3f},{},"
        "{:.3f}\n",
        name_of(p.op), client.memory, server.memory, device, m.size, m.iterations, m.latency.min,
        m.latency.median, m.latency.p99, m.megabytes_per_second, gigabits(m), m.messages_per_second,
        m.path, p.pairs, p.threads, pairs.min, pairs.max, names_of(m.reasons), m.longest_stall);
  }
}

void print_json(const plan& p, const side& client, const side& server,
                const std::vector<measurement>& results) {
  const nlohmann::json document{{"tool", "gaudi_perf"},
                                {"version", GAUDI_PERF_VERSION},
                                {"plan", p},
                                {"client", client},
                                {"server", server},
                                {"results", results}};
  fmt::print("{}\n", document.dump(2));
}

}  // namespace gaudi::perf
