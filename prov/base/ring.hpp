// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <bit>
#include <cstddef>
#include <memory>
#include <utility>

namespace gaudi::base {

/// A queue in a circular array that doubles when it is full. T is trivially copyable. Not thread
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

  void push(const T& item) {
    if (size() > mask_) grow();
    items_[tail_++ & mask_] = item;
  }

 private:
  void grow() {
    const std::size_t capacity = (mask_ + 1) * 2;
    auto items = std::make_unique_for_overwrite<T[]>(capacity);
    const std::size_t count = size();
    for (std::size_t i = 0; i < count; ++i) items[i] = items_[(head_ + i) & mask_];
    items_ = std::move(items);
    mask_ = capacity - 1;
    head_ = 0;
    tail_ = count;
  }

  std::size_t mask_;
  std::size_t head_ = 0;
  std::size_t tail_ = 0;
  std::unique_ptr<T[]> items_;
};

}  // namespace gaudi::base
