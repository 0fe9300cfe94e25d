// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <rdma/fi_errno.h>

#include "base/probes.hpp"
#include "fi/self_read.hpp"
#include "fi/tables.hpp"
#include "fi/transmit.hpp"

namespace gaudi::fi {
namespace {

using proto::local_memory;

struct rma_call {
  fi_addr_t target;
  std::uint64_t address;
  std::uint64_t key;
  std::uint64_t data = 0;
  std::uint64_t flags;
  void* context = nullptr;
};

proto::rma_access access_of(endpoint& e, const rma_call& call, std::uint64_t kind) {
  proto::rma_access a;
  a.target = call.target;
  a.address = call.address;
  a.key = call.key;
  a.data = call.data;
  a.has_data = call.flags & FI_REMOTE_CQ_DATA;
  a.inject = call.flags & FI_INJECT;
  a.delivery = call.flags & FI_DELIVERY_COMPLETE;
  a.completion = e.tx_request(call.context, call.flags, FI_RMA | kind);
  if (call.flags & silent) a.completion.report = false;
  return a;
}

ssize_t write_on(endpoint& e, const base::result<local_memory>& memory, const rma_call& call) {
  if (!memory) return memory.code();
  if (e.parent().used_after_fork()) return -FI_EOPBADSTATE;
  if ((call.flags & FI_INJECT) && memory->length() > proto::max_inject) return -FI_EINVAL;
  const auto access = access_of(e, call, FI_WRITE);
  const base::scoped_domain_lock lock(e.lock());
  if ((call.flags & FI_FENCE) && !e.core().is_quiet(call.target)) return -FI_EAGAIN;
  const int ret = e.core().write(*memory, access);
  base::probes::write(call.target, call.address, memory->length(), ret);
  e.parent().posted_to(e.core());
  return ret;
}

/// Of an operation that is over.
int report(const proto::rma_access& access, int ret) {
  if (ret == 0) access.completion.end({});
  return ret;
}

ssize_t read_on(endpoint& e, const base::result<local_memory>& memory, const rma_call& call) {
  if (!memory) return memory.code();
  if (e.parent().used_after_fork()) return -FI_EOPBADSTATE;
  const auto access = access_of(e, call, FI_READ);
  const base::scoped_domain_lock lock(e.lock());
  if ((call.flags & FI_FENCE) && !e.core().is_quiet(call.target)) return -FI_EAGAIN;
  if (e.is_own_address(call.target)) [[unlikely]] {
    const auto done = read_own_region(e.parent(), *memory, call.address, call.key);
    if (done) return report(access, *done);
  }
  const int ret = e.core().read(*memory, access);
  base::probes::read(call.target, call.address, memory->length(), ret);
  e.parent().posted_to(e.core());
  return ret;
}

// Several remote ranges in one operation are not offered: rma_iov_limit is 1.
int check(const fi_msg_rma& msg, const base::result<local_memory>& memory) noexcept {
  if (msg.rma_iov_count != 1) return -FI_EINVAL;
  if (memory && memory->length() != msg.rma_iov[0].len) return -FI_EINVAL;
  return 0;
}

rma_call call_of(const fi_msg_rma& msg, std::uint64_t flags) noexcept {
  return {.target = msg.addr,
          .address = msg.rma_iov[0].addr,
          .key = msg.rma_iov[0].key,
          .data = msg.data,
          .flags = flags,
          .context = msg.context};
}

ssize_t read(fid_ep* ep, void* buf, std::size_t len, void* desc, fi_addr_t from, std::uint64_t addr,
             std::uint64_t key, void* context) noexcept {
  return guarded([&] {
    endpoint& e = endpoint::of(ep);
    return read_on(
        e, local_memory::from(buf, len, desc),
        {.target = from, .address = addr, .key = key, .flags = e.tx_flags(), .context = context});
  });
}

ssize_t readv(fid_ep* ep, const iovec* iov, void** desc, std::size_t count, fi_addr_t from,
              std::uint64_t addr, std::uint64_t key, void* context) noexcept {
  return guarded([&] {
    endpoint& e = endpoint::of(ep);
    return read_on(
        e, local_memory::from(iov, desc, count),
        {.target = from, .address = addr, .key = key, .flags = e.tx_flags(), .context = context});
  });
}

ssize_t readmsg(fid_ep* ep, const fi_msg_rma* msg, std::uint64_t flags) noexcept {
  return guarded([&]() -> ssize_t {
    const auto memory = local_memory::from(msg->msg_iov, msg->desc, msg->iov_count);
    if (const int ret = check(*msg, memory)) return ret;
    return read_on(endpoint::of(ep), memory, call_of(*msg, flags));
  });
}

ssize_t write(fid_ep* ep, const void* buf, std::size_t len, void* desc, fi_addr_t to,
              std::uint64_t addr, std::uint64_t key, void* context) noexcept {
  return guarded([&] {
    endpoint& e = endpoint::of(ep);
    return write_on(
        e, local_memory::from(buf, len, desc),
        {.target = to, .address = addr, .key = key, .flags = e.tx_flags(), .context = context});
  });
}

ssize_t writev(fid_ep* ep, const iovec* iov, void** desc, std::size_t count, fi_addr_t to,
               std::uint64_t addr, std::uint64_t key, void* context) noexcept {
  return guarded([&] {
    endpoint& e = endpoint::of(ep);
    return write_on(
        e, local_memory::from(iov, desc, count),
        {.target = to, .address = addr, .key = key, .flags = e.tx_flags(), .context = context});
  });
}

ssize_t writemsg(fid_ep* ep, const fi_msg_rma* msg, std::uint64_t flags) noexcept {
  return guarded([&]() -> ssize_t {
    const auto memory = local_memory::from(msg->msg_iov, msg->desc, msg->iov_count);
    if (const int ret = check(*msg, memory)) return ret;
    return write_on(endpoint::of(ep), memory, call_of(*msg, flags));
  });
}

ssize_t inject_write(fid_ep* ep, const void* buf, std::size_t len, fi_addr_t to, std::uint64_t addr,
                     std::uint64_t key) noexcept {
  return guarded([&] {
    return write_on(endpoint::of(ep), local_memory::from(buf, len, nullptr),
                    {.target = to, .address = addr, .key = key, .flags = FI_INJECT | silent});
  });
}

ssize_t writedata(fid_ep* ep, const void* buf, std::size_t len, void* desc, std::uint64_t data,
                  fi_addr_t to, std::uint64_t addr, std::uint64_t key, void* context) noexcept {
  return guarded([&] {
    endpoint& e = endpoint::of(ep);
    return write_on(e, local_memory::from(buf, len, desc),
                    {.target = to,
                     .address = addr,
                     .key = key,
                     .data = data,
                     .flags = e.tx_flags() | FI_REMOTE_CQ_DATA,
                     .context = context});
  });
}

ssize_t inject_writedata(fid_ep* ep, const void* buf, std::size_t len, std::uint64_t data,
                         fi_addr_t to, std::uint64_t addr, std::uint64_t key) noexcept {
  return guarded([&] {
    return write_on(endpoint::of(ep), local_memory::from(buf, len, nullptr),
                    {.target = to,
                     .address = addr,
                     .key = key,
                     .data = data,
                     .flags = FI_INJECT | FI_REMOTE_CQ_DATA | silent});
  });
}

}  // namespace

fi_ops_rma endpoint_rma_ops{.size = sizeof(fi_ops_rma),
                            .read = read,
                            .readv = readv,
                            .readmsg = readmsg,
                            .write = write,
                            .writev = writev,
                            .writemsg = writemsg,
                            .inject = inject_write,
                            .writedata = writedata,
                            .injectdata = inject_writedata};

}  // namespace gaudi::fi
