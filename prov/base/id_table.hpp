// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <new>
#include <vector>

namespace gaudi::base {

/// Gives objects 32-bit names that can be sent to a peer and looked up safely when they come back:
/// 20 bits of slot number and 12 bits that change at every reuse, so that a stale or invented name
/// finds nothing. Up to 2^20 - 1 objects at once. Owns nothing. Not thread safe.
template <class T>
class id_table {
 public:
  using id = std::uint32_t;
  /// No object has this name.
  static constexpr id invalid = 0;

  /// invalid when the table is full, or memory is short.
  [[nodiscard]] id insert(T* object) noexcept {
    if (free_.empty() && !add_slot()) return invalid;
    const std::uint32_t index = free_.back();
    free_.pop_back();
    slots_[index].object = object;
    return index | (slots_[index].generation << index_bits);
  }

  [[nodiscard]] T* find(std::uint64_t name) const noexcept {
    if (name > UINT32_MAX) return nullptr;
    const std::uint32_t index = static_cast<std::uint32_t>(name) & index_mask;
    if (index >= slots_.size()) return nullptr;
    const slot& s = slots_[index];
    return s.generation == (name >> index_bits) ? s.object : nullptr;
  }

  void erase(id name) noexcept {
    slot& s = slots_[name & index_mask];
    s.object = nullptr;
    s.generation = s.generation == max_generation ? 1 : s.generation + 1;
    free_.push_back(name & index_mask);
  }

  /// Calls visit(T&) for each object; it may erase any.
  template <class Visit>
  void for_each(Visit&& visit) {
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i].object) visit(*slots_[i].object);
    }
  }

  [[nodiscard]] std::size_t size() const noexcept { return slots_.size() - free_.size(); }

 private:
  bool add_slot() noexcept try {
    if (slots_.size() > index_mask) return false;
    if (slots_.size() == slots_.capacity()) slots_.reserve(2 * slots_.size() + 1);
    // So that erase() never allocates.
    free_.reserve(slots_.capacity());
    // Slot 0 of the first generation would be named 0: every slot begins in generation 1.
    slots_.push_back({nullptr, 1});
    free_.push_back(static_cast<std::uint32_t>(slots_.size() - 1));
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }

  static constexpr unsigned index_bits = 20;
  static constexpr std::uint32_t index_mask = (1u << index_bits) - 1;
  static constexpr std::uint32_t max_generation = (1u << (32 - index_bits)) - 1;

  struct slot {
    T* object;
    std::uint32_t generation;
  };
  std::vector<slot> slots_;
  std::vector<std::uint32_t> free_;
};

}  // namespace gaudi::base
