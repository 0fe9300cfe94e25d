// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/common/device_region.hpp"

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>
#include <unistd.h>

#include <cerrno>

#include "base/log.hpp"
#include "hl/synapse.hpp"

namespace gaudi::fi {
namespace {

// What the core lets peers do in our own transfers: a rendezvous reads from the sender's memory or
// writes to the receiver's.
std::uint64_t transfer_access(std::uint64_t access) {
  return (access & (FI_REMOTE_READ | FI_REMOTE_WRITE)) | (access & FI_SEND ? FI_REMOTE_READ : 0) |
         (access & FI_RECV ? FI_REMOTE_WRITE : 0);
}

// Lets the NIC at it where it can; else the data is staged. `obtain` gives the registration for an
// access.
template <class Obtain>
int attach_core(reg::region& r, std::uint64_t transfer_access, Obtain&& obtain) {
  r.transfer_access = transfer_access;
  auto own = obtain(r.transfer_access);
  if (!own) return own.code();
  r.transfers = *std::move(own);
  if (r.remote_access() == 0 || r.key_names_transfers()) return 0;
  auto named = obtain(r.remote_access());
  if (!named) return named.code();
  r.by_key = *std::move(named);
  return 0;
}

// Devices stay in the table, whoever has none.
base::result<device::device*> open_device(const provider_context& context, unsigned number) {
  const auto opened = context.device_at(number);
  if (!opened) return opened.failure();
  return opened->get();
}

base::result<device::device*> device_requested(const provider_context& context, int requested) {
  const auto& all = context.devices;
  const auto number = static_cast<unsigned>(requested);  // a negative one is too large
  device::device* const known = all.known(all.count() == 1 ? 0 : number);
  if (known && known->lost() == 0) return known;
  const auto count = context.count_devices();
  if (!count) return count.failure();
  if (*count <= 1) return open_device(context, 0);
  if (number < *count) return open_device(context, number);
  GAUDI_WARN(MR,
             "fi_mr_attr.device.synapseai is %d, but there are devices 0 to %u: it is the place in "
             "FI_GAUDI_DEVICE, from 0\n",
             requested, *count - 1);
  return base::error{-FI_EINVAL};
}

base::result<device::device*> device_of(const provider_context& context, std::uint64_t address) {
  const auto held = context.devices.find_owner(address);
  if (held.owner) return held.owner;
  if (!held.several) return open_device(context, 0);
  GAUDI_WARN(MR,
             "0x%lx is an address on several of the open Gaudis: register it with iface "
             "FI_HMEM_SYNAPSEAI and the device's number in fi_mr_attr.device.synapseai\n",
             address);
  return base::error{-FI_EINVAL};
}

bool is_on_another(const provider_context& context, const device::device& on,
                   std::uint64_t address) {
  const auto held = context.devices.find_owner(address);
  return held.several || (held.owner && held.owner != &on);
}

void warn_not_there(const provider_context& context, const reg::region& r, const device::device& on,
                    int code) {
  const char* why = ": adopt it through fi_ext_gaudi.h";
  if (code == -FI_EINVAL) {
    why = ": it crosses the allocation's end";
  } else if (is_on_another(context, on, r.address)) {
    why = ", but of another one: say which in fi_mr_attr.device.synapseai";
  }
  GAUDI_WARN(MR, "0x%lx+%zu is not inside one allocation of %s %s known to this process%s\n",
             r.address, r.length, on.attributes().name.c_str(), on.attributes().bus_id.c_str(),
             why);
}

// Always inlined: what registers memory does so often, and passes all of this on.
[[gnu::always_inline]] inline int attach_on(const provider_context& context,
                                            reg::dmabuf_registrar& dmabufs, reg::region& r,
                                            device::device& on, carrier by) {
  const auto where = on.pin_in(r.pin, r.address, r.length);
  if (const int gone = on.lost(); gone != 0) return gone;
  if (!where) {
    warn_not_there(context, r, on, where.code());
    return -FI_EINVAL;
  }
  r.owner = &on;
  const std::uint64_t transfers =
      by == carrier::core ? r.remote_access() : transfer_access(r.access);
  return attach_core(r, transfers, [&](std::uint64_t access) {
    return dmabufs.obtain(on, *where, r.length, access);
  });
}

}  // namespace

bool is_known_here(const provider_context& context, std::uint64_t address) {
  const auto held = context.devices.find_or_attach(address);
  return held.owner || held.several;
}

// struct fi_mr_dmabuf of libfabric 1.20 and later, which takes the place of mr_iov.
core::dmabuf_range part_of_dmabuf(const fi_mr_attr& attr) noexcept {
  struct given {
    int fd;
    std::uint64_t offset;
    std::size_t len;
    void* base_addr;
  };
  const auto& [fd, offset, len, base_addr] = *reinterpret_cast<const given*>(attr.mr_iov);
  return {.fd = fd,
          .offset = offset,
          .length = len,
          .base_addr = reinterpret_cast<std::uint64_t>(base_addr)};
}

int attach_imported(const provider_context& context, reg::dmabuf_registrar& dmabufs, reg::region& r,
                    const core::dmabuf_range& part, carrier by) {
  // A free of our own must not meet what nobody uses.
  const bool keep = context.params.mr_cache.imported && !context.devices.is_known(r.address);
  r.imported = true;
  const std::uint64_t transfers =
      by == carrier::core ? r.remote_access() : transfer_access(r.access);
  return attach_core(r, transfers, [&](std::uint64_t access) {
    return dmabufs.obtain(part, access,
                          keep ? reg::retention::cache_idle : reg::retention::drop_on_last_use);
  });
}

// Of a descriptor that tells no size, as the stand-in's, what the address says has to do.
bool is_pool_alias(const provider_context& context, const core::dmabuf_range& part) {
  const device::device* const guest = context.devices.known(0);
  if (!guest || guest->lost() != 0) return false;
  if (!guest->pool_alias(part.base_addr + part.offset, part.length)) return false;
  const off_t size = ::lseek(part.fd, 0, SEEK_END);
  return size < 0 ? errno == ESPIPE : static_cast<std::uint64_t>(size) == guest->pool().len;
}

void attach_pool_alias(reg::region& r) {
  GAUDI_INFO(MR,
             "0x%lx+%zu is a dma-buf of Synapse's pool under an address before it, which the NIC "
             "does not take: only reads of an endpoint from itself work there\n",
             r.address, r.length);
  r.imported = true;
}

reg::cache_limits cache_limits(const base::params& p) noexcept {
  return {.count = p.mr_cache.max_count, .bytes = p.mr_cache.max_size};
}

reg::window_size windows(const base::params& p) noexcept {
  return reg::window_size::at_least(p.mr_cache.window);
}

int attach_device(const provider_context& context, reg::dmabuf_registrar& dmabufs, reg::region& r,
                  std::optional<int> requested, carrier by) {
  if (!device::may_be_device_address(r.address)) {
    GAUDI_WARN(
        MR, "0x%lx+%zu was registered as Gaudi memory (FI_HMEM_SYNAPSEAI) but is a host address\n",
        r.address, r.length);
    return -FI_EINVAL;
  }
  const auto found =
      requested ? device_requested(context, *requested) : device_of(context, r.address);
  return found ? attach_on(context, dmabufs, r, **found, by) : found.code();
}

int attach_device(const provider_context& context, reg::dmabuf_registrar& dmabufs, reg::region& r,
                  device::device& on, carrier by) {
  return attach_on(context, dmabufs, r, on, by);
}

}  // namespace gaudi::fi
