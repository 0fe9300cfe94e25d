// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

namespace gaudi::fi {

/// A domain is named after the core's: "gaudi-" + "eth0".
inline constexpr std::string_view domain_prefix = "gaudi-";

/// The core's domain name under one of ours; empty when it is none.
inline std::string_view core_domain_name(std::string_view name) {
  if (!name.starts_with(domain_prefix)) return {};
  return name.substr(domain_prefix.size());
}

/// Replaces a text of a fi_info, which fi_freeinfo frees with free().
inline void replace(char*& text, const std::string& value) {
  std::free(text);
  text = ::strdup(value.c_str());
}

}  // namespace gaudi::fi
