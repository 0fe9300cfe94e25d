// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_endpoint.h>
#include <rdma/fi_tagged.h>

#include "fi/common/guard.hpp"
#include "fi/rdm/domain.hpp"
#include "proto/match/receive_context.hpp"

namespace gaudi::fi {

/// One receive of whatever kind, as the C call said it.
struct receive_call {
  fi_addr_t from;
  std::uint64_t tag = 0;
  std::uint64_t ignore = 0;
  std::uint64_t kind;   // FI_MSG or FI_TAGGED
  std::uint64_t flags;  // FI_COMPLETION, FI_PEEK, FI_CLAIM, FI_DISCARD
  void* context = nullptr;
};

/// FI_PEEK, FI_CLAIM, FI_DISCARD, FI_MULTI_RECV.
template <class Target>
[[gnu::noinline]] int receive_specially(Target& to, const proto::local_memory& memory,
                                        const proto::recv_params& params, std::uint64_t flags)
    GAUDI_REQUIRES(to.parent().lock()) {
  proto::receive_context& receives = to.receives();
  const bool claim = flags & FI_CLAIM;
  const bool discard = flags & FI_DISCARD;
  if (flags & FI_PEEK) {
    to.progress();
    return receives.peek(params, claim, discard);
  }
  if (discard && !claim) return -FI_EINVAL;
  const bool many = (flags & FI_MULTI_RECV) && !params.tagged;
  const int ret = claim  ? receives.receive_claimed(memory, params, discard)
                  : many ? receives.receive_many(memory, params)
                         : receives.receive(memory, params);
  to.posted();
  return ret;
}

/// `Target` is what is posted to: an endpoint, or a receive context that endpoints share. Always
/// inlined, as guarded() is.
template <class Target>
[[gnu::always_inline]] inline ssize_t receive_on(Target& to,
                                                 const base::result<proto::local_memory>& memory,
                                                 const receive_call& call) {
  if (!memory) return memory.code();
  if (to.parent().used_after_fork()) return -FI_EOPBADSTATE;
  const proto::recv_params params{
      .from = call.from,
      .tag = call.tag,
      .ignore = call.ignore,
      .tagged = (call.kind & FI_TAGGED) != 0,
      .completion = to.rx_request(call.context, call.flags, call.kind | FI_RECV)};
  const base::scoped_domain_lock lock(to.parent().lock());
  constexpr std::uint64_t special = FI_PEEK | FI_CLAIM | FI_DISCARD | FI_MULTI_RECV;
  if (call.flags & special) [[unlikely]]
    return receive_specially(to, *memory, params, call.flags);
  const int ret = to.receives().receive(*memory, params);
  to.posted();
  return ret;
}

/// The entries of fi_ops_msg and fi_ops_tagged that receive.
template <class Target>
struct receive_ops {
  using local_memory = proto::local_memory;

  static ssize_t recv(fid_ep* ep, void* buf, std::size_t len, void* desc, fi_addr_t from,
                      void* context) noexcept {
    return guarded([&]() __attribute__((always_inline)) {
      Target& to = Target::of(ep);
      return receive_on(to, local_memory::from(buf, len, desc, to),
                        {.from = from, .kind = FI_MSG, .flags = to.rx_flags(), .context = context});
    });
  }

  static ssize_t recvv(fid_ep* ep, const iovec* iov, void** desc, std::size_t count, fi_addr_t from,
                       void* context) noexcept {
    return guarded([&]() __attribute__((always_inline)) {
      Target& to = Target::of(ep);
      return receive_on(to, local_memory::from(iov, desc, count, to),
                        {.from = from, .kind = FI_MSG, .flags = to.rx_flags(), .context = context});
    });
  }

  static ssize_t recvmsg(fid_ep* ep, const fi_msg* msg, std::uint64_t flags) noexcept {
    return guarded([&]() __attribute__((always_inline)) {
      Target& to = Target::of(ep);
      return receive_on(
          to, local_memory::from(msg->msg_iov, msg->desc, msg->iov_count, to),
          {.from = msg->addr, .kind = FI_MSG, .flags = flags, .context = msg->context});
    });
  }

  static ssize_t trecv(fid_ep* ep, void* buf, std::size_t len, void* desc, fi_addr_t from,
                       std::uint64_t tag, std::uint64_t ignore, void* context) noexcept {
    return guarded([&]() __attribute__((always_inline)) {
      Target& to = Target::of(ep);
      return receive_on(to, local_memory::from(buf, len, desc, to),
                        {.from = from,
                         .tag = tag,
                         .ignore = ignore,
                         .kind = FI_TAGGED,
                         .flags = to.rx_flags(),
                         .context = context});
    });
  }

  static ssize_t trecvv(fid_ep* ep, const iovec* iov, void** desc, std::size_t count,
                        fi_addr_t from, std::uint64_t tag, std::uint64_t ignore,
                        void* context) noexcept {
    return guarded([&]() __attribute__((always_inline)) {
      Target& to = Target::of(ep);
      return receive_on(to, local_memory::from(iov, desc, count, to),
                        {.from = from,
                         .tag = tag,
                         .ignore = ignore,
                         .kind = FI_TAGGED,
                         .flags = to.rx_flags(),
                         .context = context});
    });
  }

  static ssize_t trecvmsg(fid_ep* ep, const fi_msg_tagged* msg, std::uint64_t flags) noexcept {
    return guarded([&]() __attribute__((always_inline)) {
      Target& to = Target::of(ep);
      return receive_on(to, local_memory::from(msg->msg_iov, msg->desc, msg->iov_count, to),
                        {.from = msg->addr,
                         .tag = msg->tag,
                         .ignore = msg->ignore,
                         .kind = FI_TAGGED,
                         .flags = flags,
                         .context = msg->context});
    });
  }
};

}  // namespace gaudi::fi
