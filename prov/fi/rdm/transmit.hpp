// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_endpoint.h>

#include "base/probes.hpp"
#include "fi/common/guard.hpp"
#include "fi/rdm/endpoint.hpp"

namespace gaudi::fi {

/// One send of whatever kind, as the C call said it.
struct send_call {
  fi_addr_t to;
  std::uint64_t tag = 0;
  std::uint64_t data = 0;
  std::uint64_t kind;   // FI_MSG or FI_TAGGED
  std::uint64_t flags;  // FI_COMPLETION, FI_INJECT, FI_REMOTE_CQ_DATA, FI_DELIVERY_COMPLETE ...
  void* context = nullptr;
};

/// An injected operation never reports success (fi_endpoint(3)).
inline constexpr std::uint64_t silent = std::uint64_t{1} << 63;

/// Always inlined, as guarded() is.
[[gnu::always_inline]] inline ssize_t send_on(endpoint& e,
                                              const base::result<proto::local_memory>& memory,
                                              const send_call& call) {
  if (!memory) return memory.code();
  if (e.parent().used_after_fork()) return -FI_EOPBADSTATE;
  if ((call.flags & FI_INJECT) && memory->length() > proto::max_inject) return -FI_EINVAL;
  const std::uint8_t wire_flags = ((call.kind & FI_TAGGED) ? proto::wire::tagged : 0) |
                                  ((call.flags & FI_REMOTE_CQ_DATA) ? proto::wire::cq_data : 0);
  proto::send_params message{
      .to = call.to,
      .tag = call.tag,
      .data = call.data,
      .wire_flags = wire_flags,
      .inject = (call.flags & FI_INJECT) != 0,
      .transmit = (call.flags & FI_TRANSMIT_COMPLETE) != 0,
      .delivery = (call.flags & FI_DELIVERY_COMPLETE) != 0,
      .completion = e.tx_request(call.context, call.flags, call.kind | FI_SEND)};
  if (call.flags & silent) message.completion.report = false;
  const base::scoped_domain_lock lock(e.lock());
  if ((call.flags & FI_FENCE) && !e.core().is_quiet(call.to)) return -FI_EAGAIN;
  const int ret = e.core().send(*memory, message);
  base::probes::send(call.to, call.tag, memory->length(), ret);
  e.parent().posted_to(e.core());
  return ret;
}

}  // namespace gaudi::fi
