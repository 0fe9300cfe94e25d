// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace gaudi::base {

/// Recycles objects so that the hot path never allocates once warm. Objects stay at their address;
/// the memory goes back when the pool goes, which must be after every object was destroyed. Not
/// thread safe.
template <class T>
class object_pool {
 public:
  /// nullptr when memory is short.
  template <class... Args>
  [[nodiscard]] T* create(Args&&... args) noexcept {
    if (free_.empty() && !grow()) return nullptr;
    void* memory = free_.back();
    free_.pop_back();
    return ::new (memory) T(std::forward<Args>(args)...);
  }

  void destroy(T* object) noexcept {
    object->~T();
    // Never reallocates: grow() reserved a place for each object there is.
    free_.push_back(object);
  }

  /// Objects that were created and not destroyed.
  [[nodiscard]] std::size_t live() const noexcept {
    return slabs_.size() * per_slab - free_.size();
  }

 private:
  struct alignas(alignof(T)) place {
    std::byte bytes[sizeof(T)];
  };
  static constexpr std::size_t per_slab = 64;

  bool grow() noexcept try {
    free_.reserve((slabs_.size() + 1) * per_slab);
    slabs_.push_back(std::make_unique_for_overwrite<place[]>(per_slab));
    for (std::size_t i = per_slab; i-- > 0;) free_.push_back(&slabs_.back()[i]);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }

  std::vector<std::unique_ptr<place[]>> slabs_;
  std::vector<void*> free_;
};

}  // namespace gaudi::base
