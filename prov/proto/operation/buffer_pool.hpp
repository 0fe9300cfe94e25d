// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "copy/copy_job.hpp"
#include "copy/pinned_region.hpp"
#include "copy/places.hpp"
#include "core/inner_domain.hpp"
#include "device/device.hpp"
#include "proto/operation/completion_spec.hpp"
#include "proto/operation/memory.hpp"
#include "proto/operation/posted_op.hpp"
#include "reg/other_nic.hpp"

namespace gaudi::proto {

struct transfer;
class buffer_slab;
class shared_slots;
class staging_pool;

/// How many buffers of a staging_pool are in use for one peer; the pool's alone.
struct staging_share {
  std::uint32_t held = 0;
};

/// Host memory that messages and staged data pass through: known to the core, and to a device from
/// the first copy between them on.
struct buffer : posted_op, copy::copy_job {
  buffer(posted_op::kind k, buffer_slab& s, std::byte* b) noexcept
      : posted_op(k), slab(s), bytes(b) {}

  buffer_slab& slab;
  std::byte* const bytes;

  // Of the message or chunk that it holds at present.
  std::size_t length = 0;
  std::uint64_t offset = 0;   // of a chunk in its transfer
  transfer* owner = nullptr;  // of a chunk, or of a message that a transfer waits with
  local_memory gathered;  // of a message: the core takes its payload from here; empty: all in bytes
  completion_spec on_sent;   // what to report when a message has left; see completion_spec::report
  std::uint32_t awaits = 0;  // the transfer that fails if this message cannot leave, by id; 0: none
  std::uint32_t slot = 0;    // of a chunk in the peer's memory
  bool ready = false;        // a queued message: its payload is here
  bool transmit = false;     // a message: sent with FI_TRANSMIT_COMPLETE
  bool answers = false;      // a message: the credit of the request goes back when it leaves
  bool flushes = false;      // a message: the `fin` of transfer `awaits`, which flushes
  /// Of a message: what its session has to know.
  struct {
    bool kept = false;     // among the sent_packets
    bool at_core = false;  // it will come back
  } session;
  bool local = false;  // a receive buffer: not the core's, with a packet of a peer on this host
  std::uint32_t connection_id = 0;  // a receive buffer: where it was posted, by id; 0: for all
  std::uint32_t endpoint = 0;       // and on which of the connection's core endpoints
  /// Of a chunk: where it goes back to, by release_staging().
  struct {
    shared_slots* slots = nullptr;   // whose slot it is, that of a peer's process, too
    bool taken = false;              // of them: in use at this end
    staging_pool* pool = nullptr;    // that it is of; null: of another kind of pool
    staging_share* share = nullptr;  // where it counts there
  } home;

  /// Begins a message of so many bytes, whose end nobody is told of; `transfer` fails if it cannot
  /// leave (0: none).
  void begin_message(std::size_t size, std::uint32_t transfer = 0) noexcept {
    length = size;
    on_sent = {};
    awaits = transfer;
    owner = nullptr;
    failed = 0;
  }

  [[nodiscard]] void* descriptor() const noexcept;
  /// The same at another NIC. Null: that does not take it, or there is no memory.
  [[nodiscard]] void* descriptor_at(reg::other_nic& nic) const noexcept;
  [[nodiscard]] std::uint64_t key() const noexcept;
  /// Its bytes from `at` on, as they are copied.
  [[nodiscard]] copy::host_place place(std::size_t at) const noexcept;
};

/// A piece of memory that buffers are cut from, registered once with the core and at most once with
/// each device.
class buffer_slab final : public copy::host_memory {
 public:
  /// `peers_may`: FI_REMOTE_WRITE where peers write, else 0.
  static base::result<std::unique_ptr<buffer_slab>> create(core::inner_domain& core,
                                                           posted_op::kind kind,
                                                           std::size_t buffer_size,
                                                           std::size_t count,
                                                           std::uint64_t peers_may);
  /// Cuts buffers from memory of somebody else's, which outlives the slab and which the core does
  /// not know.
  static std::unique_ptr<buffer_slab> over(std::span<std::byte> area, posted_op::kind kind,
                                           std::size_t buffer_size);
  virtual ~buffer_slab();
  buffer_slab(const buffer_slab&) = delete;
  buffer_slab& operator=(const buffer_slab&) = delete;

  [[nodiscard]] const core::inner_mr& mr() const noexcept { return mr_; }
  /// The same at another NIC, made at the first call. Null: that NIC does not take it, or the core
  /// does not know it at all. Throws std::bad_alloc.
  [[nodiscard]] const core::inner_mr* registration_at(reg::other_nic& nic);
  base::result<std::uint64_t> device_address(device::device& which,
                                             const std::byte* bytes) override;
  [[nodiscard]] std::byte* base() const noexcept { return base_; }
  [[nodiscard]] std::size_t buffer_size() const noexcept { return buffer_size_; }
  [[nodiscard]] std::vector<std::unique_ptr<buffer>>& buffers() noexcept { return buffers_; }

 private:
  buffer_slab() = default;
  void cut(posted_op::kind kind, std::size_t buffer_size, std::size_t count);

  std::byte* base_ = nullptr;
  std::size_t length_ = 0;
  std::size_t buffer_size_ = 0;
  bool owned_ = true;
  std::uint64_t access_ = 0;  // that the core has
  core::inner_mr mr_;
  std::list<std::pair<std::size_t, core::inner_mr>> at_other_nics_;  // by other_nic::number
  std::list<std::pair<device::device*, copy::pinned_region>> pins_;
  std::vector<std::unique_ptr<buffer>> buffers_;
};

/// Buffers of one size, grown slab by slab up to a limit. Not thread safe: the caller holds the
/// domain lock.
class buffer_pool {
 public:
  /// buffer_size in bytes, limit and per_slab in buffers; peers_may as buffer_slab::create.
  buffer_pool(core::inner_domain& core, posted_op::kind kind, std::size_t buffer_size,
              std::size_t per_slab, std::size_t limit, std::uint64_t peers_may = 0) noexcept
      : core_(core),
        kind_(kind),
        buffer_size_(buffer_size),
        per_slab_(per_slab),
        limit_(limit),
        peers_may_(peers_may) {}

  /// nullptr when the limit is reached or memory is short.
  [[nodiscard]] buffer* acquire() noexcept {
    if (free_.empty() && !grow()) return nullptr;
    buffer* b = free_.back();
    free_.pop_back();
    return b;
  }
  /// The same beyond the limit, for a use that has one of its own.
  [[nodiscard]] buffer* acquire_beyond_limit() noexcept {
    if (free_.empty() && !add_slab()) return nullptr;
    buffer* b = free_.back();
    free_.pop_back();
    return b;
  }
  /// Neither the core nor a device may still use it.
  void release(buffer& b) noexcept { free_.push_back(&b); }
  /// Gives all memory back: neither the core nor a device may still use any of it.
  void free_all() noexcept {
    free_.clear();
    slabs_.clear();
    total_ = 0;
  }

  [[nodiscard]] std::size_t buffer_size() const noexcept { return buffer_size_; }
  [[nodiscard]] std::size_t total() const noexcept { return total_; }
  [[nodiscard]] std::size_t in_use() const noexcept { return total_ - free_.size(); }

 private:
  bool grow() noexcept { return total_ < limit_ && add_slab(); }
  bool add_slab() noexcept;

  core::inner_domain& core_;
  const posted_op::kind kind_;
  const std::size_t buffer_size_;
  const std::size_t per_slab_;
  const std::size_t limit_;
  const std::uint64_t peers_may_;
  std::size_t total_ = 0;
  bool told_ = false;  // that there is no memory for more
  std::vector<std::unique_ptr<buffer_slab>> slabs_;
  std::vector<buffer*> free_;
};

}  // namespace gaudi::proto
