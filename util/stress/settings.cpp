// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "settings.hpp"

#include <algorithm>

#include "common/failure.hpp"

namespace gaudi::stress {
namespace {

operation operation_of(const std::string& name) {
  const auto* found = std::find(operation_names.begin(), operation_names.end(), name);
  if (found == operation_names.end())
    throw common::failure("the other side knows an operation that is unknown here: " + name);
  return static_cast<operation>(found - operation_names.begin());
}

void require_valid(const settings& s) {
  if (s.max_size == 0 || s.max_size > max_max_size || s.operations.empty() ||
      s.memory > memory_choice::mixed || s.timeout.count() < 1 || s.timeout.count() > max_timeout)
    throw common::failure("the other side asks for what cannot be");
}

}  // namespace

void to_json(nlohmann::json& j, const settings& s) {
  std::vector<std::string> names;
  for (const operation op : s.operations) names.emplace_back(name_of(op));
  j = {{"seed", s.seed},
       {"max_size", s.max_size},
       {"operations", names},
       {"memory", static_cast<unsigned>(s.memory)},
       {"cancel", s.cancel},
       {"reconnect", s.reconnect},
       {"peek", s.peek},
       {"claim", s.claim},
       {"discard", s.discard},
       {"multi_receive", s.multi_receive},
       {"ranges", s.ranges},
       {"counters", s.counters},
       {"corrupt_round", s.corrupt_round},
       {"timeout", s.timeout.count()},
       {"provider", s.provider}};
}

void from_json(const nlohmann::json& j, settings& s) {
  j.at("seed").get_to(s.seed);
  j.at("max_size").get_to(s.max_size);
  s.operations.clear();
  for (const auto& name : j.at("operations"))
    s.operations.push_back(operation_of(name.get<std::string>()));
  s.memory = static_cast<memory_choice>(j.at("memory").get<unsigned>());
  j.at("cancel").get_to(s.cancel);
  j.at("reconnect").get_to(s.reconnect);
  j.at("peek").get_to(s.peek);
  j.at("claim").get_to(s.claim);
  j.at("discard").get_to(s.discard);
  j.at("multi_receive").get_to(s.multi_receive);
  j.at("ranges").get_to(s.ranges);
  j.at("counters").get_to(s.counters);
  j.at("corrupt_round").get_to(s.corrupt_round);
  s.timeout = std::chrono::seconds(j.at("timeout").get<std::int64_t>());
  j.at("provider").get_to(s.provider);
  require_valid(s);
}

}  // namespace gaudi::stress
