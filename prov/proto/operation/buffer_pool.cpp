// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/operation/buffer_pool.hpp"

#include <rdma/fi_errno.h>
#include <sys/mman.h>

#include <new>
#include <utility>

#include "base/cancellation_deferred.hpp"
#include "base/log.hpp"

namespace gaudi::proto {
namespace {

constexpr std::size_t page_size = 4096;

// What others send is in these buffers: nobody else reads them, whatever key he tries.
constexpr std::uint64_t own_access = FI_SEND | FI_RECV | FI_READ | FI_WRITE;

}  // namespace

void* buffer::descriptor() const noexcept {
  return slab.mr().descriptor();
}
void* buffer::descriptor_at(reg::other_nic& nic) const noexcept try {
  const core::inner_mr* const known = slab.registration_at(nic);
  return known ? known->descriptor() : nullptr;
} catch (const std::bad_alloc&) {
  return nullptr;
}
std::uint64_t buffer::key() const noexcept {
  return slab.mr().key();
}

// The core does not know what is shared with a peer.
copy::host_place buffer::place(std::size_t at) const noexcept {
  return {.bytes = bytes + at,
          .of = &slab,
          .descriptor = descriptor(),
          .is_known_to_core = home.slots == nullptr};
}

base::result<std::unique_ptr<buffer_slab>> buffer_slab::create(core::inner_domain& core,
                                                               posted_op::kind kind,
                                                               std::size_t buffer_size,
                                                               std::size_t count,
                                                               std::uint64_t peers_may) try {
  std::unique_ptr<buffer_slab> self(new buffer_slab);
  self->length_ = (buffer_size * count + page_size - 1) & ~(page_size - 1);
  void* memory =
      ::mmap(nullptr, self->length_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return base::error{-FI_ENOMEM};
  self->base_ = static_cast<std::byte*>(memory);
  // The NIC and the device write to these pages: a forked child must not make them copy-on-write.
  ::madvise(memory, self->length_, MADV_DONTFORK);

  self->access_ = own_access | peers_may;
  auto mr = core.register_memory(memory, self->length_, self->access_);
  if (!mr) return mr.failure();
  self->mr_ = std::move(*mr);

  self->cut(kind, buffer_size, count);
  return self;
} catch (const std::bad_alloc&) {
  return base::error{-FI_ENOMEM};
}

std::unique_ptr<buffer_slab> buffer_slab::over(std::span<std::byte> area, posted_op::kind kind,
                                               std::size_t buffer_size) {
  std::unique_ptr<buffer_slab> self(new buffer_slab);
  self->base_ = area.data();
  self->length_ = area.size();
  self->owned_ = false;
  self->cut(kind, buffer_size, buffer_size ? area.size() / buffer_size : 0);
  return self;
}

void buffer_slab::cut(posted_op::kind kind, std::size_t buffer_size, std::size_t count) {
  buffer_size_ = buffer_size;
  buffers_.reserve(count);
  for (std::size_t i = 0; i < count; ++i)
    buffers_.push_back(std::make_unique<buffer>(kind, *this, base_ + i * buffer_size));
}

buffer_slab::~buffer_slab() {
  pins_.clear();
  at_other_nics_.clear();
  mr_ = {};
  if (base_ && owned_) ::munmap(base_, length_);
}

const core::inner_mr* buffer_slab::registration_at(reg::other_nic& nic) {
  if (!mr_) return nullptr;
  for (const auto& [number, mr] : at_other_nics_)
    if (number == nic.number()) return &mr;
  auto made = nic.core().register_memory(base_, length_, access_);
  return made ? &at_other_nics_.emplace_back(nic.number(), *std::move(made)).second : nullptr;
}

base::result<std::uint64_t> buffer_slab::device_address(device::device& which,
                                                        const std::byte* bytes) {
  const auto within = static_cast<std::uint64_t>(bytes - base_);
  for (const auto& [device, region] : pins_) {
    if (device == &which) return region.device_va() + within;
  }
  std::erase_if(pins_, [](const auto& pin) { return pin.first->lost() != 0; });
  auto pinned = copy::pinned_region::map(which.shared_from_this(), base_, length_);
  if (!pinned) return pinned.failure();
  const std::uint64_t address = pinned->device_va();
  pins_.emplace_back(&which, std::move(*pinned));
  return address + within;
}

bool buffer_pool::add_slab() noexcept try {
  const base::cancellation_deferred until_it_is_registered;
  free_.reserve(total_ + per_slab_);
  slabs_.reserve(slabs_.size() + 1);
  auto slab = buffer_slab::create(core_, kind_, buffer_size_, per_slab_, peers_may_);
  if (!slab) {
    if (!std::exchange(told_, true))
      GAUDI_WARN(EP_DATA, "no memory for %zu more buffers of %zu bytes: %s (see RLIMIT_MEMLOCK)\n",
                 per_slab_, buffer_size_, fi_strerror(-slab.code()));
    return false;
  }
  auto& buffers = (*slab)->buffers();
  for (auto b = buffers.rbegin(); b != buffers.rend(); ++b) free_.push_back(b->get());
  slabs_.push_back(std::move(*slab));
  total_ += per_slab_;
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

}  // namespace gaudi::proto
