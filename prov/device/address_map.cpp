// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "device/address_map.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>

namespace gaudi::device {
namespace {

// Memory order without fences (ThreadSanitizer does not know them): the writer's stores release,
// the readers' loads acquire. A reader that sees any word of a change therefore also sees the odd
// sequence written before it, and looks again. On x86 both are plain moves.
constexpr auto acquire = std::memory_order_acquire;
constexpr auto release = std::memory_order_release;
constexpr auto relaxed = std::memory_order_relaxed;

constexpr std::size_t initial_capacity = 64;
constexpr unsigned min_shift = 12;  // allocations begin at multiples of 4 KiB

}  // namespace

address_map::address_map() {
  reserve(initial_capacity);
}

void address_map::store(entry& to, const location& from) noexcept {
  to.base.store(from.base, release);
  to.len.store(from.len, release);
  to.map_base.store(from.map_base, release);
  to.map_len.store(from.map_len, release);
  to.allocation_id.store(from.allocation_id, release);
  to.adopted.store(from.adopted ? 1 : 0, release);
  to.pins.store(from.pins, release);
}

inline location address_map::load(const entry& from) noexcept {
  return {.base = from.base.load(acquire),
          .len = from.len.load(acquire),
          .map_base = from.map_base.load(acquire),
          .map_len = from.map_len.load(acquire),
          .allocation_id = from.allocation_id.load(acquire),
          .adopted = from.adopted.load(acquire) != 0,
          .pins = from.pins.load(acquire)};
}

// What a reader sees of a change may be anything that was ever written here, so it stays inside the
// array whatever that is.
inline std::size_t address_map::upper_bound(const array& in, std::size_t count,
                                            std::uint64_t addr) noexcept {
  if (count == 0 || addr < in.origin.load(acquire)) return 0;
  const std::uint64_t last = in.last_slot.load(acquire);
  const std::uint64_t slot = std::min<std::uint64_t>(in.slot_of(addr), last);
  std::size_t first = in.begins[slot].load(acquire);
  const std::size_t end = slot == last ? count : in.begins[slot + 1].load(acquire);
  std::size_t left = end > first ? end - first : 0;
  while (left > 0) {
    const std::size_t half = left / 2;
    if (in.entries[first + half].base.load(acquire) <= addr) {
      first += half + 1;
      left -= half + 1;
    } else {
      left = half;
    }
  }
  return first;
}

void address_map::reserve(std::size_t count) {
  const array* const now = array_.load(relaxed);
  if (now && count <= now->capacity) return;
  arrays_.push_back(std::make_unique<array>(now ? 2 * now->capacity : initial_capacity));
  array& bigger = current();
  const std::size_t known = count_.load(relaxed);
  for (std::size_t i = 0; i < known; ++i) store(bigger.entries[i], load(now->entries[i]));
  spread(bigger, known);
  array_.store(&bigger, release);
}

// Cuts anew, with room for as much again above and some below.
void address_map::spread(array& over, std::size_t count) noexcept {
  const std::uint64_t lowest = count ? over.entries[0].base.load(relaxed) : 0;
  const std::uint64_t highest = count ? over.entries[count - 1].base.load(relaxed) : 0;
  const std::uint64_t span = highest - lowest;
  const std::uint64_t below = std::min(lowest, span / 4);
  unsigned shift = min_shift;
  while (((span + below) >> shift) >= over.slots / 2) ++shift;
  over.origin.store(lowest - below, release);
  over.shift.store(shift, release);
  std::size_t slot = 0;
  for (std::size_t i = 0; i < count; ++i) {
    for (const std::size_t own = over.slot_of(over.entries[i].base.load(relaxed)); slot <= own;)
      over.begins[slot++].store(static_cast<std::uint32_t>(i), release);
  }
  if (slot == 0) over.begins[slot++].store(0, release);
  over.last_slot.store(slot - 1, release);
}

// `count`: with it.
void address_map::note_inserted(array& in, std::size_t count, std::uint64_t base) noexcept {
  if (count == 1 || base < in.origin.load(relaxed) || in.slot_of(base) >= in.slots)
    return spread(in, count);
  const std::size_t slot = in.slot_of(base);
  std::size_t last = in.last_slot.load(relaxed);
  for (std::size_t s = slot + 1; s <= last; ++s)
    in.begins[s].store(in.begins[s].load(relaxed) + 1, release);
  while (last < slot) in.begins[++last].store(static_cast<std::uint32_t>(count - 1), release);
  in.last_slot.store(last, release);
}

// `count`: without it.
void address_map::note_erased(array& in, std::size_t count, std::uint64_t base) noexcept {
  std::size_t last = in.last_slot.load(relaxed);
  for (std::size_t s = in.slot_of(base) + 1; s <= last; ++s)
    in.begins[s].store(in.begins[s].load(relaxed) - 1, release);
  while (last > 0 && in.begins[last].load(relaxed) == count) --last;
  in.last_slot.store(last, release);
}

void address_map::begin_change() noexcept {
  sequence_.store(sequence_.load(relaxed) + 1, relaxed);
}

void address_map::end_change() noexcept {
  sequence_.store(sequence_.load(relaxed) + 1, release);
}

bool address_map::insert(const location& added) {
  const std::size_t count = count_.load(relaxed);
  // A reader that holds the old array and the new count is told by the sequence, but it must
  // not read past the array's end meanwhile: find() takes the count first, and the array only
  // grows.
  reserve(count + 1);
  array& in = current();
  entry* const entries = in.entries.get();
  const std::size_t at = upper_bound(in, count, added.base);
  if (at > 0) {
    const location before = load(entries[at - 1]);
    if (added.base - before.base < before.len) return false;
  }
  if (at < count && entries[at].base.load(relaxed) - added.base < added.len) return false;

  begin_change();
  for (std::size_t i = count; i > at; --i) store(entries[i], load(entries[i - 1]));
  store(entries[at], added);
  note_inserted(in, count + 1, added.base);
  count_.store(count + 1, release);
  end_change();
  return true;
}

bool address_map::erase(std::uint64_t base) noexcept {
  const std::size_t count = count_.load(relaxed);
  array& in = current();
  entry* const entries = in.entries.get();
  const std::size_t after = upper_bound(in, count, base);
  if (after == 0 || entries[after - 1].base.load(relaxed) != base) return false;

  begin_change();
  for (std::size_t i = after; i < count; ++i) store(entries[i - 1], load(entries[i]));
  note_erased(in, count - 1, base);
  count_.store(count - 1, release);
  end_change();
  return true;
}

base::result<location> address_map::find(std::uint64_t addr, std::uint64_t len) const noexcept {
  if (len == 0) return base::error{-FI_EINVAL};
  for (;;) {
    const std::uint64_t sequence = sequence_.load(acquire);
    if ((sequence & 1) != 0) continue;
    const std::size_t count = count_.load(acquire);
    const array& in = *array_.load(acquire);
    const std::size_t after = upper_bound(in, count, addr);
    // What is there instead of none is not looked at.
    location found = load(in.entries[after > 0 ? after - 1 : 0]);
    if (sequence_.load(relaxed) != sequence) continue;

    found.offset = addr - found.base;
    if (after == 0 || found.offset >= found.len) return base::error{-FI_ENOENT};
    if (len > found.len - found.offset) return base::error{-FI_EINVAL};
    return found;
  }
}

}  // namespace gaudi::device
