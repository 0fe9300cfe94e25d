// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/rdm/endpoint_cm.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>

#include "fi/common/tables.hpp"
#include "fi/rdm/endpoint.hpp"

namespace gaudi::fi {
namespace {

int get_name(fid_t f, void* addr, std::size_t* length) noexcept {
  endpoint& self = endpoint::of(f);
  if (self.parent().used_after_fork()) return -FI_EOPBADSTATE;
  const base::scoped_domain_lock lock(self.lock());
  if (!self.core().enabled()) return -FI_EOPBADSTATE;
  const proto::net_address& name = self.core().name();
  const std::size_t room = *length;
  *length = name.length();
  if (addr) std::memcpy(addr, name.raw(), std::min(room, name.length()));
  return room < name.length() ? -FI_ETOOSMALL : 0;
}

}  // namespace

fi_ops_cm endpoint_cm_ops{.size = sizeof(fi_ops_cm),
                          .setname = not_supported,
                          .getname = get_name,
                          .getpeer = not_supported,
                          .connect = not_supported,
                          .listen = not_supported,
                          .accept = not_supported,
                          .reject = not_supported,
                          .shutdown = not_supported,
                          .join = not_supported};

}  // namespace gaudi::fi
