// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace gaudi::proto {

struct buffer;

/// The staging slots that a sink has given to its source, by the numbers that both know them by,
/// and how much of the data they still have to carry. A slot that is not needed for that any more
/// is taken back at once, for a transfer that waits for one. Not thread safe.
class granted_slots {
 public:
  /// Of a transfer of `length` bytes, of which a slot carries up to `slot_length` at a time.
  void begin(std::size_t length, std::size_t slot_length) noexcept {
    unseen_ = length;
    slot_length_ = slot_length;
  }

  /// Bytes.
  [[nodiscard]] std::size_t slot_length() const noexcept { return slot_length_; }

  /// Whether the slots at the source do not suffice for what has not come yet.
  [[nodiscard]] bool wants_another() const noexcept {
    return at_source_ * (carries_ != 0 ? carries_ : slot_length_) < unseen_;
  }

  /// Gives it to the source. Its number.
  std::uint32_t give(buffer& slot) {
    slots_.push_back(&slot);
    ++at_source_;
    ++held_;
    return static_cast<std::uint32_t>(slots_.size() - 1);
  }

  /// The slot that the source has filled with `length` bytes. Null: there is none with this number,
  /// or it was taken back, or more has come than there was to come.
  buffer* filled(std::uint32_t number, std::size_t length) noexcept {
    if (number >= slots_.size() || at_source_ == 0 || length > unseen_) return nullptr;
    if (!slots_[number]) return nullptr;
    --at_source_;
    unseen_ -= length;
    carries_ = std::max(carries_, length);
    return slots_[number];
  }

  /// One that is held, and that `wanted` says yes to, or null.
  template <class Wanted>
  [[nodiscard]] buffer* find(Wanted&& wanted) const {
    const auto it = std::find_if(slots_.begin(), slots_.end(),
                                 [&](buffer* slot) { return slot && wanted(*slot); });
    return it == slots_.end() ? nullptr : *it;
  }

  /// A slot that was filled goes to the source again.
  void export_again() noexcept { ++at_source_; }

  /// One that was filled does not.
  void take_back(std::uint32_t number) noexcept {
    slots_[number] = nullptr;
    --held_;
  }

  /// All that are held, at the end of the transfer.
  [[nodiscard]] std::vector<buffer*> take_all() noexcept {
    held_ = 0;
    at_source_ = 0;
    std::vector<buffer*> all = std::exchange(slots_, {});
    std::erase(all, nullptr);
    return all;
  }

  /// Given to the source, or being emptied.
  [[nodiscard]] std::size_t held() const noexcept { return held_; }
  /// Numbers that have been used.
  [[nodiscard]] std::size_t numbers() const noexcept { return slots_.size(); }

 private:
  std::vector<buffer*> slots_;  // null: taken back
  std::size_t held_ = 0;
  std::size_t at_source_ = 0;
  std::size_t unseen_ = 0;  // bytes that no chunk has brought
  std::size_t slot_length_ = 0;
  std::size_t carries_ = 0;  // the longest chunk: the source may prefer shorter ones than we
};

}  // namespace gaudi::proto
