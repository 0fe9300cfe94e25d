// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

#include "base/cancellation_deferred.hpp"

namespace gaudi::base {

/// The fi_provider that log lines and parameters belong to. It is set once, in fi_prov_ini, before
/// any other call; unit tests run with the default, an unregistered provider of the same name.
fi_provider& provider() noexcept;

/// Makes `p` the provider of all later log lines. `p` has static storage duration.
void set_provider(fi_provider& p) noexcept;

}  // namespace gaudi::base

// Logging through libfabric, so that FI_LOG_LEVEL, FI_LOG_PROV and FI_LOG_SUBSYS apply. `subsys` is
// the tail of FI_LOG_<subsys>. warn: the user must act; info: a decision, once; debug: anything.
#define GAUDI_LOG(level, subsys, ...)                                          \
  do {                                                                         \
    if (fi_log_enabled(&::gaudi::base::provider(), level, FI_LOG_##subsys)) {  \
      const ::gaudi::base::cancellation_deferred until_it_is_said;             \
      FI_LOG(&::gaudi::base::provider(), level, FI_LOG_##subsys, __VA_ARGS__); \
    }                                                                          \
  } while (false)
#define GAUDI_WARN(subsys, ...) GAUDI_LOG(FI_LOG_WARN, subsys, __VA_ARGS__)
#define GAUDI_INFO(subsys, ...) GAUDI_LOG(FI_LOG_INFO, subsys, __VA_ARGS__)
#define GAUDI_DEBUG(subsys, ...) GAUDI_LOG(FI_LOG_DEBUG, subsys, __VA_ARGS__)
