// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <bit>
#include <cstddef>
#include <memory>
#include <new>
#include <utility>

namespace gaudi::base {

/// A queue in a circular array that doubles before it is full. T is trivially copyable. Not thread
/// safe.
template <class T>
class ring {
 public:
  explicit ring(std::size_t capacity)
      : mask_(std::bit_ceil(capacity < 2 ? std::size_t{2} : capacity) - 1),
        items_(std::make_unique_for_overwrite<T[]>(mask_ + 1)) {}

  [[nodiscard]] bool empty() const noexcept { return head_ == tail_; }
  [[nodiscard]] std::size_t size() const noexcept { return tail_ - head_; }
  [[nodiscard]] T& front() noexcept { return items_[head_ & mask_]; }
  [[nodiscard]] T& back() noexcept { return items_[(tail_ - 1) & mask_]; }
  void pop() noexcept { ++head_; }

  /// A place at the end, for the caller to assign to; null: it is full, as there has been no memory
  /// to grow since it was three quarters full.
  [[nodiscard]] T* add() noexcept {
    if (size() >= grows_at_) [[unlikely]] {
      if (!grow() && size() > mask_) return nullptr;
    }
    return &items_[tail_++ & mask_];
  }

 private:
  static constexpr std::size_t three_quarters(std::size_t mask) noexcept { return mask - mask / 4; }

  [[gnu::noinline]] bool grow() noexcept {
    const std::size_t capacity = (mask_ + 1) * 2;
    std::unique_ptr<T[]> items(new (std::nothrow) T[capacity]);
    if (!items) return false;
    const std::size_t count = size();
    for (std::size_t i = 0; i < count; ++i) items[i] = items_[(head_ + i) & mask_];
    items_ = std::move(items);
    mask_ = capacity - 1;
    grows_at_ = three_quarters(mask_);
    head_ = 0;
    tail_ = count;
    return true;
  }

  std::size_t mask_;
  std::size_t grows_at_ = three_quarters(mask_);
  std::size_t head_ = 0;
  std::size_t tail_ = 0;
  std::unique_ptr<T[]> items_;
};

}  // namespace gaudi::base
