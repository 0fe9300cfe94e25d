// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/rdm/endpoint_tagged.hpp"

#include "fi/common/tables.hpp"
#include "fi/rdm/receive_ops.hpp"
#include "fi/rdm/transmit.hpp"

namespace gaudi::fi {
namespace {

using proto::local_memory;

using receive = receive_ops<endpoint>;

ssize_t tsend(fid_ep* ep, const void* buf, std::size_t len, void* desc, fi_addr_t to,
              std::uint64_t tag, void* context) noexcept {
  return guarded([&]() __attribute__((always_inline)) {
    endpoint& e = endpoint::of(ep);
    return send_on(
        e, local_memory::from(buf, len, desc, e),
        {.to = to, .tag = tag, .kind = FI_TAGGED, .flags = e.tx_flags(), .context = context});
  });
}

ssize_t tsendv(fid_ep* ep, const iovec* iov, void** desc, std::size_t count, fi_addr_t to,
               std::uint64_t tag, void* context) noexcept {
  return guarded([&]() __attribute__((always_inline)) {
    endpoint& e = endpoint::of(ep);
    return send_on(
        e, local_memory::from(iov, desc, count, e),
        {.to = to, .tag = tag, .kind = FI_TAGGED, .flags = e.tx_flags(), .context = context});
  });
}

ssize_t tsendmsg(fid_ep* ep, const fi_msg_tagged* msg, std::uint64_t flags) noexcept {
  return guarded([&]() __attribute__((always_inline)) {
    endpoint& e = endpoint::of(ep);
    return send_on(e, local_memory::from(msg->msg_iov, msg->desc, msg->iov_count, e),
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
  return guarded([&]() __attribute__((always_inline)) {
    endpoint& e = endpoint::of(ep);
    return send_on(e, local_memory::from(buf, len, nullptr, e),
                   {.to = to, .tag = tag, .kind = FI_TAGGED, .flags = FI_INJECT | silent});
  });
}

ssize_t tsenddata(fid_ep* ep, const void* buf, std::size_t len, void* desc, std::uint64_t data,
                  fi_addr_t to, std::uint64_t tag, void* context) noexcept {
  return guarded([&]() __attribute__((always_inline)) {
    endpoint& e = endpoint::of(ep);
    return send_on(e, local_memory::from(buf, len, desc, e),
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
  return guarded([&]() __attribute__((always_inline)) {
    endpoint& e = endpoint::of(ep);
    return send_on(e, local_memory::from(buf, len, nullptr, e),
                   {.to = to,
                    .tag = tag,
                    .data = data,
                    .kind = FI_TAGGED,
                    .flags = FI_INJECT | FI_REMOTE_CQ_DATA | silent});
  });
}

}  // namespace

fi_ops_tagged endpoint_tagged_ops{.size = sizeof(fi_ops_tagged),
                                  .recv = receive::trecv,
                                  .recvv = receive::trecvv,
                                  .recvmsg = receive::trecvmsg,
                                  .send = tsend,
                                  .sendv = tsendv,
                                  .sendmsg = tsendmsg,
                                  .inject = tinject,
                                  .senddata = tsenddata,
                                  .injectdata = tinjectdata};

fi_ops_tagged sending_tagged_ops = [] {
  fi_ops_tagged ops = endpoint_tagged_ops;
  ops.recv = not_supported;
  ops.recvv = not_supported;
  ops.recvmsg = not_supported;
  return ops;
}();

}  // namespace gaudi::fi
