// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What libfabric finds when it loads libofi_gaudi-fi.so: the same provider under a name that says
// what it stands on, "verbs;ofi_gaudi" or "tcp;ofi_gaudi". HCL takes no other.
#include <rdma/fabric.h>
#include <rdma/providers/fi_prov.h>

#include "base/log.hpp"
#include "base/params.hpp"
#include "fi/getinfo.hpp"
#include "fi/open_fabric.hpp"

namespace {

/// See gaudi_entry.cpp.
void cleanup() noexcept {}

fi_provider layered_provider{.version = FI_VERSION(GAUDI_VERSION_MAJOR, GAUDI_VERSION_MINOR),
                             .fi_version = 0,
                             .context = {},
                             .name = "ofi_gaudi",
                             .getinfo = gaudi::fi::getinfo_layered,
                             .fabric = gaudi::fi::fabric_open,
                             .cleanup = cleanup};

}  // namespace

extern "C" FI_EXT_INI {
  layered_provider.fi_version = fi_version();
  // Logs and parameters keep their name, FI_GAUDI_*, whichever library is in use.
  gaudi::base::provider().version = layered_provider.version;
  gaudi::base::define_params();
  return &layered_provider;
}
