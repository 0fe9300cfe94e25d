// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace gaudi::ipc {

/// How far the two ends of a ring have come, in bytes since the start; in memory that both map.
/// Each word has a cache line of its own, as one end writes what the other polls.
struct ring_control {
  alignas(64) std::atomic<std::uint64_t> written{0};  ///< published by the writer
  alignas(64) std::atomic<std::uint64_t> taken{0};    ///< published by the reader, now and then
  alignas(64) std::atomic<std::uint32_t> sleeps{0};   ///< the reader waits for a doorbell
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// Largest packet of a ring of this capacity, in bytes: room for two is always left or coming,
/// wherever in the ring they start, with their lengths and what is left over at its end.
inline constexpr std::size_t largest_packet(std::size_t capacity) noexcept {
  return capacity / 3 - 16;
}
/// Bytes of the smallest ring for packets of this length.
inline constexpr std::size_t ring_capacity(std::size_t packet) noexcept {
  return std::bit_ceil(3 * (packet + 16));
}

/// The one end that writes packets: contiguous bytes of any length from 1 up to largest_packet,
/// starting on 8 bytes. One thread at a time.
class ring_writer {
 public:
  /// `capacity` is a power of two from 1024 on; `data` that many bytes, `control` and `data` from
  /// the same segment, which outlives the writer.
  ring_writer(ring_control& control, std::byte* data, std::size_t capacity) noexcept
      : control_(control), data_(data), capacity_(capacity) {}

  /// Room for a packet, to be filled and committed; null: the reader is behind. What was reserved
  /// and not committed is forgotten by the next call.
  [[nodiscard]] std::byte* reserve(std::size_t length) noexcept;
  /// Hands the reserved packet to the reader. Whether that went to sleep and has to be woken, told
  /// once for each time; to find out costs a memory barrier, so not unless it `may_sleep`.
  [[nodiscard]] bool commit(bool may_sleep) noexcept;

 private:
  [[nodiscard]] bool has_room(std::uint64_t until) noexcept;

  ring_control& control_;
  std::byte* const data_;
  const std::size_t capacity_;
  std::uint64_t position_ = 0;
  std::uint64_t reserved_until_ = 0;
  std::uint64_t taken_ = 0;  // as last seen
};

/// The one end that takes packets. What is in the ring is another process's word: nothing outside
/// the ring is touched, whatever it says. One thread at a time.
class ring_reader {
 public:
  /// As ring_writer.
  ring_reader(ring_control& control, const std::byte* data, std::size_t capacity) noexcept
      : control_(control), data_(data), capacity_(capacity) {}

  /// Whether front() would give nothing, and the ring is not damaged.
  [[nodiscard]] bool is_empty() const noexcept {
    return written_ == position_ && control_.written.load(std::memory_order_acquire) == position_;
  }
  /// The oldest packet, valid until pop(); empty: there is none, or the ring is damaged.
  [[nodiscard]] std::span<const std::byte> front() noexcept;
  /// Gives the packet's room back. Only after front() gave one.
  void pop() noexcept;
  /// Says that the writer has to wake this end from now on. False: a packet is there.
  [[nodiscard]] bool sleep() noexcept;
  /// The writer broke the rules: nothing more comes out.
  [[nodiscard]] bool damaged() const noexcept { return damaged_; }

 private:
  [[nodiscard]] bool anything() noexcept;
  void skip_to(std::uint64_t position) noexcept;

  ring_control& control_;
  const std::byte* const data_;
  const std::size_t capacity_;
  std::uint64_t position_ = 0;
  std::uint64_t front_end_ = 0;
  std::uint64_t written_ = 0;  // as last seen
  std::uint64_t told_ = 0;     // published in control_.taken
  bool damaged_ = false;
};

}  // namespace gaudi::ipc
