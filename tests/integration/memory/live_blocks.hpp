// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdlib>
#include <mutex>

namespace gaudi::test {

/// Blocks that are allocated and not freed, and where that was. For use within malloc and free:
/// allocates nothing. Thread safe.
class live_blocks {
 public:
  void add(const void* block, const void* place) noexcept {
    const std::lock_guard hold(lock_);
    if (count_ == all_.size()) std::abort();
    all_[count_++] = {block, place};
  }

  /// One that is not known here is somebody else's.
  void remove(const void* block) noexcept {
    if (!block) return;
    const std::lock_guard hold(lock_);
    for (std::size_t i = count_; i > 0; --i) {  // what came last goes first, mostly
      if (all_[i - 1].block != block) continue;
      all_[i - 1] = all_[--count_];
      return;
    }
  }

  /// Calls visit(place); it frees nothing.
  template <class Visit>
  void for_each(Visit&& visit) {
    const std::lock_guard hold(lock_);
    for (std::size_t i = 0; i < count_; ++i) visit(all_[i].place);
  }

 private:
  struct entry {
    const void* block;
    const void* place;
  };

  std::array<entry, 8192> all_{};
  std::size_t count_ = 0;
  std::mutex lock_;
};

}  // namespace gaudi::test
