// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "station.hpp"

#include "common/failure.hpp"

namespace gaudi::stress {

void to_json(nlohmann::json& j, const introduction& i) {
  j = {{"name", i.name},           {"device", i.facts.device}, {"inject", i.facts.inject},
       {"simulated", i.simulated}, {"index", i.index},         {"memory", nlohmann::json::array()}};
  for (const remote_memory& m : i.memory) j["memory"].push_back({m.address, m.key});
}

void from_json(const nlohmann::json& j, introduction& i) {
  j.at("name").get_to(i.name);
  j.at("device").get_to(i.facts.device);
  j.at("inject").get_to(i.facts.inject);
  j.at("simulated").get_to(i.simulated);
  j.at("index").get_to(i.index);
  for (std::size_t k = 0; k < i.memory.size(); ++k)
    i.memory.at(k) = {j.at("memory").at(k).at(0), j.at("memory").at(k).at(1)};
}

// With mixed memory a worker that has no Gaudi of its own does without.
station::station(const settings& s, const std::string& source, int device) {
  if (s.memory == memory_choice::host || !open(s, source, true, device))
    open(s, source, false, device);
  introduce();
}

station::~station() {
  endpoint_->close();  // before its memory
}

void station::renew() {
  for (const auto& one : arenas_)
    if (one) one->renew();
  introduce();
}

bool station::open(const settings& s, const std::string& source, bool with_device, int device) {
  const std::size_t capacity = capacity_for(s);
  const auto add = [&](memory_kind kind) {
    arenas_.at(index_of(kind)) = std::make_unique<arena>(*endpoint_, kind, capacity, device);
  };
  try {
    endpoint_ = std::make_unique<endpoint>(s, with_device, source);
    add(memory_kind::host);
    if (with_device) add(memory_kind::device);
    return true;
  } catch (const common::failure&) {
    arenas_ = {};
    if (!with_device || s.memory == memory_choice::device) throw;
    return false;
  }
}

void station::introduce() {
  self_.name = endpoint_->name();
  self_.facts = {.device = has(memory_kind::device),
                 .inject = endpoint_->info().tx_attr->inject_size};
  for (const memory_kind kind : kinds)
    if (has(kind)) self_.memory.at(index_of(kind)) = memory(kind).remote();
  if (!self_.facts.device) return;
  fi_gaudi_device_attr attr{};
  common::require(
      common::find_device_ops(endpoint_->domain())->query_device(endpoint_->domain(), &attr),
      "query_device");
  self_.simulated = attr.simulated != 0;
  self_.index = attr.index;
}

}  // namespace gaudi::stress
