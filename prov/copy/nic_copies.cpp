// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "copy/nic_copies.hpp"

#include <rdma/fi_errno.h>

#include <utility>

#include "base/cancellation_deferred.hpp"

namespace gaudi::copy {

/// One end of a copy as the NIC is to be told of it, with what was made for that.
struct nic_copies::reach {
  core::local_place place{};
  // In this order: what is registered ends before the memory may be freed.
  device::unowned_pin pin{};
  reg::registration device{};
  core::inner_mr host{};
};

int nic_copies::copy(const host_place& here, const app_place& there, std::size_t length,
                     direction dir) {
  const base::cancellation_deferred until_it_is_copied;
  if (!loop_) return -FI_EOPNOTSUPP;
  const bool to_app = dir == direction::host_to_device;
  const auto* const readable =
      !to_app && there.registered ? there.registered->core_for_own_reads() : nullptr;
  if (readable && here.is_known_to_core)
    return read(here.bytes, here.descriptor, length, there.address, readable->key());
  reach app;
  if (const int ret = reach_app(app, there, length, to_app ? end::target : end::source)) return ret;
  reach ours{.place = {here.bytes, here.descriptor}};
  if (!here.is_known_to_core) {
    if (const int ret = reach_host(ours, here.bytes, length, to_app ? end::source : end::target))
      return ret;
  }
  const auto done = to_app ? loop_->copy(app.place, ours.place, length)
                           : loop_->copy(ours.place, app.place, length);
  return done.code();
}

int nic_copies::copy(const app_place& to, const app_place& from, std::size_t length) {
  const base::cancellation_deferred until_it_is_copied;
  if (!loop_) return -FI_EOPNOTSUPP;
  reach target;
  reach source;
  if (const int ret = reach_app(target, to, length, end::target)) return ret;
  if (const int ret = reach_app(source, from, length, end::source)) return ret;
  return loop_->copy(target.place, source.place, length).code();
}

int nic_copies::read(void* to, void* descriptor, std::size_t length, std::uint64_t address,
                     std::uint64_t key) {
  const base::cancellation_deferred until_it_is_read;
  if (!loop_) return -FI_EOPNOTSUPP;
  return loop_->read(to, descriptor, length, address, key).code();
}

int nic_copies::reach_app(reach& made, const app_place& place, std::size_t length, end which) {
  auto* const bytes = reinterpret_cast<std::byte*>(place.address);
  if (const auto* const known = place.registered ? place.registered->core_for(0) : nullptr) {
    made.place = {bytes, known->descriptor()};
    return 0;
  }
  if (place.is_host) return reach_host(made, bytes, length, which);
  return reach_device(made, place, length);
}

// A registration for nobody but us, which its cache keeps for the next copy.
int nic_copies::reach_device(reach& made, const app_place& place, std::size_t length) {
  if (!place.owner || !dmabufs_) return -FI_EOPNOTSUPP;
  const auto where = place.owner->pin_in(made.pin, place.address, length);
  if (!where) return where.code();
  auto known = dmabufs_->obtain(*place.owner, *where, length, 0);
  if (!known) return known.code();
  made.device = *std::move(known);
  if (!made.device) return -FI_EOPNOTSUPP;
  made.place = {reinterpret_cast<std::byte*>(place.address), made.device->descriptor()};
  return 0;
}

int nic_copies::reach_host(reach& made, std::byte* bytes, std::size_t length, end which) {
  auto known = loop_->register_host(bytes, length, which);
  if (!known) return known.code();
  made.host = *std::move(known);
  made.place = {bytes, made.host.descriptor()};
  return 0;
}

}  // namespace gaudi::copy
