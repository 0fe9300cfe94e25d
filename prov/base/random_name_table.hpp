// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/random_source.hpp"

namespace gaudi::base {

/// Gives objects random 32-bit names that can be sent to a peer and looked up safely when they come
/// back: who knows some of the names can tell nothing of the others. As many objects as there is
/// memory for. Owns nothing. Not thread safe.
template <class T>
class random_name_table {
 public:
  using id = std::uint32_t;
  /// No object has this name.
  static constexpr id invalid = 0;

  explicit random_name_table(random_source random) : random_(random), slots_(min_slots) {}

  /// Throws std::bad_alloc, and then nothing has changed.
  [[nodiscard]] id insert(T* object) {
    if (2 * (size_ + 1) > slots_.size()) grow();
    for (;;) {
      const auto name = static_cast<id>(random_.next());
      slot& s = slots_[name & mask_];
      if (name == invalid || s.object) continue;
      s = {object, name};
      ++size_;
      return name;
    }
  }

  [[nodiscard]] T* find(id name) const noexcept {
    const slot& s = slots_[name & mask_];
    return s.name == name ? s.object : nullptr;
  }

  void erase(id name) noexcept {
    slots_[name & mask_] = {};
    --size_;
  }

  /// Calls visit(T&) for each object; it may erase any, and insert none.
  template <class Visit>
  void for_each(Visit&& visit) {
    for (slot& s : slots_) {
      if (s.object) visit(*s.object);
    }
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  static constexpr std::size_t min_slots = 16;  // a power of two, as all numbers of slots

  struct slot {
    T* object = nullptr;
    id name = invalid;
  };

  // The low bits of a name are its place, so that no two names meet in a larger table.
  void grow() {
    std::vector<slot> larger(2 * slots_.size());
    mask_ = static_cast<id>(larger.size() - 1);
    for (const slot& s : slots_) {
      if (s.object) larger[s.name & mask_] = s;
    }
    slots_.swap(larger);
  }

  random_source random_;
  std::vector<slot> slots_;  // half of them are free, or more
  id mask_ = min_slots - 1;
  std::size_t size_ = 0;
};

}  // namespace gaudi::base
