// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/rdm/self_read.hpp"

#include <rdma/fabric.h>

#include <cstring>

#include "copy/copy_queues.hpp"
#include "copy/nic_copies.hpp"
#include "fi/rdm/domain.hpp"

namespace gaudi::fi {
namespace {

using proto::local_segment;

/// Where a region is whose key was given. Of Synapse's pool under another address no NIC may know:
/// then the engine reads the pool.
struct readable {
  const reg::region* region;
  std::uint64_t address;
  device::device* owner;  // null: host memory, or a dma-buf that only the NIC reaches
};

std::optional<readable> find(domain& d, std::uint64_t address, std::size_t length,
                             std::uint64_t key) GAUDI_REQUIRES(d.lock()) {
  if (d.keys().find(key, address, length, FI_REMOTE_READ)) return {};  // an ordinary read
  const auto found = d.keys().find(key, address, length, 0);
  if (!found) return {};
  const reg::region& r = **found;
  const std::uint64_t first = r.virtual_address ? address : r.address + address;
  if (!r.imported || r.core_for(FI_REMOTE_READ)) return readable{&r, first, r.owner};
  device::device* const guest = d.context().devices.known(0);
  const auto in_pool = guest ? guest->pool_alias(first, length) : base::error{-FI_EINVAL};
  if (!in_pool) return {};
  return readable{&r, *in_pool, guest};
}

/// One contiguous part, from `from` on. nullopt as above.
using outcome = std::optional<int>;

// Where the device has no engine: the NIC's connection needs no right of peers.
int by_message(domain& d, device::device& on, const local_segment& to, std::uint64_t from,
               copy::direction way) GAUDI_REQUIRES(d.lock()) {
  const bool from_host = way == copy::direction::host_to_device;
  const copy::app_place source{from, from_host ? nullptr : &on, nullptr, from_host};
  const copy::app_place target{to.address, to.owner, to.registered, to.is_host()};
  const int ret = copy::nic_copies(&d.loop(), &d.dmabufs()).copy(target, source, to.length);
  return ret == 0 && to.owner ? d.flush().flush(*to.owner).code() : ret;
}

outcome by_engine(domain& d, device::device& on, const local_segment& to, std::uint64_t from,
                  copy::direction way) GAUDI_REQUIRES(d.lock()) {
  if (!copy::copy_queues::are_on(on)) return by_message(d, on, to, from, way);
  const auto copier = d.copies().copier(on.shared_from_this());
  if (!copier) return copier.code();
  return (*copier)->copy(to.address, from, to.length, way).code();
}

/// By the NIC's connection with itself, behind whatever it wrote to the device before.
outcome by_nic(domain& d, const core::inner_mr& known, const local_segment& to, std::uint64_t from)
    GAUDI_REQUIRES(d.lock()) {
  core::inner_mr own;
  void* descriptor = to.core_descriptor();
  if (!descriptor) {
    auto made = d.core().register_memory(to.host(), to.length, FI_READ);
    if (!made) return made.code();
    own = std::move(*made);
    descriptor = own.descriptor();
  }
  return d.loop().read(to.host(), descriptor, to.length, from, known.key()).code();
}

outcome read_part(domain& d, const readable& source, const local_segment& to, std::uint64_t from)
    GAUDI_REQUIRES(d.lock()) {
  using copy::direction;
  if (!source.region->on_device()) {
    if (to.owner) return by_engine(d, *to.owner, to, from, direction::host_to_device);
    if (!to.is_host()) return {};
    std::memmove(to.host(), reinterpret_cast<const void*>(from), to.length);
    return 0;
  }
  if (source.owner && to.owner == source.owner)
    return by_engine(d, *source.owner, to, from, direction::device_to_device);
  if (!to.is_host()) return {};
  if (const core::inner_mr* const known = source.region->core_for(FI_REMOTE_READ))
    return by_nic(d, *known, to, from);
  if (!source.owner) return {};
  return by_engine(d, *source.owner, to, from, direction::device_to_host);
}

}  // namespace

std::optional<int> read_own_region(domain& d, const proto::local_memory& to, std::uint64_t address,
                                   std::uint64_t key) {
  const auto source = find(d, address, to.length(), key);
  if (!source) return {};
  std::uint64_t from = source->address;
  for (std::size_t i = 0; i < to.count(); ++i) {
    if (to[i].length == 0) continue;
    const auto done = read_part(d, *source, to[i], from);
    if (!done || *done != 0) return done;
    from += to[i].length;
  }
  return 0;
}

}  // namespace gaudi::fi
