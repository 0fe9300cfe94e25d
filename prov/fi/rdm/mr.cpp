// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/rdm/mr.hpp"

#include <rdma/fi_errno.h>

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "base/log.hpp"
#include "fi/common/device_region.hpp"
#include "fi/common/guard.hpp"
#include "fi/rdm/cntr.hpp"
#include "fi/rdm/domain.hpp"
#include "fi/rdm/memory_region.hpp"
#include "proto/endpoint.hpp"

namespace gaudi::fi {
namespace {

int close_region(fid_t f) noexcept {
  auto& self = *static_cast<memory_region*>(reinterpret_cast<fid_mr*>(f));
  domain& d = self.parent;
  if (d.used_after_fork()) return 0;
  const base::scoped_domain_lock lock(d.lock());
  // A peer may be in the middle of reading or writing it.
  for (proto::endpoint* e : d.endpoints().all()) e->quiesce_region(self.region);
  d.keys().remove(self.region);
  // Deregistration is a call of the core's, so it belongs under the lock.
  d.regions().destroy(&self);
  return 0;
}

int bind_counter(memory_region& self, cntr& counter, std::uint64_t flags) {
  constexpr std::uint64_t known = FI_REMOTE_READ | FI_REMOTE_WRITE;
  if (flags == 0 || (flags & ~known)) return -FI_EBADFLAGS;
  if (&counter.parent() != &self.parent) return -FI_EINVAL;
  if (!self.parent.counts_targets()) {
    GAUDI_INFO(MR, "a counter can be bound to memory with FI_RMA_EVENT only\n");
    return -FI_ENOSYS;
  }
  const base::scoped_domain_lock lock(self.parent.lock());
  counter.parent().lock().assert_held();
  if (flags & FI_REMOTE_READ) self.region.peers_read = &counter.counter();
  if (flags & FI_REMOTE_WRITE) self.region.peers_wrote = &counter.counter();
  self.counter_holds.emplace_front(counter.bound());
  return 0;
}

// Endpoints need not know regions.
int bind_region(fid_t f, fid_t other, std::uint64_t flags) noexcept {
  if (other->fclass != FI_CLASS_CNTR) return 0;
  return guarded_int([&] {
    auto& self = *static_cast<memory_region*>(reinterpret_cast<fid_mr*>(f));
    return bind_counter(self, cntr::of(other), flags);
  });
}
fi_ops mr_fid_ops = region_ops<close_region>(bind_region);

int attach_host(domain& d, reg::region& r) {
  if (d.context().devices.is_surely_device(r.address)) {
    GAUDI_WARN(MR,
               "0x%lx+%zu was registered as host memory but is a Gaudi address: ask for FI_HMEM in "
               "the hints of fi_getinfo\n",
               r.address, r.length);
    return -FI_EINVAL;
  }
  auto mr = d.core().register_memory(reinterpret_cast<void*>(r.address), r.length, r.access);
  if (!mr) {
    GAUDI_WARN(MR, "the core cannot register %zu bytes at 0x%lx: %s (see RLIMIT_MEMLOCK)\n",
               r.length, r.address, fi_strerror(-mr.code()));
    return mr.code();
  }
  r.core = std::move(*mr);
  return 0;
}

// What the application wants, wherever the memory is.
struct mr_request {
  iovec range;
  std::uint64_t access;
  std::uint64_t key;
  void* context;
};

// `attach` fills the region that has the range and the access, under the lock; 0 or an error.
template <class Attach>
int register_range(domain& d, const mr_request& w, fid_mr** out, Attach&& attach) {
  if (w.range.iov_len == 0) {
    GAUDI_WARN(MR, "a memory region of length 0 was refused\n");
    return -FI_EINVAL;
  }
  const base::scoped_domain_lock lock(d.lock());
  const auto destroy = [&](memory_region* r) {
    d.lock().assert_held();
    d.regions().destroy(r);
  };
  std::unique_ptr<memory_region, decltype(destroy)> made(d.regions().create(d, w.context), destroy);
  if (!made) return -FI_ENOMEM;
  reg::region& r = made->region;
  made->cover(w.range, w.access);
  r.virtual_address = d.virtual_address();
  if (const int ret = attach(r)) return ret;
  if (d.provider_keys()) {
    d.keys().add_chosen_here(r, d.counts_targets());
  } else if (const auto added = d.keys().add_requested(r, w.key); !added) {
    return added.code();
  }
  made->key = r.key;
  *out = made.release();
  return 0;
}

int register_device(domain& d, const mr_request& w, std::optional<int> requested, fid_mr** out) {
  return register_range(d, w, out, [&](reg::region& r) {
    d.lock().assert_held();
    return attach_device(d.context(), d.dmabufs(), r, requested);
  });
}

void tell_recognised(const mr_request& w) {
  static std::atomic_flag told;
  if (told.test_and_set()) return;
  GAUDI_INFO(MR,
             "%p+%zu was registered as host memory (FI_HMEM_SYSTEM) but is a Gaudi address, and is "
             "treated as such\n",
             w.range.iov_base, w.range.iov_len);
}

// Consumers that know only of other accelerators register a Gaudi's memory as the host's. Its
// addresses are no host's, but a domain without FI_HMEM may have its core send inline, by the CPU.
int register_host(domain& d, const mr_request& w, fid_mr** out) {
  const auto address = reinterpret_cast<std::uint64_t>(w.range.iov_base);
  if (d.hmem() && d.context().devices.is_surely_device(address)) {
    tell_recognised(w);
    return register_device(d, w, std::nullopt, out);
  }
  return register_range(d, w, out, [&](reg::region& r) { return attach_host(d, r); });
}

int register_imported(domain& d, const mr_request& w, const core::dmabuf_range& part,
                      fid_mr** out) {
  const bool by_engine =
      d.context().params.dmabuf != base::dmabuf_choice::on && is_pool_alias(d.context(), part);
  const bool by_nic = !by_engine || d.takes_dmabufs();
  return register_range(d, w, out, [&](reg::region& r) {
    d.lock().assert_held();
    const int ret = by_nic ? attach_imported(d.context(), d.dmabufs(), r, part, carrier::provider)
                           : -FI_EOPNOTSUPP;
    if (ret == 0 || !by_engine) return ret;
    attach_pool_alias(r);
    return 0;
  });
}

// Memory that this process can name itself is what its address says, whatever the dma-buf. The
// rest only the NIC reaches: the core has to take it, and its addresses must be such as no CPU has,
// at this end and at the peer's.
int register_dmabuf(domain& d, const fi_mr_attr& attr, fid_mr** out) {
  const auto part = part_of_dmabuf(attr);
  const std::uint64_t address = part.base_addr + part.offset;
  const mr_request w{{reinterpret_cast<void*>(address), part.length},
                     attr.access,
                     attr.requested_key,
                     attr.context};
  if (device::is_device_address(address) && !is_known_here(d.context(), address))
    return register_imported(d, w, part, out);
  std::optional<int> requested;
  if (attr.iface == FI_HMEM_SYNAPSEAI) requested = attr.device.synapseai;
  const bool is_said = requested && device::may_be_device_address(address);  // a Gaudi1's
  if (is_said || d.context().devices.is_surely_device(address))
    return register_device(d, w, requested, out);
  GAUDI_WARN(MR,
             "a dma-buf (FI_MR_DMABUF) whose base_addr is 0x%lx cannot be registered for "
             "FI_EP_RDM: base_addr must be the Gaudi address of its first byte\n",
             part.base_addr);
  return -FI_EOPNOTSUPP;
}

int register_one(domain& d, const fi_mr_attr& attr, fid_mr** out) {
  const mr_request w{*attr.mr_iov, attr.access, attr.requested_key, attr.context};
  switch (attr.iface) {
    case FI_HMEM_SYNAPSEAI:
      return register_device(d, w, attr.device.synapseai, out);
    case FI_HMEM_SYSTEM:
      return register_host(d, w, out);
    default:
      GAUDI_WARN(
          MR, "memory of another accelerator (iface %d) cannot be registered with this provider\n",
          attr.iface);
      return -FI_ENOSYS;
  }
}

int regattr(fid_t f, const fi_mr_attr* attr, std::uint64_t flags, fid_mr** out) noexcept {
  return guarded_int([&]() -> int {
    if (f->fclass != FI_CLASS_DOMAIN || !attr || !out) return -FI_EINVAL;
    if (attr->iov_count != 1 || !attr->mr_iov) return -FI_EINVAL;
    domain& d = domain::of(f);
    if (d.used_after_fork()) return -FI_EOPBADSTATE;
    return flags & from_dmabuf ? register_dmabuf(d, *attr, out) : register_one(d, *attr, out);
  });
}

int regv(fid_t f, const iovec* iov, std::size_t count, std::uint64_t access, std::uint64_t,
         std::uint64_t key, std::uint64_t, fid_mr** out, void* context) noexcept {
  return guarded_int([&]() -> int {
    if (f->fclass != FI_CLASS_DOMAIN || count != 1 || !iov || !out) return -FI_EINVAL;
    domain& d = domain::of(f);
    if (d.used_after_fork()) return -FI_EOPBADSTATE;
    return register_host(d, {*iov, access, key, context}, out);
  });
}

int reg_one(fid_t f, const void* buf, std::size_t len, std::uint64_t access, std::uint64_t offset,
            std::uint64_t key, std::uint64_t flags, fid_mr** out, void* context) noexcept {
  const iovec range{const_cast<void*>(buf), len};
  return regv(f, &range, 1, access, offset, key, flags, out, context);
}

}  // namespace

memory_region::memory_region(domain& d, void* user_context) noexcept
    : mr_base(d, user_context, mr_fid_ops) {
  mem_desc = &region;
}

fi_ops_mr mr_ops{.size = sizeof(fi_ops_mr), .reg = reg_one, .regv = regv, .regattr = regattr};

}  // namespace gaudi::fi
