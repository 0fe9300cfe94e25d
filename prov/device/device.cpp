// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "device/device.hpp"

#include <rdma/fi_errno.h>

#include <utility>

#include "base/driver_call.hpp"

namespace gaudi::device {

using base::error;
using base::result;

device::device(passkey, std::shared_ptr<const hl::thunk> thunk, hl::device_fd fd,
               std::shared_ptr<const hl::synapse> synapse, const generation_traits& traits,
               device_attributes facts, const hl::hw_info& info)
    : thunk_(std::move(thunk)),
      synapse_(std::move(synapse)),
      fd_(std::move(fd)),
      generation_(traits),
      attributes_(std::move(facts)),
      opening_(attributes_.bus_id, openings(), fd_.get()),
      counters_({.kind = base::counters::block_kind::device,
                 .name = attributes_.name,
                 .detail = attributes_.bus_id,
                 .number = attributes_.index}),
      memory_({.thunk = thunk_,
               .fd = fd_,
               .generation = generation_,
               .attributes = attributes_,
               .is_synapses = synapse_ != nullptr,
               .dram_base = info.dram_base,
               .page_size = info.alloc_page_size != 0 ? info.alloc_page_size : info.dram_page_size},
              *counters_) {
  openings_ = openings();
  events_ = event_watch::start(*this);
}

bool device::is_vacant() const {
  return memory_.user_records() == (pool_.len == 0 ? 0 : 1);
}

result<std::uint64_t> device::hbm_free() const {
  if (const int gone = lost(); gone != 0) return error{gone};
  if (synapse_) {
    const auto held = synapse_->device_fd();
    const auto pool = held ? synapse_->global_pool(*held) : held.failure();
    return pool ? result<std::uint64_t>(pool->free) : pool.failure();
  }
  if (memory_.manages_hbm()) return memory_.free_bytes();
  const auto usage = thunk_->memory_usage(fd_.get());
  if (!usage) return usage.failure();
  return usage->free_bytes + memory_.free_bytes();
}

result<std::uint64_t> device::allocate(std::uint64_t len, purpose what_for) {
  if (const int gone = lost(); gone != 0) return error{gone};
  if (len == 0) return error{-FI_EINVAL};
  if (len > attributes_.hbm_size) return error{-FI_ENOMEM};
  auto block = memory_.allocate(len, what_for);
  return block ? block : error{cause_of(block.code())};
}

result<allocation_pin> device::pin(std::uint64_t addr, std::uint64_t len) {
  unowned_pin held;
  const auto where = pin_in(held, addr, len);
  if (!where) return where.failure();
  return allocation_pin(shared_from_this(), *where, std::move(held));
}

result<dmabuf> device::export_dmabuf(std::uint64_t addr, std::uint64_t len) {
  if (const int gone = lost(); gone != 0) return error{gone};
  const base::outstanding::driver_call shown(base::outstanding::call_kind::export_memory,
                                             static_cast<std::int32_t>(attributes_.index), len);
  auto exported = memory_.export_dmabuf(addr, len);
  if (exported) return exported;
  return error{cause_of(exported.code())};
}

}  // namespace gaudi::device
