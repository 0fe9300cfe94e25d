// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/rdm/endpoint_rma.hpp"

#include <rdma/fi_errno.h>

#include <span>

#include "base/probes.hpp"
#include "fi/common/tables.hpp"
#include "fi/info/info_offer.hpp"
#include "fi/rdm/self_read.hpp"
#include "fi/rdm/transmit.hpp"

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

[[gnu::always_inline]] inline proto::rma_access access_of(endpoint& e, const rma_call& call,
                                                          std::uint64_t kind) {
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

static_assert(offer::rma_iov_limit == proto::rma_ranges::max_ranges);

std::span<const fi_rma_iov> ranges_of(const fi_msg_rma& msg) noexcept {
  return {msg.rma_iov, msg.rma_iov_count};
}

/// Of another number than one. 0 or -FI_EINVAL.
int check_ranges(const fi_msg_rma& msg, const base::result<local_memory>& memory) noexcept {
  if (msg.rma_iov_count == 0 || msg.rma_iov_count > offer::rma_iov_limit) return -FI_EINVAL;
  std::size_t length = 0;
  for (const fi_rma_iov& r : ranges_of(msg))
    if (__builtin_add_overflow(length, r.len, &length)) return -FI_EINVAL;
  return memory && memory->length() != length ? -FI_EINVAL : 0;
}

/// Where all ranges are empty the first one says where nothing is to be done.
bool are_all_empty(const base::result<local_memory>& memory) noexcept {
  return memory && memory->length() == 0;
}

rma_call call_of(const fi_msg_rma& msg, std::uint64_t flags) noexcept {
  return {.target = msg.addr,
          .address = msg.rma_iov[0].addr,
          .key = msg.rma_iov[0].key,
          .data = msg.data,
          .flags = flags,
          .context = msg.context};
}

/// `post` has the endpoint's core begin it.
template <class Post>
[[gnu::always_inline]] inline ssize_t write_by(endpoint& e,
                                               const base::result<local_memory>& memory,
                                               const rma_call& call, Post&& post) {
  if (!memory) return memory.code();
  if (e.parent().used_after_fork()) return -FI_EOPBADSTATE;
  if ((call.flags & FI_INJECT) && memory->length() > proto::max_inject) return -FI_EINVAL;
  const auto access = access_of(e, call, FI_WRITE);
  const base::scoped_domain_lock lock(e.lock());
  if ((call.flags & FI_FENCE) && !e.core().is_quiet(call.target)) return -FI_EAGAIN;
  const int ret = post(e.core(), *memory, access);
  base::probes::write(call.target, call.address, memory->length(), ret);
  e.parent().posted_to(e.core());
  return ret;
}

// Always inlined, as are the bodies of the four calls that applications post nearly all of their
// RMA with: by each call in between registers are saved, and arguments stored and read again.
[[gnu::always_inline]] inline ssize_t write_range(endpoint& e,
                                                  const base::result<local_memory>& memory,
                                                  const rma_call& call) {
  return write_by(e, memory, call, [](auto& core, const auto& from, const auto& access) {
    return core.write(from, access);
  });
}

ssize_t write_on(endpoint& e, const base::result<local_memory>& memory, const rma_call& call) {
  return write_range(e, memory, call);
}

[[gnu::noinline]] ssize_t write_ranges(endpoint& e, const fi_msg_rma& msg, std::uint64_t flags) {
  const auto memory = local_memory::from(msg.msg_iov, msg.desc, msg.iov_count, e);
  if (const int ret = check_ranges(msg, memory)) return ret;
  const rma_call call = call_of(msg, flags);
  if (are_all_empty(memory)) return write_on(e, memory, call);
  return write_by(e, memory, call, [&](auto& core, const auto& from, const auto& access) {
    return core.access_ranges(proto::rma_ranges::direction::write, from, access, ranges_of(msg));
  });
}

/// Of an operation that is over.
int report(const proto::rma_access& access, int ret) {
  if (ret == 0) access.completion.end({});
  return ret;
}

/// `read_own` reads what is this endpoint's own and may be read only by itself (self_read.hpp).
template <class ReadOwn, class Post>
[[gnu::always_inline]] inline ssize_t read_by(endpoint& e, const base::result<local_memory>& memory,
                                              const rma_call& call, ReadOwn&& read_own,
                                              Post&& post) {
  if (!memory) return memory.code();
  if (e.parent().used_after_fork()) return -FI_EOPBADSTATE;
  const auto access = access_of(e, call, FI_READ);
  const base::scoped_domain_lock lock(e.lock());
  if ((call.flags & FI_FENCE) && !e.core().is_quiet(call.target)) return -FI_EAGAIN;
  if (e.is_own_address(call.target)) [[unlikely]] {
    const std::optional<int> done = read_own(e.parent(), *memory);
    if (done) return report(access, *done);
  }
  const int ret = post(e.core(), *memory, access);
  base::probes::read(call.target, call.address, memory->length(), ret);
  e.parent().posted_to(e.core());
  return ret;
}

[[gnu::always_inline]] inline ssize_t read_range(endpoint& e,
                                                 const base::result<local_memory>& memory,
                                                 const rma_call& call) {
  return read_by(
      e, memory, call,
      [&](domain& d, const auto& to) {
        d.lock().assert_held();
        return read_own_region(d, to, call.address, call.key);
      },
      [](auto& core, const auto& to, const auto& access) { return core.read(to, access); });
}

ssize_t read_on(endpoint& e, const base::result<local_memory>& memory, const rma_call& call) {
  return read_range(e, memory, call);
}

/// nullopt: some of them are to be read as a peer's are.
std::optional<int> read_own_regions(domain& d, const local_memory& memory,
                                    std::span<const fi_rma_iov> ranges) GAUDI_REQUIRES(d.lock()) {
  std::size_t offset = 0;
  for (const fi_rma_iov& r : ranges) {
    if (r.len == 0) continue;
    const auto done = read_own_region(d, memory.part(offset, r.len), r.addr, r.key);
    if (!done || *done != 0) return done;
    offset += r.len;
  }
  return 0;
}

[[gnu::noinline]] ssize_t read_ranges(endpoint& e, const fi_msg_rma& msg, std::uint64_t flags) {
  const auto memory = local_memory::from(msg.msg_iov, msg.desc, msg.iov_count, e);
  if (const int ret = check_ranges(msg, memory)) return ret;
  const rma_call call = call_of(msg, flags);
  if (are_all_empty(memory)) return read_on(e, memory, call);
  return read_by(
      e, memory, call,
      [&](domain& d, const auto& to) {
        d.lock().assert_held();
        return read_own_regions(d, to, ranges_of(msg));
      },
      [&](auto& core, const auto& to, const auto& access) {
        return core.access_ranges(proto::rma_ranges::direction::read, to, access, ranges_of(msg));
      });
}

ssize_t read(fid_ep* ep, void* buf, std::size_t len, void* desc, fi_addr_t from, std::uint64_t addr,
             std::uint64_t key, void* context) noexcept {
  return guarded([&]() __attribute__((always_inline)) {
    endpoint& e = endpoint::of(ep);
    return read_range(
        e, local_memory::from(buf, len, desc, e),
        {.target = from, .address = addr, .key = key, .flags = e.tx_flags(), .context = context});
  });
}

ssize_t readv(fid_ep* ep, const iovec* iov, void** desc, std::size_t count, fi_addr_t from,
              std::uint64_t addr, std::uint64_t key, void* context) noexcept {
  return guarded([&] {
    endpoint& e = endpoint::of(ep);
    return read_on(
        e, local_memory::from(iov, desc, count, e),
        {.target = from, .address = addr, .key = key, .flags = e.tx_flags(), .context = context});
  });
}

ssize_t readmsg(fid_ep* ep, const fi_msg_rma* msg, std::uint64_t flags) noexcept {
  return guarded([&]() __attribute__((always_inline))->ssize_t {
    if (msg->rma_iov_count != 1) [[unlikely]]
      return read_ranges(endpoint::of(ep), *msg, flags);
    endpoint& e = endpoint::of(ep);
    const auto memory = local_memory::from(msg->msg_iov, msg->desc, msg->iov_count, e);
    if (memory && memory->length() != msg->rma_iov[0].len) return -FI_EINVAL;
    return read_range(e, memory, call_of(*msg, flags));
  });
}

ssize_t write(fid_ep* ep, const void* buf, std::size_t len, void* desc, fi_addr_t to,
              std::uint64_t addr, std::uint64_t key, void* context) noexcept {
  return guarded([&]() __attribute__((always_inline)) {
    endpoint& e = endpoint::of(ep);
    return write_range(
        e, local_memory::from(buf, len, desc, e),
        {.target = to, .address = addr, .key = key, .flags = e.tx_flags(), .context = context});
  });
}

ssize_t writev(fid_ep* ep, const iovec* iov, void** desc, std::size_t count, fi_addr_t to,
               std::uint64_t addr, std::uint64_t key, void* context) noexcept {
  return guarded([&] {
    endpoint& e = endpoint::of(ep);
    return write_on(
        e, local_memory::from(iov, desc, count, e),
        {.target = to, .address = addr, .key = key, .flags = e.tx_flags(), .context = context});
  });
}

ssize_t writemsg(fid_ep* ep, const fi_msg_rma* msg, std::uint64_t flags) noexcept {
  return guarded([&]() __attribute__((always_inline))->ssize_t {
    if (msg->rma_iov_count != 1) [[unlikely]]
      return write_ranges(endpoint::of(ep), *msg, flags);
    endpoint& e = endpoint::of(ep);
    const auto memory = local_memory::from(msg->msg_iov, msg->desc, msg->iov_count, e);
    if (memory && memory->length() != msg->rma_iov[0].len) return -FI_EINVAL;
    return write_range(e, memory, call_of(*msg, flags));
  });
}

ssize_t inject_write(fid_ep* ep, const void* buf, std::size_t len, fi_addr_t to, std::uint64_t addr,
                     std::uint64_t key) noexcept {
  return guarded([&] {
    endpoint& e = endpoint::of(ep);
    return write_on(e, local_memory::from(buf, len, nullptr, e),
                    {.target = to, .address = addr, .key = key, .flags = FI_INJECT | silent});
  });
}

ssize_t writedata(fid_ep* ep, const void* buf, std::size_t len, void* desc, std::uint64_t data,
                  fi_addr_t to, std::uint64_t addr, std::uint64_t key, void* context) noexcept {
  return guarded([&] {
    endpoint& e = endpoint::of(ep);
    return write_on(e, local_memory::from(buf, len, desc, e),
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
    endpoint& e = endpoint::of(ep);
    return write_on(e, local_memory::from(buf, len, nullptr, e),
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
