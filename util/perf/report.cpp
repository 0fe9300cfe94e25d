// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/sizes.hpp"
#include "failure.hpp"
#include "memory.hpp"

namespace gaudi::perf {
namespace {

std::string memory_text(const side& s) {
  return s.device.empty() ? s.memory : fmt::format("{} ({})", s.memory, s.device);
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
  fmt::print("latency: {}; bandwidth: {} in flight, MB/s = 10^6 bytes/s\n\n", latency_kind(p.op),
             p.window);
  const bool path_shown = std::any_of(results.begin(), results.end(),
                                      [](const measurement& m) { return !m.path.empty(); });
  fmt::print("{:>9} {:>10} {:>9} {:>9} {:>9} {:>9} {:>8}  {}\n", "size", "iterations", "min us",
             "median us", "p99 us", "MB/s", "ops/s", path_shown ? "path" : "");
  for (const auto& m : results)
    fmt::print("{:>9} {:>10} {:>9.2f} {:>9.2f} {:>9.2f} {:>9.1f} {:>8.0f}  {}\n",
               common::size_text(m.size), m.iterations, m.latency.min, m.latency.median,
               m.latency.p99, m.megabytes_per_second, m.messages_per_second, m.path);
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
