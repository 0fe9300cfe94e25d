// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
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

/// Before each packet: its length in bytes. The rest of the ring's end is skipped where a packet
/// would not lie in one piece.
using length_word = std::uint64_t;
inline constexpr length_word to_the_end = ~length_word{0};
/// Bytes that a packet takes, with its length.
inline constexpr std::uint64_t record(std::uint64_t length) noexcept {
  return sizeof(length_word) + ((length + 7) & ~std::uint64_t{7});
}

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
      : control_(control),
        data_(data),
        capacity_(capacity),
        max_packet_(largest_packet(capacity)) {}

  /// Room for a packet, to be filled and committed; null: the reader is behind. What was reserved
  /// and not committed is forgotten by the next call.
  [[nodiscard]] std::byte* reserve(std::size_t length) noexcept {
    if (length > max_packet_) return nullptr;
    const std::uint64_t offset = position_ & (capacity_ - 1);
    const bool is_in_one_piece = record(length) <= capacity_ - offset;
    if (!is_in_one_piece || position_ + record(length) - taken_ > capacity_) [[unlikely]]
      return find_room(length);
    return begin(position_, length);
  }
  /// Hands the reserved packet to the reader. Whether that went to sleep and has to be woken, told
  /// once for each time; to find out costs a memory barrier, so not unless it `may_sleep`.
  [[nodiscard]] bool commit(bool may_sleep) noexcept {
    position_ = reserved_until_;
    if (may_sleep) return commit_for_sleeper();
    control_.written.store(position_, std::memory_order_release);
    return false;
  }

 private:
  [[nodiscard]] std::byte* begin(std::uint64_t at, std::size_t length) noexcept {
    std::byte* const place = data_ + (at & (capacity_ - 1));
    const length_word word = length;
    std::memcpy(place, &word, sizeof word);
    reserved_until_ = at + record(length);
    return place + sizeof word;
  }
  [[nodiscard]] std::byte* find_room(std::size_t length) noexcept;
  [[nodiscard]] bool commit_for_sleeper() noexcept;
  [[nodiscard]] bool has_room(std::uint64_t until) noexcept;

  ring_control& control_;
  std::byte* const data_;
  const std::size_t capacity_;
  const std::size_t max_packet_;
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
      : control_(control),
        data_(data),
        capacity_(capacity),
        max_packet_(largest_packet(capacity)) {}

  /// Whether front() would give nothing, and the ring is not damaged.
  [[nodiscard]] bool is_empty() const noexcept {
    return written_ == position_ && control_.written.load(std::memory_order_acquire) == position_;
  }
  /// The oldest packet, valid until pop(); empty: there is none, or the ring is damaged.
  [[nodiscard]] std::span<const std::byte> front() noexcept {
    while (!damaged_ && anything()) {
      const std::uint64_t offset = position_ & (capacity_ - 1);
      const std::uint64_t left = capacity_ - offset;
      const std::uint64_t there = written_ - position_;
      // Read once, whatever the writer makes of it after that.
      const length_word length =
          __atomic_load_n(reinterpret_cast<const length_word*>(data_ + offset), __ATOMIC_RELAXED);
      if (length - 1 < max_packet_ && record(length) <= std::min(left, there)) [[likely]] {
        front_end_ = position_ + record(length);
        return {data_ + offset + sizeof length, length};
      }
      if (length == to_the_end && left < there) {
        skip_to(position_ + left);
      } else {
        damaged_ = true;
      }
    }
    return {};
  }
  /// Gives the packet's room back. Only after front() gave one.
  void pop() noexcept { skip_to(front_end_); }
  /// Says that the writer has to wake this end from now on. False: a packet is there.
  [[nodiscard]] bool sleep() noexcept;
  /// The writer broke the rules: nothing more comes out.
  [[nodiscard]] bool damaged() const noexcept { return damaged_; }

 private:
  [[nodiscard]] bool anything() noexcept { return written_ != position_ || look_again(); }
  [[nodiscard]] bool look_again() noexcept;
  void skip_to(std::uint64_t position) noexcept {
    position_ = position;
    // A writer that has to wait has a third of the ring before it that was not read, so it need not
    // hear of each packet: the word would move between the processors' caches every time.
    if (position_ - told_ >= capacity_ / 4) [[unlikely]]
      tell();
  }
  void tell() noexcept;

  ring_control& control_;
  const std::byte* const data_;
  const std::size_t capacity_;
  const std::size_t max_packet_;
  std::uint64_t position_ = 0;
  std::uint64_t front_end_ = 0;
  std::uint64_t written_ = 0;  // as last seen
  std::uint64_t told_ = 0;     // published in control_.taken
  bool damaged_ = false;
};

}  // namespace gaudi::ipc
