// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "device/address_map.hpp"

#include <rdma/fi_errno.h>

namespace gaudi::device {
namespace {

// Memory order without fences (ThreadSanitizer does not know them): the writer's stores release,
// the readers' loads acquire. A reader that sees any word of a change therefore also sees the odd
// sequence written before it, and looks again. On x86 both are plain moves.
constexpr auto acquire = std::memory_order_acquire;
constexpr auto release = std::memory_order_release;
constexpr auto relaxed = std::memory_order_relaxed;

constexpr std::size_t initial_capacity = 64;

}  // namespace

address_map::address_map() {
  reserve(initial_capacity);
}

void address_map::store(entry& to, const location& from) noexcept {
  to.base.store(from.base, release);
  to.len.store(from.len, release);
  to.map_base.store(from.map_base, release);
  to.map_len.store(from.map_len, release);
  to.generation.store(from.generation, release);
  to.adopted.store(from.adopted ? 1 : 0, release);
  to.pins.store(from.pins, release);
}

location address_map::load(const entry& from) noexcept {
  return {.base = from.base.load(acquire),
          .len = from.len.load(acquire),
          .map_base = from.map_base.load(acquire),
          .map_len = from.map_len.load(acquire),
          .generation = from.generation.load(acquire),
          .adopted = from.adopted.load(acquire) != 0,
          .pins = from.pins.load(acquire)};
}

std::size_t address_map::upper_bound(const entry* entries, std::size_t count,
                                     std::uint64_t addr) const noexcept {
  std::size_t first = 0;
  while (count > 0) {
    const std::size_t half = count / 2;
    if (entries[first + half].base.load(acquire) <= addr) {
      first += half + 1;
      count -= half + 1;
    } else {
      count = half;
    }
  }
  return first;
}

void address_map::reserve(std::size_t count) {
  if (count <= capacity_) return;
  const std::size_t capacity = capacity_ == 0 ? initial_capacity : 2 * capacity_;
  arrays_.reserve(arrays_.size() + 1);
  array bigger = std::make_unique<entry[]>(capacity);
  const entry* current = entries_.load(relaxed);
  for (std::size_t i = 0; i < count_.load(relaxed); ++i) store(bigger[i], load(current[i]));
  entries_.store(bigger.get(), release);
  arrays_.push_back(std::move(bigger));
  capacity_ = capacity;
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
  entry* entries = entries_.load(relaxed);
  const std::size_t at = upper_bound(entries, count, added.base);
  if (at > 0) {
    const location before = load(entries[at - 1]);
    if (added.base - before.base < before.len) return false;
  }
  if (at < count && entries[at].base.load(relaxed) - added.base < added.len) return false;

  begin_change();
  for (std::size_t i = count; i > at; --i) store(entries[i], load(entries[i - 1]));
  store(entries[at], added);
  count_.store(count + 1, release);
  end_change();
  return true;
}

bool address_map::erase(std::uint64_t base) noexcept {
  const std::size_t count = count_.load(relaxed);
  entry* entries = entries_.load(relaxed);
  const std::size_t after = upper_bound(entries, count, base);
  if (after == 0 || entries[after - 1].base.load(relaxed) != base) return false;

  begin_change();
  for (std::size_t i = after; i < count; ++i) store(entries[i - 1], load(entries[i]));
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
    const entry* entries = entries_.load(acquire);
    const std::size_t after = upper_bound(entries, count, addr);
    location found;
    if (after > 0) found = load(entries[after - 1]);
    if (sequence_.load(relaxed) != sequence) continue;

    if (after == 0 || addr - found.base >= found.len) return base::error{-FI_ENOENT};
    found.offset = addr - found.base;
    if (len > found.len - found.offset) return base::error{-FI_EINVAL};
    return found;
  }
}

}  // namespace gaudi::device
