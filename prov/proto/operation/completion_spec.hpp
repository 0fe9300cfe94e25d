// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/counter.hpp"
#include "proto/operation/completion_hook.hpp"
#include "proto/operation/completion_queue.hpp"

namespace gaudi::proto {

/// What the application asked to be told about an operation.
struct completion_spec {
  completion_queue* queue = nullptr;  // null: no CQ is bound for this direction
  base::counter* counter = nullptr;   // null: nor is a counter
  base::counter* mr_counter = nullptr;
  void* context = nullptr;
  std::uint64_t flags = 0;  // for the completion entry: FI_SEND | FI_TAGGED ...
  bool report = false;      // success is reported; an error always is
  bool of_peer = false;     // nobody here posted it, so its failure is the peer's to hear of
  bool shared = false;  // a receive of several endpoints: reported where the message's one reports
  // The buffer that a message shares with others, or what takes the time of the operation.
  completion_hook* hook = nullptr;

  /// Reports the end of the operation. `entry` has everything but context and flags, to which its
  /// own are added.
  /// Always inlined, as completion_queue::push.
  [[gnu::always_inline]] void end(const cq_entry& entry) const noexcept {
    if (counter || mr_counter || hook) return end_counted(entry);
    if (queue && is_told(entry)) queue->push(entry, context, flags);
  }

  /// Whether success is told by an entry in `queue`, and nothing else.
  [[nodiscard]] bool is_plain() const noexcept {
    const auto others = reinterpret_cast<std::uintptr_t>(counter) |
                        reinterpret_cast<std::uintptr_t>(mr_counter) |
                        reinterpret_cast<std::uintptr_t>(hook);
    return queue && report && !shared && others == 0;
  }

 private:
  [[nodiscard]] bool is_told(const cq_entry& entry) const noexcept {
    return entry.error ? !of_peer : report;
  }
  // The entry is a copy: one that is only made for end() need not be in memory for this.
  void end_counted(cq_entry entry) const noexcept;
};

}  // namespace gaudi::proto
