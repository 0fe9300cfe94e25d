// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "device/device_memory.hpp"

#include <atomic>
#include <cerrno>
#include <iterator>
#include <utility>

#include "base/log.hpp"
#include "hl/or_no_memory.hpp"

namespace gaudi::device {
namespace {

using base::error;
using base::result;

/// Numbers allocations over all devices of the process.
std::uint64_t next_allocation_id() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

constexpr std::uint64_t round_up_to(std::uint64_t unit, std::uint64_t len) noexcept {
  return (len + unit - 1) / unit * unit;
}

bool holds(std::uint64_t base, std::uint64_t len, std::uint64_t addr) noexcept {
  return addr - base < len;
}

}  // namespace

device_memory::device_memory(facts f, counters& counted)
    : facts_(std::move(f)), counters_(counted) {
  if (manages_hbm()) dram_.add_region(facts_.dram_base, facts_.attributes.hbm_size);
}

/// Said once.
error device_memory::no_allocator(const char* why) {
  if (!std::exchange(warned_no_allocator_, true))
    GAUDI_WARN(MR, "no memory of %s can be allocated here: it is %s.\n",
               facts_.attributes.bus_id.c_str(), why);
  return error{-FI_EOPNOTSUPP};
}

result<void> device_memory::grow(std::uint64_t len) {
  if (facts_.is_synapses)
    return no_allocator("Synapse's, all of it: allocate with synDeviceMalloc");
  auto got = take(len);
  if (!got && got.code() == -FI_ENOMEM && release_empty_regions(regions_.end()))
    return add_region(take(len));
  return add_region(std::move(got));
}

result<mapping> device_memory::take(std::uint64_t len) {
  if (facts_.generation.physical_addresses) return take_physical(len);
  if (facts_.generation.region > facts_.page_size) {
    auto roomy = mapping::allocate(facts_.thunk, facts_.fd.get(),
                                   round_up_to(facts_.generation.region, len), facts_.page_size);
    if (roomy || roomy.code() != -FI_ENOMEM) return roomy;
  }
  return mapping::allocate(facts_.thunk, facts_.fd.get(), len, facts_.page_size);
}

result<mapping> device_memory::take_physical(std::uint64_t len) {
  if (!manages_hbm())
    return no_allocator(
        "the application's, and a Gaudi1's memory is managed by whoever opened it: allocate there "
        "and adopt the ranges, or let the provider open the device");
  auto part = dram_.allocate(round_up_to(facts_.generation.region, len));
  if (!part) part = dram_.allocate(len);
  if (!part) return error{-FI_ENOMEM};
  return mapping::attach_synapse(facts_.thunk, facts_.fd.get(), part->base, part->len, true);
}

result<void> device_memory::add_region(result<mapping> got) {
  if (!got) return got.failure();
  const std::uint64_t base = got->base();
  const std::uint64_t size = got->len();
  try {
    regions_.emplace(base, *std::move(got));
    blocks_.add_region(base, size);
  } catch (...) {
    regions_.erase(base);
    dram_.free(base);
    throw;
  }
  return {};
}

pin_count& device_memory::spare_pins() {
  if (!spare_pins_) spare_pins_ = &pins_.emplace_back();
  return *spare_pins_;
}

result<void> device_memory::publish(location added) {
  added.pins = &spare_pins();
  const auto [at, fresh] = records_.emplace(
      added.base,
      record{added.len, added.map_base, added.allocation_id, added.adopted, added.pins});
  if (!fresh) return error{-EEXIST};
  try {
    added.pins->open(added.allocation_id);
    if (map_.insert(added)) {
      spare_pins_ = added.pins->next_spare;
      return {};
    }
  } catch (...) {
    records_.erase(at);
    throw;
  }
  records_.erase(at);
  return error{-EEXIST};
}

result<std::uint64_t> device_memory::allocate(std::uint64_t len, purpose what_for) {
  return hl::or_no_memory([&]() -> result<std::uint64_t> {
    const base::scoped_lock lock(mutex_);
    auto block = blocks_.allocate(len);
    if (!block) {
      if (const auto rc = grow(len); !rc) return rc.failure();
      block = blocks_.allocate(len);
    }
    if (!block) return error{-FI_ENOMEM};
    try {
      const auto rc = publish({.base = block->base,
                               .len = len,
                               .map_base = block->region,
                               .map_len = regions_.at(block->region).len(),
                               .allocation_id = next_allocation_id()});
      if (!rc) {
        blocks_.free(block->base);
        return rc.failure();
      }
      records_.at(block->base).what_for = what_for;
      internal_records_ += what_for == purpose::internal;
      return block->base;
    } catch (...) {
      blocks_.free(block->base);
      throw;
    }
  });
}

device_memory::regions::iterator device_memory::smallest_empty_region() noexcept {
  auto smallest = regions_.end();
  for (auto at = regions_.begin(); at != regions_.end(); ++at)
    if (blocks_.is_empty(at->first) &&
        (smallest == regions_.end() || at->second.len() < smallest->second.len()))
      smallest = at;
  return smallest;
}

bool device_memory::release_empty_regions(regions::iterator spare) noexcept {
  bool released = false;
  for (auto at = regions_.begin(); at != regions_.end();) {
    // A region whose dma-buf someone still holds cannot go; it stays in use and is tried again
    // later.
    if (at == spare || !blocks_.is_empty(at->first) || !at->second.release()) {
      ++at;
      continue;
    }
    blocks_.remove_region(at->first);
    dram_.free(at->first);
    at = regions_.erase(at);
    released = true;
  }
  return released;
}

result<std::uint64_t> device_memory::close_to_pins(std::uint64_t addr, bool adopted) noexcept {
  const auto at = records_.find(addr);
  if (at == records_.end() || at->second.adopted != adopted || at->second.being_freed)
    return error{-FI_EINVAL};
  if (!at->second.pins->close(at->second.allocation_id)) return error{-FI_EBUSY};
  at->second.being_freed = true;
  return at->second.allocation_id;
}

// Whether it goes is decided once, by its pins; only then are the observers told, without the lock,
// since ending a registration takes the kernel a while. Nothing is given back before they are done.
result<void> device_memory::part_with(std::uint64_t addr, bool adopted) noexcept {
  const auto allocation_id = [&] {
    const base::scoped_lock lock(mutex_);
    return close_to_pins(addr, adopted);
  }();
  if (!allocation_id) return allocation_id.failure();
  free_observers_.notify([&](free_observer& one) { one.on_free(*allocation_id); });
  return {};
}

void device_memory::forget(std::uint64_t addr) noexcept {
  const auto at = records_.find(addr);
  map_.erase(addr);
  internal_records_ -= at->second.what_for == purpose::internal;
  at->second.pins->next_spare = std::exchange(spare_pins_, at->second.pins);
  records_.erase(at);
}

result<void> device_memory::free(std::uint64_t addr) {
  if (const auto rc = part_with(addr, false); !rc) return rc;
  const base::scoped_lock lock(mutex_);
  forget(addr);
  blocks_.free(addr);
  // One spare saves the next allocation a driver call and a page that must be mapped and exported
  // again. On the application's device it would be missing there.
  release_empty_regions(facts_.attributes.owned ? smallest_empty_region() : regions_.end());
  return {};
}

bool device_memory::is_own_memory(std::uint64_t base, std::uint64_t len) const noexcept {
  if (!facts_.generation.physical_addresses)
    return is_device_address(base) && is_device_address(base + (len - 1));
  return base >= facts_.dram_base && len <= facts_.attributes.hbm_size &&
         base - facts_.dram_base <= facts_.attributes.hbm_size - len;
}

result<void> device_memory::adopt_range(std::uint64_t addr, std::uint64_t len,
                                        std::uint64_t map_base, std::uint64_t map_len) {
  if (len == 0 || len > map_len || addr < map_base || addr - map_base > map_len - len ||
      !is_own_memory(map_base, map_len))
    return error{-FI_EINVAL};
  map_len = suballocator::round_up(map_len);  // as the driver does
  return make_known({.base = addr, .len = len, .map_base = map_base, .map_len = map_len},
                    mapping::attach_synapse(facts_.thunk, facts_.fd.get(), map_base, map_len,
                                            facts_.generation.physical_addresses));
}

result<void> device_memory::make_known(const location& added, mapping whole) {
  return hl::or_no_memory([&]() -> result<void> {
    const base::scoped_lock lock(mutex_);
    if (manages_hbm() || overlaps_region(added.map_base, added.map_len)) return error{-EEXIST};
    const auto at = borrowed_.try_emplace(added.map_base, adopted_mapping{std::move(whole)}).first;
    if (at->second.map.len() != added.map_len) return error{-FI_EINVAL};
    const auto drop_unused = [&]() GAUDI_REQUIRES(mutex_) {
      if (at->second.ranges == 0) borrowed_.erase(at);
    };
    try {
      location named = added;
      named.allocation_id = next_allocation_id();
      named.adopted = true;
      const auto rc = publish(named);
      if (rc) ++at->second.ranges;
      drop_unused();
      return rc;
    } catch (...) {
      drop_unused();
      throw;
    }
  });
}

bool device_memory::overlaps_region(std::uint64_t base, std::uint64_t len) const noexcept {
  auto after = regions_.upper_bound(base);
  if (after != regions_.end() && after->first - base < len) return true;
  return after != regions_.begin() &&
         holds(std::prev(after)->first, std::prev(after)->second.len(), base);
}

result<void> device_memory::release_range(std::uint64_t addr) {
  if (const auto rc = part_with(addr, true); !rc) return rc;
  const base::scoped_lock lock(mutex_);
  const auto at = borrowed_.find(records_.find(addr)->second.map_base);
  forget(addr);
  if (--at->second.ranges == 0) borrowed_.erase(at);
  return {};
}

result<location> device_memory::pin_in(unowned_pin& held, std::uint64_t addr,
                                       std::uint64_t len) noexcept {
  auto where = find(addr, len);
  if (!where) return where;
  if (where->pins->add(where->allocation_id)) {
    held.pins_ = where->pins;
  } else {
    counters_.stale_refusals.add();
    where = error{-FI_ENOENT};
  }
  return where;
}

mapping& device_memory::mapping_at(std::uint64_t map_base) noexcept {
  const auto own = regions_.find(map_base);
  return own != regions_.end() ? own->second : borrowed_.find(map_base)->second.map;
}

bool device_memory::close_dmabufs() noexcept {
  const base::scoped_lock lock(mutex_);
  bool any = false;
  for (auto& [base, own] : regions_) any |= own.close_dmabuf();
  for (auto& [base, borrowed] : borrowed_) any |= borrowed.map.close_dmabuf();
  return any;
}

result<dmabuf> device_memory::export_dmabuf(std::uint64_t addr, std::uint64_t len) {
  const base::scoped_lock lock(mutex_);
  const auto at = find(addr, len);
  if (!at) return at.failure();
  mapping& whole = mapping_at(at->map_base);
  const bool first = !whole.exported();
  auto fd = whole.export_dmabuf();
  if (first && whole.exported()) counters_.exports.add();
  if (!fd) {
    if (fd.code() == -FI_EOPNOTSUPP && !std::exchange(warned_no_export_, true))
      GAUDI_WARN(
          MR,
          "%s cannot be exported as dma-buf by this driver, so its data is staged through host "
          "memory. A habanalabs driver newer than Linux 6.1's exports.\n",
          facts_.attributes.bus_id.c_str());
    return fd.failure();
  }
  return dmabuf{
      .fd = *std::move(fd), .offset = addr - at->map_base, .len = len, .base_addr = at->map_base};
}

std::size_t device_memory::user_records() const {
  const base::scoped_lock lock(mutex_);
  return records_.size() - internal_records_;
}

std::uint64_t device_memory::free_bytes() const {
  const base::scoped_lock lock(mutex_);
  return dram_.free_bytes() + blocks_.free_bytes();
}

void device_memory::abandon() noexcept {
  const base::scoped_lock lock(mutex_);
  for (auto& [base, map] : regions_) map.abandon();
  for (auto& [base, borrowed] : borrowed_) borrowed.map.abandon();
}

}  // namespace gaudi::device
