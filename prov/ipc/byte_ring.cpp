// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ipc/byte_ring.hpp"

namespace gaudi::ipc {

bool ring_writer::has_room(std::uint64_t until) noexcept {
  if (until - taken_ <= capacity_) return true;
  taken_ = control_.taken.load(std::memory_order_acquire);
  return until - taken_ <= capacity_;
}

// Not where the last one ended, or only once the reader has been asked how far it is.
std::byte* ring_writer::find_room(std::size_t length) noexcept {
  std::uint64_t at = position_;
  const std::uint64_t left = capacity_ - (at & (capacity_ - 1));
  if (left < record(length)) {
    if (!has_room(at + left + record(length))) return nullptr;
    std::memcpy(data_ + (at & (capacity_ - 1)), &to_the_end, sizeof to_the_end);
    at += left;
  }
  return has_room(at + record(length)) ? begin(at, length) : nullptr;
}

// All these are in one order: either the reader sees the packet before it sleeps, or this sees that
// it does.
bool ring_writer::commit_for_sleeper() noexcept {
  control_.written.store(position_, std::memory_order_seq_cst);
  return control_.sleeps.load(std::memory_order_seq_cst) != 0 && control_.sleeps.exchange(0) != 0;
}

bool ring_reader::look_again() noexcept {
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

void ring_reader::tell() noexcept {
  told_ = position_;
  control_.taken.store(told_, std::memory_order_release);
}

bool ring_reader::sleep() noexcept {
  control_.sleeps.store(1, std::memory_order_seq_cst);
  if (!anything()) return !damaged_;
  control_.sleeps.store(0, std::memory_order_relaxed);
  return false;
}

}  // namespace gaudi::ipc
