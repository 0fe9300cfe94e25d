// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "json.hpp"

#include <nlohmann/json.hpp>

#include "latencies.hpp"

namespace gaudi::top {
namespace {

using nlohmann::json;

json counters_of(const change& one) {
  json values = json::object();
  for (const auto& value : base::counters::values_of(one.now->kind))
    values[std::string(value.name)] = one.now->values[value.place];
  return values;
}

json rates_of(const change& one, double seconds) {
  json values = json::object();
  for (const auto& value : base::counters::values_of(one.now->kind))
    if (value.kind == base::counters::behaviour::grows)
      values[std::string(value.name)] = static_cast<double>(one.counted[value.place]) / seconds;
  return values;
}

json subject_of(const change& one, const std::optional<double>& seconds) {
  json s;
  if (one.now->kind == block_kind::device)
    s = {{"index", one.now->number}, {"name", one.now->name}, {"pci", one.now->detail}};
  else
    s = {{"nic", one.now->name}, {"core", one.now->detail}};
  if (one.now->kind == block_kind::rail) s["rail"] = one.now->number;
  s["counters"] = counters_of(one);
  s["per_second"] = seconds ? rates_of(one, *seconds) : json(nullptr);
  return s;
}

json latency_of(const change& one) {
  const histogram times = histogram_of(one.now->values);
  json buckets = json::array();
  for (std::size_t i = 0; i < times.buckets.size(); ++i) {
    if (times.buckets[i] == 0) continue;
    const bool is_last = i + 1 == times.buckets.size();
    buckets.push_back({{"le_ns", is_last ? json(nullptr) : json(histogram::bound_of(i))},
                       {"count", times.buckets[i]}});
  }
  return {{"nic", one.now->name},
          {"core", one.now->detail},
          {"operation", operation_name(one.now->number)},
          {"count", times.count},
          {"sum_ns", times.sum},
          {"buckets", std::move(buckets)}};
}

json process_of(const process& p, const changes& all) {
  json domains = json::array();
  json devices = json::array();
  json latencies = json::array();
  json rails = json::array();
  for (const change& one : all.subjects) {
    if (one.owner != &p) continue;
    if (one.now->kind == block_kind::latency)
      latencies.push_back(latency_of(one));
    else
      (one.now->kind == block_kind::device ? devices
       : one.now->kind == block_kind::rail ? rails
                                           : domains)
          .push_back(subject_of(one, all.seconds));
  }
  return {{"pid", p.pid},
          {"uid", p.uid},
          {"command", p.counters.command},
          {"release", p.counters.release},
          {"start_time", p.counters.start_time},
          {"unseen", p.counters.unseen},
          {"changing", p.counters.is_changing},
          {"domains", std::move(domains)},
          {"devices", std::move(devices)},
          {"rails", std::move(rails)},
          {"latencies", std::move(latencies)}};
}

}  // namespace

std::string json_of(const sample& now, const changes& all, double unix_time) {
  json processes = json::array();
  for (const process& p : now.processes) processes.push_back(process_of(p, all));
  return json{{"tool", "gaudi_top"},
              {"version", GAUDI_TOP_VERSION},
              {"time", unix_time},
              {"seconds", all.seconds ? json(*all.seconds) : json(nullptr)},
              {"processes", std::move(processes)}}
      .dump();
}

}  // namespace gaudi::top
