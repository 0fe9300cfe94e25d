// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace gaudi::proto {

struct buffer;

/// The packets of one direction of a session that its peer may not have received yet, oldest first
/// and numbered without a gap. Short ones are copied; of others the buffer is kept.
///
/// Not thread safe: the caller holds the domain lock.
class sent_packets {
 public:
  /// A packet that is kept: either the buffer, or bytes.
  struct packet {
    std::uint32_t number = 0;
    buffer* whole = nullptr;
    std::span<std::byte> bytes;
  };

  [[nodiscard]] bool empty() const noexcept { return used_ == freed_; }
  /// The number of the oldest, or of the next that is added.
  [[nodiscard]] std::uint32_t first() const noexcept { return first_; }
  /// Bytes of memory that it has.
  [[nodiscard]] std::size_t capacity() const noexcept { return ring_.size(); }

  /// Room for one more of so many bytes; a buffer takes none. False: there is no memory.
  [[nodiscard]] bool reserve(std::size_t bytes) noexcept { return has_room(bytes) || grow(bytes); }
  // After reserve().
  void add(const std::byte* bytes, std::size_t length) noexcept {
    std::memcpy(begin_record(length, length), bytes, length);
  }
  void add(buffer& whole) noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(&whole);
    std::memcpy(begin_record(word, is_buffer), &address, word);
  }

  /// Forgets all up to this number, and calls release(buffer&) for those that are buffers.
  template <class Release>
  void forget_until(std::uint32_t number, Release&& release) {
    while (!empty() && static_cast<std::int32_t>(number - first_) >= 0) {
      const packet oldest = at(freed_);
      freed_ = behind(freed_);
      ++first_;
      if (oldest.whole) release(*oldest.whole);
    }
  }

  /// Calls visit(packet), from the one of this number on, until it says false.
  template <class Visit>
  void each_from(std::uint32_t number, Visit&& visit) {
    std::uint32_t current = first_;
    for (std::size_t place = freed_; place != used_; place = behind(place), ++current) {
      if (static_cast<std::int32_t>(current - number) < 0) continue;
      packet p = at(place);
      p.number = current;
      if (!visit(p)) return;
    }
  }

 private:
  // A record is its length and the bytes, and lies in one piece. Places count on without end.
  static constexpr std::uint64_t is_buffer = std::uint64_t{1} << 32;
  static constexpr std::uint64_t skip = std::uint64_t{1} << 33;  // to the start of the ring
  static constexpr std::size_t word = sizeof(std::uint64_t);

  [[nodiscard]] static constexpr std::size_t padded(std::size_t bytes) noexcept {
    return word + ((bytes + word - 1) & ~(word - 1));
  }
  [[nodiscard]] std::size_t mask(std::size_t place) const noexcept {
    return place & (ring_.size() - 1);
  }
  [[nodiscard]] bool has_room(std::size_t bytes) const noexcept {
    const std::size_t needed = padded(bytes < word ? word : bytes);
    const std::size_t left = ring_.size() - (used_ - freed_);
    const std::size_t to_end = ring_.empty() ? 0 : ring_.size() - mask(used_);
    return needed <= to_end ? needed <= left : to_end + needed <= left;
  }
  [[nodiscard]] std::byte* begin_record(std::size_t bytes, std::uint64_t head) noexcept {
    const std::size_t needed = padded(bytes);
    const std::size_t to_end = ring_.size() - mask(used_);
    if (needed > to_end) [[unlikely]] {
      std::memcpy(&ring_[mask(used_)], &skip, word);
      used_ += to_end;
    }
    std::byte* const to = &ring_[mask(used_)];
    std::memcpy(to, &head, word);
    used_ += needed;
    return to + word;
  }
  [[nodiscard]] std::uint64_t head_at(std::size_t place) const noexcept {
    std::uint64_t head = 0;
    std::memcpy(&head, &ring_[mask(place)], word);
    return head;
  }
  // Where the record begins that is found at this place.
  [[nodiscard]] std::size_t start(std::size_t place) const noexcept {
    return head_at(place) == skip ? place + ring_.size() - mask(place) : place;
  }
  [[nodiscard]] std::size_t behind(std::size_t place) const noexcept {
    const std::size_t from = start(place);
    const std::uint64_t head = head_at(from);
    return from + padded(head == is_buffer ? word : static_cast<std::size_t>(head));
  }
  [[nodiscard]] packet at(std::size_t place) noexcept;
  bool grow(std::size_t bytes) noexcept;

  std::vector<std::byte> ring_;  // its size is a power of two
  std::size_t used_ = 0;
  std::size_t freed_ = 0;
  std::uint32_t first_ = 1;
};

}  // namespace gaudi::proto
