// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "arena.hpp"
#include "endpoint.hpp"
#include "plan.hpp"
#include "settings.hpp"

namespace gaudi::stress {

/// What a worker tells the others of itself.
struct introduction {
  std::vector<std::uint8_t> name;
  member facts;
  bool simulated = false;  ///< its device
  int index = -1;          ///< that the driver numbers it by
  std::array<remote_memory, kinds.size()> memory{};
};

void to_json(nlohmann::json& j, const introduction& i);
void from_json(const nlohmann::json& j, introduction& i);

/// All that a worker has opened: an endpoint and its memory.
class station {
 public:
  /// device: the number of the Gaudi that is the worker's, if there are so many.
  station(const settings& s, const std::string& source, int device);
  station(const station&) = delete;
  station& operator=(const station&) = delete;
  /// Also in the middle of operations, which end with the endpoint.
  ~station();

  /// Has other registrations of its memory in place of those that it introduced.
  void renew();

  endpoint& ep() { return *endpoint_; }
  const introduction& self() const { return self_; }
  bool has(memory_kind kind) const { return arenas_[index_of(kind)] != nullptr; }
  arena& memory(memory_kind kind) { return *arenas_[index_of(kind)]; }

 private:
  bool open(const settings& s, const std::string& source, bool with_device, int device);
  void introduce();

  introduction self_;
  // In the order of opening; the destructor closes them in reverse.
  std::unique_ptr<endpoint> endpoint_;
  std::array<std::unique_ptr<arena>, kinds.size()> arenas_;
};

}  // namespace gaudi::stress
