// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/operation/memory.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <new>

#include "base/cancellation_deferred.hpp"
#include "base/log.hpp"
#include "copy/cpu_copy.hpp"

namespace gaudi::proto {
namespace {

struct known_devices {
  [[nodiscard]] device::device_registry& devices() const noexcept { return all; }
  device::device_registry& all;
};

// Without a descriptor only the address tells. Null after a warning.
device::device* device_that_has(device::device_registry& devices, std::uint64_t address,
                                std::size_t length) noexcept {
  const base::cancellation_deferred until_it_is_known;
  const auto held = devices.find_or_attach(address);
  if (held.owner && held.owner->find(address, length)) return held.owner;
  if (held.several) {
    GAUDI_WARN(EP_DATA,
               "0x%lx+%zu is an address on several of the open Gaudis: register it (iface "
               "FI_HMEM_SYNAPSEAI, fi_mr_attr.device.synapseai) and pass the descriptor\n",
               address, length);
  } else {
    GAUDI_WARN(EP_DATA,
               "0x%lx+%zu is a Gaudi address but not inside one allocation known to this process: "
               "register it (iface FI_HMEM_SYNAPSEAI) or adopt it through fi_ext_gaudi.h\n",
               address, length);
  }
  return nullptr;
}

// Of one that does not belong to the buffer.
void warn_of_descriptor(const reg::region& taken, std::uint64_t address,
                        std::size_t length) noexcept {
  if (taken.marked != reg::region::mark) {
    GAUDI_WARN(EP_DATA,
               "%p, passed as descriptor of 0x%lx+%zu, is no descriptor of an open memory region: "
               "pass fi_mr_desc() of the region that has the buffer, or NULL for host memory\n",
               static_cast<const void*>(&taken), address, length);
  } else {
    GAUDI_WARN(EP_DATA, "device range 0x%lx+%zu is outside its memory region 0x%lx+%zu\n", address,
               length, taken.address, taken.length);
  }
}

}  // namespace

void* local_segment::descriptor_at(reg::other_nic& nic) const noexcept try {
  const core::inner_mr* const known =
      registered ? nic.registration_of(*registered, reg::other_nic::purpose::transfers) : nullptr;
  return known ? known->descriptor() : nullptr;
} catch (const std::bad_alloc&) {
  return nullptr;
}

base::result<local_memory> local_memory::from_several(const iovec* iov, void* const* descriptors,
                                                      std::size_t count,
                                                      device::device_registry& devices) noexcept {
  if (count > max_segments) return base::error{-FI_EINVAL};
  local_memory m;
  known_devices known{devices};
  for (std::size_t i = 0; i < count; ++i) {
    void* descriptor = descriptors ? descriptors[i] : nullptr;
    if (const int ret = m.add(iov[i].iov_base, iov[i].iov_len, descriptor, known))
      return base::error{ret};
  }
  return m;
}

void local_memory::take_all_segments(const local_memory& other) noexcept {
  std::copy_n(other.segments_.begin(), count_, segments_.begin());
}

// Device memory, or none where it is empty.
int local_memory::add_checked(std::uint64_t address, std::size_t length,
                              const reg::region* registered,
                              device::device_registry& devices) noexcept {
  device::device* on = nullptr;
  if (registered && registered->on_device()) {
    if (length != 0 && !registered->holds(address, length)) {
      warn_of_descriptor(*registered, address, length);
      return -FI_EINVAL;
    }
    on = registered->owner;
  } else if (length != 0 && device::is_device_address(address)) {
    on = device_that_has(devices, address, length);
    if (!on) return -FI_EINVAL;
    registered = nullptr;
  }
  segments_[count_++] = {address, length, registered, on};
  length_ += length;
  device_ = device_ || !segments_[count_ - 1].is_host();
  return 0;
}

local_memory local_memory::inside(const reg::region& r, std::uint64_t address,
                                  std::size_t length) noexcept {
  local_memory m;
  const std::uint64_t first = r.virtual_address ? address : r.address + address;
  m.segments_[0] = {first, length, &r, r.owner};
  m.count_ = 1;
  m.length_ = length;
  m.device_ = r.on_device();
  return m;
}

bool local_memory::core_reaches(std::uint64_t remote) const noexcept {
  return std::all_of(segments_.begin(), segments_.begin() + count_, [&](const local_segment& s) {
    return s.is_host() || (s.registered && s.registered->core_for(remote));
  });
}

int local_memory::loss_of_device() const noexcept {
  for (std::size_t i = 0; i < count_; ++i) {
    const int gone = segments_[i].owner ? segments_[i].owner->lost() : 0;
    if (gone != 0) return -gone;
  }
  return 0;
}

bool local_memory::only_on_device() const noexcept {
  return device_ && std::all_of(segments_.begin(), segments_.begin() + count_,
                                [](const local_segment& s) { return s.owner || s.length == 0; });
}

local_memory::place local_memory::at(std::size_t offset) const noexcept {
  const local_segment* segment = segments_.data();
  while (offset >= segment->length) {
    offset -= segment->length;
    ++segment;
  }
  return {segment, offset};
}

local_memory local_memory::part(std::size_t offset, std::size_t length) const noexcept {
  local_memory m;
  while (m.length_ < length) {
    const place p = at(offset + m.length_);
    const std::size_t here = std::min(length - m.length_, p.left());
    m.segments_[m.count_++] = {p.address(), here, p.segment->registered, p.segment->owner};
    m.length_ += here;
    m.device_ = m.device_ || !p.segment->is_host();
  }
  return m;
}

void local_memory::read(std::size_t offset, std::byte* bytes, std::size_t length) const noexcept {
  while (length) {
    const place p = at(offset);
    const std::size_t part = std::min(length, p.left());
    copy::by_cpu(bytes, p.segment->host() + p.within, part);
    bytes += part;
    offset += part;
    length -= part;
  }
}

void local_memory::write(std::size_t offset, const std::byte* bytes,
                         std::size_t length) const noexcept {
  while (length) {
    const place p = at(offset);
    const std::size_t part = std::min(length, p.left());
    copy::by_cpu(p.segment->host() + p.within, bytes, part);
    bytes += part;
    offset += part;
    length -= part;
  }
}

void local_memory::truncate(std::size_t length) noexcept {
  std::size_t left = std::min(length, length_);
  length_ = left;
  std::uint8_t kept = 0;
  while (kept < count_ && left) {
    segments_[kept].length = std::min(segments_[kept].length, left);
    left -= segments_[kept++].length;
  }
  count_ = kept;
}

}  // namespace gaudi::proto
