// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/transfer/implicit_registration.hpp"

#include <rdma/fabric.h>

#include <memory>
#include <new>
#include <utility>

#include "base/cancellation_deferred.hpp"

namespace gaudi::proto {
namespace {

using region = std::unique_ptr<reg::region>;

// Null: the NIC does not take it, or the memory is not there any more.
region registered_for(const local_segment& s, reg::dmabuf_registrar& dmabufs,
                      std::uint64_t remote) {
  auto made = std::make_unique<reg::region>();
  const auto where = s.owner->pin_in(made->pin, s.address, s.length);
  if (!where) return {};
  auto known = dmabufs.obtain(*s.owner, *where, s.length, remote);
  if (!known || !*known) return {};
  made->address = s.address;
  made->length = s.length;
  made->access = FI_SEND | FI_RECV | FI_READ | FI_WRITE;
  made->owner = s.owner;
  made->transfer_access = remote;
  made->transfers = *std::move(known);
  return made;
}

}  // namespace

void register_all_of(transfer& t, const endpoint_settings& with, std::uint64_t remote) noexcept
    try {
  const base::cancellation_deferred until_it_is_registered;
  reg::dmabuf_registrar* const dmabufs = with.dmabufs.registrar;
  if (!dmabufs || with.rendezvous == base::rendezvous_choice::staged) return;
  for (std::size_t i = 0; i < t.memory.count(); ++i) {
    const local_segment& s = t.memory[i];
    if (s.registered || !s.owner || s.length == 0) continue;
    region made = registered_for(s, *dmabufs, remote);
    if (!made) continue;
    t.reach.implicit.push_back(std::move(made));
    t.memory.set_registered(i, *t.reach.implicit.back());
  }
} catch (const std::bad_alloc&) {
  // It is staged.
}

}  // namespace gaudi::proto
