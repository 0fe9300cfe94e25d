// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace gaudi::fi {

/// Counts what is open below or bound to an object, so that fi_close can refuse with -FI_EBUSY.
/// Thread safe.
class child_count {
 public:
  /// Held by a child for as long as it needs the parent. Move-only; empty when default constructed.
  class ref {
   public:
    ref() = default;
    explicit ref(child_count& parent) noexcept : parent_(&parent) {
      parent.count_.fetch_add(1, std::memory_order_relaxed);
    }
    ref(ref&& other) noexcept : parent_(std::exchange(other.parent_, nullptr)) {}
    ref& operator=(ref&& other) noexcept {
      std::swap(parent_, other.parent_);
      return *this;
    }
    explicit operator bool() const noexcept { return parent_ != nullptr; }
    ~ref() {
      if (parent_) parent_->count_.fetch_sub(1, std::memory_order_release);
    }

   private:
    child_count* parent_ = nullptr;
  };

  /// Whether a child is left; what the last one did is visible to the caller when not.
  [[nodiscard]] bool any() const noexcept { return count_.load(std::memory_order_acquire) != 0; }

 private:
  std::atomic<std::size_t> count_{0};
};

}  // namespace gaudi::fi
