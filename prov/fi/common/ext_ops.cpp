// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/common/ext_ops.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>

#include "fi/common/domain_base.hpp"
#include "fi/common/guard.hpp"
#include "fi/common/tables.hpp"

namespace gaudi::fi {
namespace {

template <std::size_t Size>
void copy_text(char (&to)[Size], const std::string& from) noexcept {
  const std::size_t length = std::min(from.size(), Size - 1);
  std::memcpy(to, from.data(), length);
  to[length] = '\0';
}

int query_device(fid_domain* d, fi_gaudi_device_attr* attr) noexcept {
  return guarded_int([&] {
    const auto current = domain_base::of(d).selected_device();
    if (!current) return current.code();
    const auto& known = (*current)->attributes();
    *attr = {};
    attr->generation = static_cast<fi_gaudi_generation>(known.generation);
    copy_text(attr->name, known.name);
    copy_text(attr->pci_addr, known.bus_id);
    attr->index = known.index;
    attr->module_id = known.module_id;
    attr->simulated = known.simulated;
    attr->owned = known.owned;
    attr->hbm_size = known.hbm_size;
    const auto free_bytes = (*current)->hbm_free();
    if (!free_bytes) return free_bytes.code();
    attr->hbm_free = *free_bytes;
    return 0;
  });
}

int alloc(fid_domain* d, std::uint64_t len, std::uint64_t* addr) noexcept {
  return guarded_int([&] {
    const auto current = domain_base::of(d).selected_device();
    if (!current) return current.code();
    const auto allocated = (*current)->allocate(len);
    if (!allocated) return allocated.code();
    *addr = *allocated;
    return 0;
  });
}

int free_memory(fid_domain* d, std::uint64_t addr) noexcept {
  return guarded_int([&] {
    const auto current = domain_base::of(d).selected_if_open();
    return current ? current->free(addr).code() : -FI_EINVAL;
  });
}

base::result<std::shared_ptr<copy::copier>> copier_of(domain_base& d) {
  const auto current = d.selected_device();
  if (!current) return current.failure();
  return d.copies().copier(*current);
}

int copy_now(fid_domain* d, std::uint64_t dst, std::uint64_t src, std::uint64_t len,
             fi_gaudi_copy_dir dir) noexcept {
  return guarded_int([&] {
    const auto copier = copier_of(domain_base::of(d));
    return copier ? (*copier)->copy(dst, src, len, direction_of(dir)).code() : copier.code();
  });
}

int copy_async(fid_domain* d, std::uint64_t dst, std::uint64_t src, std::uint64_t len,
               fi_gaudi_copy_dir dir, std::uint64_t* ticket) noexcept {
  return guarded_int([&] {
    const auto copier = copier_of(domain_base::of(d));
    if (!copier) return copier.code();
    auto started = (*copier)->start(dst, src, len, direction_of(dir));
    if (!started) return started.code();
    *ticket = domain_base::of(d).copies().add(std::move(*started));
    return 0;
  });
}

int copy_test(fid_domain* d, std::uint64_t ticket) noexcept {
  return guarded_int([&] { return domain_base::of(d).copies().check(ticket, 0); });
}

int copy_wait(fid_domain* d, std::uint64_t ticket, int timeout_ms) noexcept {
  return guarded_int([&] {
    const int ret = domain_base::of(d).copies().check(ticket, timeout_ms);
    return ret == -FI_EAGAIN ? -FI_ETIMEDOUT : ret;
  });
}

int query_addr(fid_domain* d, std::uint64_t addr, std::uint64_t len,
               fi_gaudi_addr_attr* attr) noexcept {
  return guarded_int([&] {
    const auto current = domain_base::of(d).selected_if_open();
    if (!current) return -FI_ENOENT;
    const auto found = current->find(addr, len);
    if (!found) return found.code();
    *attr = {.alloc_base = found->base,
             .alloc_len = found->len,
             .offset = found->offset,
             .device_index = current->attributes().index,
             .adopted = found->adopted};
    return 0;
  });
}

int export_dmabuf(fid_domain* d, std::uint64_t addr, std::uint64_t len,
                  fi_gaudi_dmabuf* dmabuf) noexcept {
  return guarded_int([&] {
    const auto current = domain_base::of(d).selected_if_open();
    if (!current) return -FI_ENOENT;
    auto exported = current->export_dmabuf(addr, len);
    if (!exported) return exported.code();
    *dmabuf = {.fd = exported->fd.release(),
               .offset = exported->offset,
               .len = exported->len,
               .base_addr = exported->base_addr};
    return 0;
  });
}

int pool_alloc(fid_domain* d, std::uint64_t pool, std::uint64_t len, std::uint64_t* addr) noexcept {
  return guarded_int([&] {
    return domain_base::of(d).pools().with(pool, [&](memory_pool& p) {
      const auto piece = p.take(len);
      if (piece) *addr = *piece;
      return piece.code();
    });
  });
}

int pool_free(fid_domain* d, std::uint64_t pool, std::uint64_t addr) noexcept {
  return guarded_int([&] {
    return domain_base::of(d).pools().with(pool, [&](memory_pool& p) { return p.give_back(addr); });
  });
}

int adopt_device(fid_domain* d, int device_fd) noexcept {
  return guarded_int([&] {
    domain_base& self = domain_base::of(d);
    const auto number = self.context().devices.adopt(self.context().device_settings(), device_fd);
    if (number) self.select(*number);
    return number.code();
  });
}

int adopt_range(fid_domain* d, const fi_gaudi_range* range) noexcept {
  return guarded_int([&] {
    const auto current = domain_base::of(d).selected_device();
    if (!current) return current.code();
    return (*current)
        ->memory()
        .adopt_range(range->addr, range->len, range->map_base, range->map_len)
        .code();
  });
}

int release_range(fid_domain* d, std::uint64_t addr) noexcept {
  return guarded_int([&] {
    const auto current = domain_base::of(d).selected_if_open();
    return current ? current->memory().release_range(addr).code() : -FI_EINVAL;
  });
}

int device_count(fid_domain* d, int* count) noexcept {
  return guarded_int([&] {
    const auto known = domain_base::of(d).context().count_devices();
    if (known) *count = static_cast<int>(*known);
    return known.code();
  });
}

int select_device(fid_domain* d, int device) noexcept {
  return guarded_int([&] {
    const auto count = domain_base::of(d).context().count_devices();
    if (!count) return count.code();
    const auto number = static_cast<unsigned>(device);  // a negative one is too large
    if (number >= *count) return -FI_EINVAL;
    domain_base::of(d).select(number);
    return 0;
  });
}

int selected_device(fid_domain* d, int* device) noexcept {
  *device = static_cast<int>(domain_base::of(d).selected());
  return 0;
}

}  // namespace

fi_gaudi_cache_stats stats_of(const reg::cache_counters& c) noexcept {
  return {.hits = c.hits,
          .misses = c.misses,
          .registrations = c.made,
          .evictions = c.evictions,
          .idle = c.idle,
          .idle_bytes = c.idle_bytes};
}

fi_gaudi_device_stats stats_of(device::device& on, const reg::registration_counters& c) noexcept {
  const device::counters& all = on.counted();
  return {.exports = all.exports.value(),
          .stale_refusals = all.stale_refusals.value(),
          .copies = all.copies.value(),
          .host_to_device_bytes = all.host_to_device_bytes.value(),
          .device_to_host_bytes = all.device_to_host_bytes.value(),
          .device_to_device_bytes = all.device_to_device_bytes.value(),
          .zero_copy_bytes = all.zero_copy_bytes.value(),
          .staged_bytes = all.staged_bytes.value(),
          .registrations = c.cached.made,
          .hits = c.cached.hits,
          .misses = c.cached.misses,
          .evictions = c.cached.evictions,
          .idle = c.cached.idle,
          .idle_bytes = c.cached.idle_bytes,
          .refused_registrations = c.refusals,
          .last_refusal = c.last_refusal};
}

// Others copy it while they are initialised.
constinit fi_gaudi_ops extension_ops{
    .size = sizeof(fi_gaudi_ops),
    .query_device = in_own_process<domain_base, query_device>,
    .alloc = in_own_process<domain_base, alloc>,
    .free = in_own_process<domain_base, free_memory>,
    .copy = in_own_process<domain_base, copy_now>,
    .copy_async = in_own_process<domain_base, copy_async>,
    .copy_test = in_own_process<domain_base, copy_test>,
    .copy_wait = in_own_process<domain_base, copy_wait>,
    .query_addr = in_own_process<domain_base, query_addr>,
    .export_dmabuf = in_own_process<domain_base, export_dmabuf>,
    .adopt_device = in_own_process<domain_base, adopt_device>,
    .adopt_range = in_own_process<domain_base, adopt_range>,
    .release_range = in_own_process<domain_base, release_range>,
    .path_stats = not_supported,
    .cache_stats = not_supported,
    .device_count = in_own_process<domain_base, device_count>,
    .select_device = in_own_process<domain_base, select_device>,
    .selected_device = in_own_process<domain_base, selected_device>,
    .device_stats = not_supported,
    .pool_create = not_supported,
    .pool_alloc = in_own_process<domain_base, pool_alloc>,
    .pool_free = in_own_process<domain_base, pool_free>,
    .pool_destroy = not_supported,
    .path_reasons = not_supported};

}  // namespace gaudi::fi
