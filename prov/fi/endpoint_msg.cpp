// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/tables.hpp"
#include "fi/transmit.hpp"

namespace gaudi::fi {
namespace {

using proto::local_memory;

ssize_t recv(fid_ep* ep, void* buf, std::size_t len, void* desc, fi_addr_t from,
             void* context) noexcept {
  return guarded([&] {
    endpoint& e = endpoint::of(ep);
    return receive_on(e, local_memory::from(buf, len, desc),
                      {.from = from, .kind = FI_MSG, .flags = e.rx_flags(), .context = context});
  });
}

ssize_t recvv(fid_ep* ep, const iovec* iov, void** desc, std::size_t count, fi_addr_t from,
              void* context) noexcept {
  return guarded([&] {
    endpoint& e = endpoint::of(ep);
    return receive_on(e, local_memory::from(iov, desc, count),
                      {.from = from, .kind = FI_MSG, .flags = e.rx_flags(), .context = context});
  });
}

ssize_t recvmsg(fid_ep* ep, const fi_msg* msg, std::uint64_t flags) noexcept {
  return guarded([&] {
    return receive_on(endpoint::of(ep), local_memory::from(msg->msg_iov, msg->desc, msg->iov_count),
                      {.from = msg->addr, .kind = FI_MSG, .flags = flags, .context = msg->context});
  });
}

ssize_t send(fid_ep* ep, const void* buf, std::size_t len, void* desc, fi_addr_t to,
             void* context) noexcept {
  return guarded([&] {
    endpoint& e = endpoint::of(ep);
    return send_on(e, local_memory::from(buf, len, desc),
                   {.to = to, .kind = FI_MSG, .flags = e.tx_flags(), .context = context});
  });
}

ssize_t sendv(fid_ep* ep, const iovec* iov, void** desc, std::size_t count, fi_addr_t to,
              void* context) noexcept {
  return guarded([&] {
    endpoint& e = endpoint::of(ep);
    return send_on(e, local_memory::from(iov, desc, count),
                   {.to = to, .kind = FI_MSG, .flags = e.tx_flags(), .context = context});
  });
}

ssize_t sendmsg(fid_ep* ep, const fi_msg* msg, std::uint64_t flags) noexcept {
  return guarded([&] {
    return send_on(endpoint::of(ep), local_memory::from(msg->msg_iov, msg->desc, msg->iov_count),
                   {.to = msg->addr,
                    .data = msg->data,
                    .kind = FI_MSG,
                    .flags = flags,
                    .context = msg->context});
  });
}

ssize_t inject(fid_ep* ep, const void* buf, std::size_t len, fi_addr_t to) noexcept {
  return guarded([&] {
    return send_on(endpoint::of(ep), local_memory::from(buf, len, nullptr),
                   {.to = to, .kind = FI_MSG, .flags = FI_INJECT | silent});
  });
}

ssize_t senddata(fid_ep* ep, const void* buf, std::size_t len, void* desc, std::uint64_t data,
                 fi_addr_t to, void* context) noexcept {
  return guarded([&] {
    endpoint& e = endpoint::of(ep);
    return send_on(e, local_memory::from(buf, len, desc),
                   {.to = to,
                    .data = data,
                    .kind = FI_MSG,
                    .flags = e.tx_flags() | FI_REMOTE_CQ_DATA,
                    .context = context});
  });
}

ssize_t injectdata(fid_ep* ep, const void* buf, std::size_t len, std::uint64_t data,
                   fi_addr_t to) noexcept {
  return guarded([&] {
    return send_on(
        endpoint::of(ep), local_memory::from(buf, len, nullptr),
        {.to = to, .data = data, .kind = FI_MSG, .flags = FI_INJECT | FI_REMOTE_CQ_DATA | silent});
  });
}

}  // namespace

fi_ops_msg endpoint_msg_ops{.size = sizeof(fi_ops_msg),
                            .recv = recv,
                            .recvv = recvv,
                            .recvmsg = recvmsg,
                            .send = send,
                            .sendv = sendv,
                            .sendmsg = sendmsg,
                            .inject = inject,
                            .senddata = senddata,
                            .injectdata = injectdata};

}  // namespace gaudi::fi
