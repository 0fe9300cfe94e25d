// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/rdm/endpoint_msg.hpp"

#include "fi/common/tables.hpp"
#include "fi/rdm/receive_ops.hpp"
#include "fi/rdm/transmit.hpp"

namespace gaudi::fi {
namespace {

using proto::local_memory;

using receive = receive_ops<endpoint>;

ssize_t send(fid_ep* ep, const void* buf, std::size_t len, void* desc, fi_addr_t to,
             void* context) noexcept {
  return guarded([&]() __attribute__((always_inline)) {
    endpoint& e = endpoint::of(ep);
    return send_on(e, local_memory::from(buf, len, desc, e),
                   {.to = to, .kind = FI_MSG, .flags = e.tx_flags(), .context = context});
  });
}

ssize_t sendv(fid_ep* ep, const iovec* iov, void** desc, std::size_t count, fi_addr_t to,
              void* context) noexcept {
  return guarded([&]() __attribute__((always_inline)) {
    endpoint& e = endpoint::of(ep);
    return send_on(e, local_memory::from(iov, desc, count, e),
                   {.to = to, .kind = FI_MSG, .flags = e.tx_flags(), .context = context});
  });
}

ssize_t sendmsg(fid_ep* ep, const fi_msg* msg, std::uint64_t flags) noexcept {
  return guarded([&]() __attribute__((always_inline)) {
    endpoint& e = endpoint::of(ep);
    return send_on(e, local_memory::from(msg->msg_iov, msg->desc, msg->iov_count, e),
                   {.to = msg->addr,
                    .data = msg->data,
                    .kind = FI_MSG,
                    .flags = flags,
                    .context = msg->context});
  });
}

ssize_t inject(fid_ep* ep, const void* buf, std::size_t len, fi_addr_t to) noexcept {
  return guarded([&]() __attribute__((always_inline)) {
    endpoint& e = endpoint::of(ep);
    return send_on(e, local_memory::from(buf, len, nullptr, e),
                   {.to = to, .kind = FI_MSG, .flags = FI_INJECT | silent});
  });
}

ssize_t senddata(fid_ep* ep, const void* buf, std::size_t len, void* desc, std::uint64_t data,
                 fi_addr_t to, void* context) noexcept {
  return guarded([&]() __attribute__((always_inline)) {
    endpoint& e = endpoint::of(ep);
    return send_on(e, local_memory::from(buf, len, desc, e),
                   {.to = to,
                    .data = data,
                    .kind = FI_MSG,
                    .flags = e.tx_flags() | FI_REMOTE_CQ_DATA,
                    .context = context});
  });
}

ssize_t injectdata(fid_ep* ep, const void* buf, std::size_t len, std::uint64_t data,
                   fi_addr_t to) noexcept {
  return guarded([&]() __attribute__((always_inline)) {
    endpoint& e = endpoint::of(ep);
    return send_on(
        e, local_memory::from(buf, len, nullptr, e),
        {.to = to, .data = data, .kind = FI_MSG, .flags = FI_INJECT | FI_REMOTE_CQ_DATA | silent});
  });
}

}  // namespace

fi_ops_msg endpoint_msg_ops{.size = sizeof(fi_ops_msg),
                            .recv = receive::recv,
                            .recvv = receive::recvv,
                            .recvmsg = receive::recvmsg,
                            .send = send,
                            .sendv = sendv,
                            .sendmsg = sendmsg,
                            .inject = inject,
                            .senddata = senddata,
                            .injectdata = injectdata};

fi_ops_msg sending_msg_ops = [] {
  fi_ops_msg ops = endpoint_msg_ops;
  ops.recv = not_supported;
  ops.recvv = not_supported;
  ops.recvmsg = not_supported;
  return ops;
}();

}  // namespace gaudi::fi
