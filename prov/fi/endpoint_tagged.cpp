// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/tables.hpp"
#include "fi/transmit.hpp"

namespace gaudi::fi {
namespace {

using proto::local_memory;

ssize_t trecv(fid_ep* ep, void* buf, std::size_t len, void* desc, fi_addr_t from, std::uint64_t tag,
              std::uint64_t ignore, void* context) noexcept {
  return guarded([&] {
    endpoint& e = endpoint::of(ep);
    return receive_on(e, local_memory::from(buf, len, desc),
                      {.from = from,
                       .tag = tag,
                       .ignore = ignore,
                       .kind = FI_TAGGED,
                       .flags = e.rx_flags(),
                       .context = context});
  });
}

ssize_t trecvv(fid_ep* ep, const iovec* iov, void** desc, std::size_t count, fi_addr_t from,
               std::uint64_t tag, std::uint64_t ignore, void* context) noexcept {
  return guarded([&] {
    endpoint& e = endpoint::of(ep);
    return receive_on(e, local_memory::from(iov, desc, count),
                      {.from = from,
                       .tag = tag,
                       .ignore = ignore,
                       .kind = FI_TAGGED,
                       .flags = e.rx_flags(),
                       .context = context});
  });
}

ssize_t trecvmsg(fid_ep* ep, const fi_msg_tagged* msg, std::uint64_t flags) noexcept {
  return guarded([&] {
    return receive_on(endpoint::of(ep), local_memory::from(msg->msg_iov, msg->desc, msg->iov_count),
                      {.from = msg->addr,
                       .tag = msg->tag,
                       .ignore = msg->ignore,
                       .kind = FI_TAGGED,
                       .flags = flags,
                       .context = msg->context});
  });
}

ssize_t tsend(fid_ep* ep, const void* buf, std::size_t len, void* desc, fi_addr_t to,
              std::uint64_t tag, void* context) noexcept {
  return guarded([&] {
    endpoint& e = endpoint::of(ep);
    return send_on(
        e, local_memory::from(buf, len, desc),
        {.to = to, .tag = tag, .kind = FI_TAGGED, .flags = e.tx_flags(), .context = context});
  });
}

ssize_t tsendv(fid_ep* ep, const iovec* iov, void** desc, std::size_t count, fi_addr_t to,
               std::uint64_t tag, void* context) noexcept {
  return guarded([&] {
    endpoint& e = endpoint::of(ep);
    return send_on(
        e, local_memory::from(iov, desc, count),
        {.to = to, .tag = tag, .kind = FI_TAGGED, .flags = e.tx_flags(), .context = context});
  });
}

ssize_t tsendmsg(fid_ep* ep, const fi_msg_tagged* msg, std::uint64_t flags) noexcept {
  return guarded([&] {
    return send_on(endpoint::of(ep), local_memory::from(msg->msg_iov, msg->desc, msg->iov_count),
                   {.to = msg->addr,
                    .tag = msg->tag,
                    .data = msg->data,
                    .kind = FI_TAGGED,
                    .flags = flags,
                    .context = msg->context});
  });
}

ssize_t tinject(fid_ep* ep, const void* buf, std::size_t len, fi_addr_t to,
                std::uint64_t tag) noexcept {
  return guarded([&] {
    return send_on(endpoint::of(ep), local_memory::from(buf, len, nullptr),
                   {.to = to, .tag = tag, .kind = FI_TAGGED, .flags = FI_INJECT | silent});
  });
}

ssize_t tsenddata(fid_ep* ep, const void* buf, std::size_t len, void* desc, std::uint64_t data,
                  fi_addr_t to, std::uint64_t tag, void* context) noexcept {
  return guarded([&] {
    endpoint& e = endpoint::of(ep);
    return send_on(e, local_memory::from(buf, len, desc),
                   {.to = to,
                    .tag = tag,
                    .data = data,
                    .kind = FI_TAGGED,
                    .flags = e.tx_flags() | FI_REMOTE_CQ_DATA,
                    .context = context});
  });
}

ssize_t tinjectdata(fid_ep* ep, const void* buf, std::size_t len, std::uint64_t data, fi_addr_t to,
                    std::uint64_t tag) noexcept {
  return guarded([&] {
    return send_on(endpoint::of(ep), local_memory::from(buf, len, nullptr),
                   {.to = to,
                    .tag = tag,
                    .data = data,
                    .kind = FI_TAGGED,
                    .flags = FI_INJECT | FI_REMOTE_CQ_DATA | silent});
  });
}

}  // namespace

fi_ops_tagged endpoint_tagged_ops{.size = sizeof(fi_ops_tagged),
                                  .recv = trecv,
                                  .recvv = trecvv,
                                  .recvmsg = trecvmsg,
                                  .send = tsend,
                                  .sendv = tsendv,
                                  .sendmsg = tsendmsg,
                                  .inject = tinject,
                                  .senddata = tsenddata,
                                  .injectdata = tinjectdata};

}  // namespace gaudi::fi
