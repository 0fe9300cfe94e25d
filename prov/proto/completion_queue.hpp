// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_domain.h>

#include <cstddef>
#include <cstdint>

#include "base/ring.hpp"
#include "base/waker.hpp"

namespace gaudi::proto {

/// What an operation reports when it ends; the union of all CQ formats and of the error entry.
struct completion {
  void* context = nullptr;
  std::uint64_t flags = 0;
  std::size_t length = 0;
  void* buffer = nullptr;
  std::uint64_t data = 0;
  std::uint64_t tag = 0;
  fi_addr_t source = FI_ADDR_NOTAVAIL;
  int error = 0;           // positive FI_E*; 0: success
  std::size_t excess = 0;  // bytes cut off, with FI_ETRUNC
};

/// Ended operations that the application has not read yet, in the order they ended. It grows rather
/// than drop or refuse one: how many can be outstanding is bounded by what the application posted
/// (FI_RM_ENABLED). Not thread safe: the caller holds the domain lock.
class completion_queue {
 public:
  /// `sleeper`, if any, is told of every entry; it outlives the queue.
  explicit completion_queue(std::size_t size, base::waker* sleeper = nullptr)
      : entries_(size), sleeper_(sleeper) {}

  void push(const completion& entry) {
    entries_.push(entry);
    if (sleeper_) sleeper_->notify();
  }
  [[nodiscard]] bool empty() const noexcept { return entries_.empty(); }
  [[nodiscard]] completion& front() noexcept { return entries_.front(); }
  void pop() noexcept { entries_.pop(); }

 private:
  base::ring<completion> entries_;
  base::waker* const sleeper_;
};

}  // namespace gaudi::proto
