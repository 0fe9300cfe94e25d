// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What libfabric finds when it loads libgaudi-fi.so, see fi_provider(7).
#include <rdma/fabric.h>
#include <rdma/providers/fi_prov.h>

#include "base/log.hpp"
#include "base/params.hpp"
#include "fi/getinfo.hpp"
#include "fi/open_fabric.hpp"

namespace {

/// libfabric runs this with its own lock held while it unloads, so no call into it is allowed here;
/// all objects are the application's to close.
void cleanup() noexcept {}

/// libfabric writes into it, so it is neither const nor temporary.
fi_provider gaudi_provider{.version = FI_VERSION(GAUDI_VERSION_MAJOR, GAUDI_VERSION_MINOR),
                           .fi_version = 0,
                           .context = {},
                           .name = "gaudi",
                           .getinfo = gaudi::fi::getinfo,
                           .fabric = gaudi::fi::fabric_open,
                           .cleanup = cleanup};

}  // namespace

/// libfabric holds a lock that is not recursive while this runs: fi_getinfo or fi_fabric here would
/// hang. The version is the running library's: a provider of a lower one than an application asks
/// for is skipped.
extern "C" FI_EXT_INI {
  gaudi_provider.fi_version = fi_version();
  gaudi::base::set_provider(gaudi_provider);
  gaudi::base::define_params();
  return &gaudi_provider;
}
