// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.hpp"
#include "device/location.hpp"

namespace gaudi::device {

/// Allocations by address: one writer at a time (the caller sees to it), any number of readers, who
/// take no lock and never allocate. A sorted array under a sequence lock: a reader that meets a
/// change looks again. The range of addresses is cut into equal slots, twice as many as entries
/// have room, that tell where in the array a search has to begin: where allocations are spread
/// evenly it is over after one or two. Arrays that were outgrown live until the map does, since a
/// reader may still be in one; they double, so together they take no more than the current one.
class address_map {
 public:
  address_map();
  address_map(const address_map&) = delete;
  address_map& operator=(const address_map&) = delete;

  /// Writer. False: it overlaps a known allocation. `entry.offset` is not kept.
  /// Throws std::bad_alloc, with the map as it was.
  bool insert(const location& entry);
  /// Writer. False: no allocation begins at `base`.
  bool erase(std::uint64_t base) noexcept;

  /// Any thread. The allocation that holds [addr, addr + len). -FI_EINVAL: zero length, or the
  /// range runs past the end of the allocation; -FI_ENOENT: `addr` is in none.
  [[nodiscard]] base::result<location> find(std::uint64_t addr, std::uint64_t len) const noexcept;

 private:
  // Words are atomic because readers look while the writer moves them; the sequence tells whether
  // what they saw belongs together.
  struct alignas(64) entry {
    std::atomic<std::uint64_t> base, len, map_base, map_len, allocation_id, adopted;
    std::atomic<pin_count*> pins;
  };
  using word = std::atomic<std::uint64_t>;
  using place = std::atomic<std::uint32_t>;
  struct array {
    explicit array(std::size_t size)
        : capacity(size),
          slots(2 * size),
          entries(std::make_unique<entry[]>(size)),
          begins(std::make_unique<place[]>(slots)) {}

    [[nodiscard]] std::size_t slot_of(std::uint64_t addr) const noexcept {
      return (addr - origin.load(std::memory_order_acquire)) >>
             shift.load(std::memory_order_acquire);
    }

    const std::size_t capacity;
    const std::size_t slots;
    word origin{0};     // where slot 0 begins
    word shift{0};      // a slot has 2^shift bytes
    word last_slot{0};  // with an entry; those behind it are not kept
    const std::unique_ptr<entry[]> entries;
    const std::unique_ptr<place[]> begins;  // of each slot: the first entry in it, or behind it
  };

  static void store(entry& to, const location& from) noexcept;
  [[nodiscard]] static location load(const entry& from) noexcept;
  [[nodiscard]] static std::size_t upper_bound(const array& in, std::size_t count,
                                               std::uint64_t addr) noexcept;
  void reserve(std::size_t count);
  static void spread(array& over, std::size_t count) noexcept;
  static void note_inserted(array& in, std::size_t count, std::uint64_t base) noexcept;
  static void note_erased(array& in, std::size_t count, std::uint64_t base) noexcept;
  [[nodiscard]] array& current() noexcept { return *arrays_.back(); }
  void begin_change() noexcept;
  void end_change() noexcept;

  std::atomic<std::uint64_t> sequence_{0};  // odd while the writer is at work
  std::atomic<const array*> array_{nullptr};
  std::atomic<std::size_t> count_{0};
  std::vector<std::unique_ptr<array>> arrays_;  // writer only; the last one is current
};

}  // namespace gaudi::device
