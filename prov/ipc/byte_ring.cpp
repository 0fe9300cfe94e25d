// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ipc/byte_ring.hpp"

#include <cstring>

namespace gaudi::ipc {
namespace {

// Before each packet: its length. The rest of the ring's end is skipped where a packet would not
// lie in one piece.
using length_word = std::uint64_t;
constexpr length_word to_the_end = ~length_word{0};

constexpr std::uint64_t rounded(std::uint64_t length) noexcept {
  return (length + 7) & ~std::uint64_t{7};
}

constexpr std::uint64_t record(std::uint64_t length) noexcept {
  return sizeof(length_word) + rounded(length);
}

}  // namespace

bool ring_writer::has_room(std::uint64_t until) noexcept {
  if (until - taken_ <= capacity_) return true;
  taken_ = control_.taken.load(std::memory_order_acquire);
  return until - taken_ <= capacity_;
}

std::byte* ring_writer::reserve(std::size_t length) noexcept {
  if (length > largest_packet(capacity_)) return nullptr;
  std::uint64_t begin = position_;
  const std::uint64_t left = capacity_ - (begin & (capacity_ - 1));
  if (left < record(length)) {
    if (!has_room(begin + left + record(length))) return nullptr;
    std::memcpy(data_ + (begin & (capacity_ - 1)), &to_the_end, sizeof to_the_end);
    begin += left;
  }
  if (!has_room(begin + record(length))) return nullptr;
  std::byte* const place = data_ + (begin & (capacity_ - 1));
  const length_word word = length;
  std::memcpy(place, &word, sizeof word);
  reserved_until_ = begin + record(length);
  return place + sizeof word;
}

// All these are in one order: either the reader sees the packet before it sleeps, or this sees that
// it does.
bool ring_writer::commit(bool may_sleep) noexcept {
  position_ = reserved_until_;
  if (!may_sleep) {
    control_.written.store(position_, std::memory_order_release);
    return false;
  }
  control_.written.store(position_, std::memory_order_seq_cst);
  return control_.sleeps.load(std::memory_order_seq_cst) != 0 && control_.sleeps.exchange(0) != 0;
}

bool ring_reader::anything() noexcept {
  if (written_ != position_) return true;
  const std::uint64_t written = control_.written.load(std::memory_order_seq_cst);
  if (written == position_) return false;
  // Behind us, or more than there is room for.
  if (written - position_ > capacity_ || (written & 7) != 0) {
    damaged_ = true;
    return false;
  }
  written_ = written;
  return true;
}

void ring_reader::skip_to(std::uint64_t position) noexcept {
  position_ = position;
  // A writer that has to wait has a third of the ring before it that was not read, so it need not
  // hear of each packet: the word would move between the processors' caches every time.
  if (position_ - told_ < capacity_ / 4) return;
  told_ = position_;
  control_.taken.store(told_, std::memory_order_release);
}

std::span<const std::byte> ring_reader::front() noexcept {
  while (!damaged_ && anything()) {
    const std::uint64_t offset = position_ & (capacity_ - 1);
    const std::uint64_t left = capacity_ - offset;
    length_word length = 0;
    std::memcpy(&length, data_ + offset, sizeof length);
    const std::uint64_t there = written_ - position_;
    if (length == to_the_end && left < there) {
      skip_to(position_ + left);
      continue;
    }
    if (length == 0 || length > largest_packet(capacity_) || record(length) > left ||
        record(length) > there) {
      damaged_ = true;
      break;
    }
    front_end_ = position_ + record(length);
    return {data_ + offset + sizeof length, length};
  }
  return {};
}

void ring_reader::pop() noexcept {
  skip_to(front_end_);
}

bool ring_reader::sleep() noexcept {
  control_.sleeps.store(1, std::memory_order_seq_cst);
  if (!anything()) return !damaged_;
  control_.sleeps.store(0, std::memory_order_relaxed);
  return false;
}

}  // namespace gaudi::ipc
