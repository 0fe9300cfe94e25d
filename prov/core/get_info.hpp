// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fabric.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/params.hpp"
#include "base/result.hpp"
#include "core/fid.hpp"

namespace gaudi::core {

/// libfabric's private flag bits for fi_getinfo, with the same values in every release from 1.17
/// to 2.6. They are no part of its interface; this file is the only place that knows them.
///
/// only_core_providers: util providers (ofi_rxm, ...) ask with it for something to layer over, and
/// are not asked themselves. include_hidden: providers that FI_PROVIDER filters out answer too, as
/// the core provider below FI_PROVIDER=gaudi must.
inline constexpr std::uint64_t only_core_providers = 1ULL << 59;
inline constexpr std::uint64_t include_hidden = 1ULL << 60;

/// What is asked of the core provider. The views must outlive the call.
struct query {
  const char* node = nullptr;     ///< as in fi_getinfo(3)
  const char* service = nullptr;  ///< as in fi_getinfo(3)
  std::uint64_t flags = 0;        ///< FI_SOURCE and FI_NUMERICHOST are passed on
  std::uint32_t addr_format = FI_FORMAT_UNSPEC;
  std::span<const std::byte> src_addr{};
  std::span<const std::byte> dest_addr{};
  std::string fabric_name{};            ///< only this fabric; empty: any
  std::string domain_name{};            ///< only this domain of the core provider; empty: any
  std::span<const std::string> nics{};  ///< only domains of these names; empty: any
  base::core_choice core = base::core_choice::automatic;
  bool rdma_present = false;  ///< automatic asks verbs first only where an RDMA device exists
};

/// The core provider's FI_EP_MSG infos for `q`, at least one, in the core provider's order. They
/// are opened for FI_THREAD_DOMAIN and manual progress. -FI_ENODATA: nothing matches, or a warning
/// has told that the core or the NICs that the user chose are missing. Any thread; not from
/// fi_prov_ini, where libfabric holds the lock that fi_getinfo takes.
base::result<unique_info> get_info(const query& q);

/// `list` without the entries of Gaudis' own network ports, which libfabric's verbs provider lists
/// like any RDMA device; null where nothing is left.
unique_info without_gaudi_ports(unique_info list);

/// The other facts of a question whose hints are an application's.
struct passed_on {
  std::uint32_t version;  ///< of the application's interface
  const char* node;
  const char* service;
  std::uint64_t flags;
  std::span<const std::string> nics;  ///< as in query
  base::core_choice core;
  bool rdma_present;
};

/// The core provider's answer to hints of an application's, which name FI_EP_MSG and no provider;
/// that is filled in. The rest as get_info.
base::result<unique_info> get_info_as_asked(const passed_on& q, fi_info& hints);

/// True while this thread is inside get_info: libfabric then asks every provider, so also this one,
/// which must decline.
bool inside_get_info() noexcept;

}  // namespace gaudi::core
