// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Atomic operations, see fi_atomic(3).
#include "fi/rdm/endpoint_atomic.hpp"

#include <rdma/fi_errno.h>

#include <array>

#include "fi/common/tables.hpp"
#include "fi/rdm/transmit.hpp"
#include "proto/operation/atomic_math.hpp"

namespace gaudi::fi {
namespace {

namespace math = proto::atomic_math;
using math::call;
using memory_result = base::result<proto::local_memory>;

/// Values at this side, as a C call names them: one array, or several.
struct values {
  const fi_ioc* ioc;
  void* const* desc;
  std::size_t ioc_count;
};

std::size_t elements(const values& v) noexcept {
  std::size_t count = 0;
  for (std::size_t i = 0; i < v.ioc_count; ++i) count += v.ioc[i].count;
  return count;
}

memory_result memory_of(endpoint& e, const values& v, std::size_t element) {
  std::array<iovec, proto::local_memory::max_segments> iov{};
  if (v.ioc_count > iov.size()) return base::error{-FI_EINVAL};
  for (std::size_t i = 0; i < v.ioc_count; ++i) iov[i] = {v.ioc[i].addr, v.ioc[i].count * element};
  return proto::local_memory::from(iov.data(), v.desc, v.ioc_count, e);
}

/// Everything but the values.
struct atomic_call {
  call group;
  fi_addr_t target;
  std::uint64_t address;
  std::uint64_t key;
  fi_datatype type;
  fi_op op;
  std::uint64_t flags;
  void* context = nullptr;
};

constexpr values none{nullptr, nullptr, 0};

std::size_t max_elements(const domain& d, fi_datatype type) noexcept {
  const std::size_t size = math::size_of(type);
  return size ? proto::atomics::limit(d.eager_size()) / size : 0;
}

/// How many elements one operation takes. -FI_EOPNOTSUPP: there is no such operation.
int valid(const domain& d, call group, fi_datatype type, fi_op op, std::size_t* count) noexcept {
  if (!count) return -FI_EINVAL;
  if (!math::is_offered(type, op, group)) return -FI_EOPNOTSUPP;
  *count = max_elements(d, type);
  return 0;
}

ssize_t atomic_on(endpoint& e, const atomic_call& a, const values& operands, const values& compares,
                  const values& results) {
  if (!math::is_offered(a.type, a.op, a.group)) return -FI_EOPNOTSUPP;
  if (e.parent().used_after_fork()) return -FI_EOPBADSTATE;
  const std::size_t count = elements(a.op == FI_ATOMIC_READ ? results : operands);
  if (count == 0 || count > max_elements(e.parent(), a.type)) return -FI_EINVAL;
  if (a.group != call::plain && elements(results) != count) return -FI_EINVAL;
  if (a.group == call::comparing && elements(compares) != count) return -FI_EINVAL;
  const std::size_t element = math::size_of(a.type);
  proto::atomic_access access;
  for (const auto& [from, to] :
       {std::pair(&operands, &access.operands), std::pair(&compares, &access.compares),
        std::pair(&results, &access.results)}) {
    if (from == &operands && a.op == FI_ATOMIC_READ) continue;
    const auto memory = memory_of(e, *from, element);
    if (!memory) return memory.code();
    *to = *memory;
  }
  access.group = a.group;
  access.target = a.target;
  access.address = a.address;
  access.key = a.key;
  access.type = a.type;
  access.op = a.op;
  access.count = count;
  access.inject = a.flags & FI_INJECT;
  const std::uint64_t kind = a.group == call::plain ? FI_WRITE : FI_READ;
  access.completion = e.tx_request(a.context, a.flags, FI_ATOMIC | kind);
  if (a.flags & silent) access.completion.report = false;
  const base::scoped_domain_lock lock(e.lock());
  if ((a.flags & FI_FENCE) && !e.core().is_quiet(a.target)) return -FI_EAGAIN;
  const int ret = e.core().atomic(access);
  e.parent().posted_to(e.core());
  return ret;
}

// The msg variants name one remote range, of as many elements as the local ones have together.
int check(const fi_msg_atomic& msg, std::size_t local) noexcept {
  if (msg.rma_iov_count != 1) return -FI_EINVAL;
  return local == 0 || msg.rma_iov[0].count == local ? 0 : -FI_EINVAL;
}

atomic_call call_of(const fi_msg_atomic& msg, call group, std::uint64_t flags) noexcept {
  return {group,  msg.addr, msg.rma_iov[0].addr, msg.rma_iov[0].key, msg.datatype,
          msg.op, flags,    msg.context};
}

ssize_t write(fid_ep* ep, const void* buf, std::size_t count, void* desc, fi_addr_t to,
              std::uint64_t addr, std::uint64_t key, fi_datatype type, fi_op op,
              void* context) noexcept {
  return guarded([&] {
    endpoint& e = endpoint::of(ep);
    const fi_ioc in{const_cast<void*>(buf), count};
    return atomic_on(e, {call::plain, to, addr, key, type, op, e.tx_flags(), context},
                     {&in, &desc, 1}, none, none);
  });
}

ssize_t writev(fid_ep* ep, const fi_ioc* ioc, void** desc, std::size_t count, fi_addr_t to,
               std::uint64_t addr, std::uint64_t key, fi_datatype type, fi_op op,
               void* context) noexcept {
  return guarded([&] {
    endpoint& e = endpoint::of(ep);
    return atomic_on(e, {call::plain, to, addr, key, type, op, e.tx_flags(), context},
                     {ioc, desc, count}, none, none);
  });
}

ssize_t writemsg(fid_ep* ep, const fi_msg_atomic* msg, std::uint64_t flags) noexcept {
  return guarded([&]() -> ssize_t {
    const values in{msg->msg_iov, msg->desc, msg->iov_count};
    if (const int ret = check(*msg, elements(in))) return ret;
    return atomic_on(endpoint::of(ep), call_of(*msg, call::plain, flags), in, none, none);
  });
}

ssize_t inject(fid_ep* ep, const void* buf, std::size_t count, fi_addr_t to, std::uint64_t addr,
               std::uint64_t key, fi_datatype type, fi_op op) noexcept {
  return guarded([&]() -> ssize_t {
    if (count * math::size_of(type) > proto::max_inject) return -FI_EINVAL;
    const fi_ioc in{const_cast<void*>(buf), count};
    return atomic_on(endpoint::of(ep), {call::plain, to, addr, key, type, op, FI_INJECT | silent},
                     {&in, nullptr, 1}, none, none);
  });
}

ssize_t readwrite(fid_ep* ep, const void* buf, std::size_t count, void* desc, void* result,
                  void* result_desc, fi_addr_t to, std::uint64_t addr, std::uint64_t key,
                  fi_datatype type, fi_op op, void* context) noexcept {
  return guarded([&] {
    endpoint& e = endpoint::of(ep);
    const fi_ioc in{const_cast<void*>(buf), count}, out{result, count};
    return atomic_on(e, {call::fetching, to, addr, key, type, op, e.tx_flags(), context},
                     {&in, &desc, 1}, none, {&out, &result_desc, 1});
  });
}

ssize_t readwritev(fid_ep* ep, const fi_ioc* ioc, void** desc, std::size_t count, fi_ioc* resultv,
                   void** result_desc, std::size_t result_count, fi_addr_t to, std::uint64_t addr,
                   std::uint64_t key, fi_datatype type, fi_op op, void* context) noexcept {
  return guarded([&] {
    endpoint& e = endpoint::of(ep);
    return atomic_on(e, {call::fetching, to, addr, key, type, op, e.tx_flags(), context},
                     {ioc, desc, count}, none, {resultv, result_desc, result_count});
  });
}

ssize_t readwritemsg(fid_ep* ep, const fi_msg_atomic* msg, fi_ioc* resultv, void** result_desc,
                     std::size_t result_count, std::uint64_t flags) noexcept {
  return guarded([&]() -> ssize_t {
    const values in{msg->msg_iov, msg->desc, msg->iov_count};
    const values out{resultv, result_desc, result_count};
    if (const int ret = check(*msg, elements(out))) return ret;
    return atomic_on(endpoint::of(ep), call_of(*msg, call::fetching, flags), in, none, out);
  });
}

ssize_t compwrite(fid_ep* ep, const void* buf, std::size_t count, void* desc, const void* compare,
                  void* compare_desc, void* result, void* result_desc, fi_addr_t to,
                  std::uint64_t addr, std::uint64_t key, fi_datatype type, fi_op op,
                  void* context) noexcept {
  return guarded([&] {
    endpoint& e = endpoint::of(ep);
    const fi_ioc in{const_cast<void*>(buf), count}, with{const_cast<void*>(compare), count},
        out{result, count};
    return atomic_on(e, {call::comparing, to, addr, key, type, op, e.tx_flags(), context},
                     {&in, &desc, 1}, {&with, &compare_desc, 1}, {&out, &result_desc, 1});
  });
}

ssize_t compwritev(fid_ep* ep, const fi_ioc* ioc, void** desc, std::size_t count,
                   const fi_ioc* comparev, void** compare_desc, std::size_t compare_count,
                   fi_ioc* resultv, void** result_desc, std::size_t result_count, fi_addr_t to,
                   std::uint64_t addr, std::uint64_t key, fi_datatype type, fi_op op,
                   void* context) noexcept {
  return guarded([&] {
    endpoint& e = endpoint::of(ep);
    return atomic_on(e, {call::comparing, to, addr, key, type, op, e.tx_flags(), context},
                     {ioc, desc, count}, {comparev, compare_desc, compare_count},
                     {resultv, result_desc, result_count});
  });
}

ssize_t compwritemsg(fid_ep* ep, const fi_msg_atomic* msg, const fi_ioc* comparev,
                     void** compare_desc, std::size_t compare_count, fi_ioc* resultv,
                     void** result_desc, std::size_t result_count, std::uint64_t flags) noexcept {
  return guarded([&]() -> ssize_t {
    const values in{msg->msg_iov, msg->desc, msg->iov_count};
    if (const int ret = check(*msg, elements(in))) return ret;
    return atomic_on(endpoint::of(ep), call_of(*msg, call::comparing, flags), in,
                     {comparev, compare_desc, compare_count}, {resultv, result_desc, result_count});
  });
}

template <call group>
int valid_on(fid_ep* ep, fi_datatype type, fi_op op, std::size_t* count) noexcept {
  return valid(endpoint::of(ep).parent(), group, type, op, count);
}

}  // namespace

int query_atomic(fid_domain* d, fi_datatype type, fi_op op, fi_atomic_attr* attr,
                 std::uint64_t flags) noexcept {
  if (!attr) return -FI_EINVAL;
  if (flags & ~(FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC | FI_TAGGED)) return -FI_EBADFLAGS;
  // Tagged atomics were an experiment of libfabric's.
  if ((flags & FI_TAGGED) || flags == (FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC)) return -FI_EINVAL;
  call group = call::plain;
  if (flags & FI_FETCH_ATOMIC) group = call::fetching;
  if (flags & FI_COMPARE_ATOMIC) group = call::comparing;
  attr->size = math::size_of(type);
  return valid(domain::of(d), group, type, op, &attr->count);
}

fi_ops_atomic endpoint_atomic_ops{.size = sizeof(fi_ops_atomic),
                                  .write = write,
                                  .writev = writev,
                                  .writemsg = writemsg,
                                  .inject = inject,
                                  .readwrite = readwrite,
                                  .readwritev = readwritev,
                                  .readwritemsg = readwritemsg,
                                  .compwrite = compwrite,
                                  .compwritev = compwritev,
                                  .compwritemsg = compwritemsg,
                                  .writevalid = valid_on<call::plain>,
                                  .readwritevalid = valid_on<call::fetching>,
                                  .compwritevalid = valid_on<call::comparing>};

}  // namespace gaudi::fi
