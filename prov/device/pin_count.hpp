// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <atomic>
#include <cstdint>

namespace gaudi::device {

/// The pins on an allocation, and whether it may still be pinned, in one word: between the two
/// there is no moment, and no lock. Serves one allocation after the other and lives as long as the
/// device, so that who comes too late with an old number (location::generation) may still look.
class pin_count {
 public:
  /// An allocation begins here.
  void open(std::uint64_t allocation_id) noexcept {
    word_.store(allocation_id << count_bits, std::memory_order_release);
  }
  /// False: that allocation is gone, or about to be; or has too many pins.
  bool add(std::uint64_t allocation_id) noexcept {
    std::uint64_t now = word_.load(std::memory_order_relaxed);
    do {
      if (now >> count_bits != allocation_id || (now & most) == most) return false;
    } while (!word_.compare_exchange_weak(now, now + 1, std::memory_order_acquire,
                                          std::memory_order_relaxed));
    return true;
  }
  void drop() noexcept { word_.fetch_sub(1, std::memory_order_release); }
  /// Nobody can pin it from here on. False: somebody has.
  bool close(std::uint64_t allocation_id) noexcept {
    std::uint64_t unpinned = allocation_id << count_bits;
    return word_.compare_exchange_strong(unpinned, 0, std::memory_order_acq_rel,
                                         std::memory_order_relaxed);
  }

  pin_count* next_spare = nullptr;  ///< of those without an allocation; the device's

 private:
  // 2^40 allocations take a day at ten million a second.
  static constexpr unsigned count_bits = 24;
  static constexpr std::uint64_t most = (std::uint64_t{1} << count_bits) - 1;

  std::atomic<std::uint64_t> word_{0};  // generation and count; 0: closed
};

}  // namespace gaudi::device
