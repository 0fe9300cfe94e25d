// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <new>

#include "base/ring.hpp"
#include "base/waker.hpp"
#include "proto/wire/net_address.hpp"

namespace gaudi::proto {

/// What an operation reports when it ends; the union of all CQ formats and of the error entry.
struct cq_entry {
  void* context = nullptr;
  std::uint64_t flags = 0;
  std::size_t length = 0;
  void* buffer = nullptr;
  std::uint64_t data = 0;
  std::uint64_t tag = 0;
  fi_addr_t source = FI_ADDR_NOTAVAIL;
  int error = 0;                    // positive FI_E*; 0: success
  std::size_t truncated_bytes = 0;  // bytes cut off, with FI_ETRUNC
  // FI_SOURCE_ERR: the sender, whom the address vector does not know. Only looked at by push().
  const net_address* unknown_source = nullptr;
};

/// Ended operations that the application has not read yet, in the order they ended. It grows rather
/// than drop or refuse one: how many can be outstanding is bounded by what the application posted
/// (FI_RM_ENABLED). Where there is no memory for that, it is overrun for good. Not thread safe: the
/// caller holds the domain lock.
class completion_queue {
 public:
  /// `sleeper`, if any, is told of every entry; it outlives the queue.
  explicit completion_queue(std::size_t size, base::waker* sleeper = nullptr)
      : entries_(size), sleeper_(sleeper) {}

  void push(const cq_entry& entry) noexcept { push(entry, entry.context, 0); }
  /// The same with another context, and further flags.
  /// Always inlined, and field by field: then an entry that was only made for this is made in its
  /// place.
  [[gnu::always_inline]] void push(const cq_entry& entry, void* context,
                                   std::uint64_t flags) noexcept {
    cq_entry* const kept = entries_.add();
    if (!kept) [[unlikely]] {
      overrun_ = true;
    } else {
      kept->context = context;
      kept->flags = entry.flags | flags;
      kept->length = entry.length;
      kept->buffer = entry.buffer;
      kept->data = entry.data;
      kept->tag = entry.tag;
      kept->source = entry.source;
      kept->error = entry.error;
      kept->truncated_bytes = entry.truncated_bytes;
      kept->unknown_source = entry.unknown_source;
      if (entry.unknown_source) [[unlikely]]
        save_unknown_source(*kept);
    }
    if (sleeper_) sleeper_->notify();
  }
  /// One was lost, as there was no memory for it.
  [[nodiscard]] bool overrun() const noexcept { return overrun_; }
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
  [[nodiscard]] bool empty() const noexcept { return entries_.empty(); }
  [[nodiscard]] cq_entry& front() noexcept { return entries_.front(); }
  void pop() noexcept { entries_.pop(); }
  /// The sender of the front entry, whose error is FI_EADDRNOTAVAIL; once for each such entry.
  [[nodiscard]] net_address take_unknown_source() noexcept {
    const net_address name = unknown_sources_.front();
    unknown_sources_.pop_front();
    return name;
  }

 private:
  // The message is there, but who sent it can only be told in an error entry (fi_cq(3)). One with
  // another error says nothing of its sender.
  void save_unknown_source(cq_entry& entry) noexcept {
    if (entry.error) return;
    try {
      unknown_sources_.push_back(*entry.unknown_source);
      entry.error = FI_EADDRNOTAVAIL;
    } catch (const std::bad_alloc&) {
      entry.unknown_source = nullptr;  // of an unknown source, as without FI_SOURCE_ERR
    }
  }

  base::ring<cq_entry> entries_;
  std::deque<net_address> unknown_sources_;
  bool overrun_ = false;
  base::waker* const sleeper_;
};

}  // namespace gaudi::proto
