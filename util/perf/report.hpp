// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <string>
#include <vector>

#include "endpoint.hpp"
#include "measure.hpp"
#include "options.hpp"

namespace gaudi::perf {

/// One side of a run, as it shows itself to the other.
struct side {
  std::string memory;  ///< "host" or "device"
  std::string device;  ///< "Gaudi2 0000:19:00.0", "simulated Gaudi2 ...", empty for host memory
  bool copies = true;  ///< the device, if there is one: see can_copy
  std::string provider;
  std::string domain;
};

void to_json(nlohmann::json& j, const side& s);
void from_json(const nlohmann::json& j, side& s);

side describe(endpoint& ep, memory_kind memory);

void print_table(const plan& p, const side& client, const side& server,
                 const std::vector<measurement>& results);
/// One line of names, then one for each size.
void print_csv(const plan& p, const side& client, const side& server,
               const std::vector<measurement>& results);
void print_json(const plan& p, const side& client, const side& server,
                const std::vector<measurement>& results);

}  // namespace gaudi::perf
