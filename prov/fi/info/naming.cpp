// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/info/naming.hpp"

#include <rdma/fi_errno.h>
#include <rdma/providers/fi_prov.h>
#include <strings.h>

#include <algorithm>
#include <utility>

namespace gaudi::fi {
namespace {

constexpr std::string_view bare_name = "ofi_gaudi";

/// As libfabric compares names.
bool is_bare_name(std::string_view name) {
  return name.size() == bare_name.size() &&
         ::strncasecmp(name.data(), bare_name.data(), name.size()) == 0;
}

bool lists_bare_name(std::string_view filter) {
  if (filter.starts_with('^')) return false;
  while (!filter.empty()) {
    const auto comma = std::min(filter.find(','), filter.size());
    if (is_bare_name(filter.substr(0, comma))) return true;
    filter.remove_prefix(std::min(comma + 1, filter.size()));
  }
  return false;
}

/// The value of FI_PROVIDER, or null.
const char* provider_filter() {
  char* filter = nullptr;
  // Without a provider the parameter is libfabric's own.
  return fi_param_get_str(nullptr, "provider", &filter) == FI_SUCCESS ? filter : nullptr;
}

}  // namespace

std::string layered_name(std::string_view core, const char* filter) {
  if (!filter || !lists_bare_name(filter)) return std::string(core);
  return std::string(bare_name).append(";").append(core);
}

// Libfabric puts our name behind one that is there.
void name_provider(fi_info& info, bool layered) {
  char*& name = info.fabric_attr->prov_name;
  if (!layered) return std::free(std::exchange(name, nullptr));
  if (name) replace(name, layered_name(name, provider_filter()));
}

}  // namespace gaudi::fi
