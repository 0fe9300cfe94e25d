// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "path.hpp"

#include <array>
#include <cstddef>
#include <utility>

namespace gaudi::perf {

path_bytes& path_bytes::operator+=(const path_bytes& other) {
  eager += other.eager;
  direct += other.direct;
  cma += other.cma;
  staged += other.staged;
  return *this;
}

path_bytes path_bytes::operator-(const path_bytes& other) const {
  return {eager - other.eager, direct - other.direct, cma - other.cma, staged - other.staged};
}

void to_json(nlohmann::json& j, const path_bytes& bytes) {
  j = {bytes.eager, bytes.direct, bytes.cma, bytes.staged};
}

void from_json(const nlohmann::json& j, path_bytes& bytes) {
  j.at(0).get_to(bytes.eager);
  j.at(1).get_to(bytes.direct);
  j.at(2).get_to(bytes.cma);
  j.at(3).get_to(bytes.staged);
}

path_bytes count_paths(endpoint& ep) {
  const fi_gaudi_ops* ops = ep.find_device_ops();
  if (ops == nullptr || ops->size <= offsetof(fi_gaudi_ops, path_stats)) return {};
  fi_gaudi_path_stats stats{};
  require(ops->path_stats(ep.domain(), &stats), "reading the provider's counters");
  return {stats.eager_bytes, stats.direct_bytes, stats.cma_bytes, stats.staged_bytes};
}

std::string path_of(const path_bytes& bytes) {
  const std::array ways{std::pair{bytes.eager, "eager"}, std::pair{bytes.direct, "zero-copy"},
                        std::pair{bytes.cma, "cma"}, std::pair{bytes.staged, "staged"}};
  const std::uint64_t total = bytes.eager + bytes.direct + bytes.cma + bytes.staged;
  std::string text;
  for (const auto& [count, name] : ways) {
    if (count == 0 || count < total / 100) continue;
    if (!text.empty()) text += '+';
    text += name;
  }
  return text;
}

}  // namespace gaudi::perf
