// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/rdm/link_events.hpp"

#include <rdma/fi_errno.h>
#include <rdma/fi_ext_gaudi.h>

#include <cstdio>
#include <span>

#include "base/log.hpp"

namespace gaudi::fi {
namespace {

fi_gaudi_link_change public_name(proto::link_change::kind what) noexcept {
  using kind = proto::link_change::kind;
  switch (what) {
    case kind::connection_lost:
      return FI_GAUDI_CONNECTION_LOST;
    case kind::connection_regained:
      return FI_GAUDI_CONNECTION_REGAINED;
    case kind::connection_given_up:
      return FI_GAUDI_CONNECTION_GIVEN_UP;
    case kind::rail_lost:
      return FI_GAUDI_RAIL_LOST;
    case kind::rail_regained:
      break;
  }
  return FI_GAUDI_RAIL_REGAINED;
}

}  // namespace

void link_events::link_changed(const proto::link_change& change) noexcept {
  if (!wanted_ || !queue_) return;
  fi_gaudi_link_event event{};
  // As the application has it, which may change it (fid::context).
  event.fid = const_cast<fid_t>(&endpoint_);
  event.context = endpoint_.context;
  event.peer = change.remote.address;
  event.change = static_cast<std::uint32_t>(public_name(change.what));
  event.rail = static_cast<std::uint32_t>(change.rail);
  event.error = change.error;
  event.moved = change.moved ? 1 : 0;
  event.outage_us = static_cast<std::uint64_t>(change.outage.count());
  event.missed = missed_;
  std::snprintf(event.peer_name, sizeof event.peer_name, "%s",
                change.remote.name.to_string().c_str());
  const int ret = queue_->offer(FI_GAUDI_LINK_EVENT, std::as_bytes(std::span(&event, 1)));
  if (ret == 0) {
    missed_ = 0;
  } else if (missed_++ == 0) {
    GAUDI_INFO(EQ, "no room for a link event (%s): later ones say how many were missed\n",
               fi_strerror(-ret));
  }
}

}  // namespace gaudi::fi
