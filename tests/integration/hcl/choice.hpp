// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Which of libfabric's entries HCL takes. Follows HCL 1.21.0, hcl/src/libfabric/hl_ofi.cpp; the
// functions are named at each step.
#pragma once

#include <optional>
#include <string>

#include "../node.hpp"

namespace gaudi::test::hcl {

/// ofi_t::CORE_PROVIDER.
enum class core_provider { verbs, tcp };

/// The process's configuration, as HCL's environment variables have it.
struct configuration {
  bool gaudi_direct = false;                                     ///< HCCL_GAUDI_DIRECT
  std::string socket_ifname;                                     ///< HCCL_SOCKET_IFNAME
  std::string tcp_exclude_if = "^(lo|docker0|tunl0|virbr\\d)$";  ///< HCL_HNIC_TCP_EXCLUDE_IF
  std::string verbs_exclude_if;                                  ///< HCL_HNIC_VERBS_EXCLUDE_IF
  int module_id = 0;                                             ///< of the Gaudi
};

/// What ofi_t keeps of its choice.
struct choice {
  info_ptr all;  ///< fi_getinfo's list, which HCL keeps open until ofi_t ends
  fi_info* info = nullptr;
  core_provider core{};
  bool mr_local = false;  ///< ofi_t::isMRLocal: memory is registered only then
};

/// get_hints().
info_ptr hints(bool gaudi_direct);

/// ofi_t::get_core_provider(): by what the name holds.
std::optional<core_provider> core_of(const std::string& provider_name);

/// ofi_t::get_ofi_provider() and what init() makes of it. Nothing: HCL does not start.
std::optional<choice> choose(const configuration& how);

}  // namespace gaudi::test::hcl
