// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "path_reasons.hpp"

#include <cstddef>
#include <vector>

namespace gaudi::perf {
namespace {

std::vector<fi_gaudi_path_reason> ask(endpoint& ep) {
  const fi_gaudi_ops* ops = ep.find_device_ops();
  if (ops == nullptr || ops->size <= offsetof(fi_gaudi_ops, path_reasons)) return {};
  std::uint64_t count = 0;
  require(ops->path_reasons(ep.domain(), nullptr, &count), "counting the provider's reasons");
  std::vector<fi_gaudi_path_reason> found(count);
  require(ops->path_reasons(ep.domain(), found.data(), &count), "reading the provider's reasons");
  return found;
}

}  // namespace

void to_json(nlohmann::json& j, const path_reason& reason) {
  j = {{"text", reason.text}, {"transfers", reason.transfers}};
}

void from_json(const nlohmann::json& j, path_reason& reason) {
  j.at("text").get_to(reason.text);
  j.at("transfers").get_to(reason.transfers);
}

void add_reasons(path_reasons& sum, endpoint& ep) {
  path_reasons own;
  for (const fi_gaudi_path_reason& one : ask(ep)) own[one.name] = {one.text, one.transfers};
  add_reasons(sum, own);
}

void add_reasons(path_reasons& sum, const path_reasons& more) {
  for (const auto& [name, reason] : more) {
    path_reason& known = sum[name];
    known.text = reason.text;
    known.transfers += reason.transfers;
  }
}

path_reasons reasons_since(const path_reasons& before, path_reasons now) {
  for (const auto& [name, reason] : before) now[name].transfers -= reason.transfers;
  std::erase_if(now, [](const auto& one) { return one.second.transfers == 0; });
  return now;
}

std::string names_of(const path_reasons& reasons) {
  std::string names;
  for (const auto& [name, reason] : reasons) names += (names.empty() ? "" : "+") + name;
  return names;
}

}  // namespace gaudi::perf
