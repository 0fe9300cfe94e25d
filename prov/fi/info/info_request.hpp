// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fabric.h>

#include <cstdint>

#include "base/params.hpp"
#include "fi/common/provider_context.hpp"
#include "fi/info/naming.hpp"

namespace gaudi::fi {

/// What one call of fi_getinfo asks. All that it names outlives it.
struct info_request {
  std::uint32_t version;
  const fi_info* hints;  ///< may be null
  const char* node;      ///< may be null
  const char* service;   ///< may be null
  std::uint64_t flags;
  const provider_context& context;
  bool layered;  ///< the core's name is told

  [[nodiscard]] const base::params& params() const noexcept { return context.params; }
  [[nodiscard]] domain_naming naming() const noexcept {
    return layered ? domain_naming::cores : domain_naming::prefixed;
  }
};

}  // namespace gaudi::fi
