// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/mutex.hpp"
#include "base/result.hpp"
#include "copy/bounce_pool.hpp"
#include "copy/dma_engine.hpp"

namespace gaudi::copy {

class operation;

/// Copies between device memory and any host memory: unregistered, unaligned, read-only. One per
/// device, shared (for_device); keep it while copies are made, for it holds the pinned bounce
/// chunks. Thread safe.
class copier : public std::enable_shared_from_this<copier> {
 public:
  /// The device's copier, shared with whoever else has it now. Errors of dma_engine::for_device.
  static base::result<std::shared_ptr<copier>> for_device(
      const std::shared_ptr<device::device>& owner, const engine_config& config = {});

  /// Starts a copy of `len` bytes (0 is allowed). Host addresses are the process's own, device
  /// addresses lie inside one allocation or known range of the device: else -FI_EINVAL; or
  /// device::lost(). The host range stays as it is until the operation has ended; device
  /// allocations are pinned meanwhile. -FI_ENOMEM. Whatever goes wrong later is told by the
  /// operation.
  base::result<std::unique_ptr<operation>> start(std::uint64_t dst, std::uint64_t src,
                                                 std::uint64_t len, direction dir);

  /// The same, and waits for the end. Errors of start and operation::wait.
  base::result<void> copy(std::uint64_t dst, std::uint64_t src, std::uint64_t len, direction dir);

  [[nodiscard]] const std::shared_ptr<dma_engine>& engine() const noexcept { return engine_; }

 private:
  friend class operation;
  struct passkey {};

 public:
  /// For for_device, the only maker.
  copier(passkey, std::shared_ptr<dma_engine> engine);

 private:
  void step_all() GAUDI_REQUIRES(mutex_);
  base::result<ticket> submit(std::uint64_t dst, std::uint64_t src, std::uint64_t len,
                              direction dir) {
    return engine_->start(dst, src, len, dir, 0);
  }

  const std::shared_ptr<dma_engine> engine_;
  base::mutex mutex_;  // of the state of every operation, too
  bounce_pool chunks_ GAUDI_GUARDED_BY(mutex_);
  std::vector<operation*> active_ GAUDI_GUARDED_BY(mutex_);  // not ended yet
};

/// One asynchronous copy, advanced by its poll and wait, and by those of others that want for
/// chunks or engine slots, so that any order of waiting comes to an end. Destroying it before its
/// end waits for the engine, as the hardware still uses the ranges. poll and wait are for one
/// thread at a time.
class operation {
  struct passkey {};

 public:
  /// For copier::start, the only maker.
  operation(passkey, std::shared_ptr<copier> owner, std::uint64_t dst, std::uint64_t src,
            std::uint64_t len, direction dir);
  operation(const operation&) = delete;
  operation& operator=(const operation&) = delete;
  ~operation();

  /// 0: done, and again at each later call; -FI_EAGAIN: not yet; else it failed, for good: errors
  /// of dma_engine::poll and submit.
  int poll();
  /// As poll, but waits up to `timeout_ms` (-1: for ever) and then says -FI_ETIMEDOUT.
  int wait(int timeout_ms);

 private:
  friend class copier;
  static constexpr unsigned depth = 4;  // parts on their way at a time

  /// A piece of the copy that is with the engine. Without a chunk, no host copy is needed.
  struct part {
    ticket copy;
    bounce_pool::chunk* chunk = nullptr;
    std::uint64_t offset = 0;
    std::uint64_t len = 0;
    bool busy = false;
    bool awaited = false;  // a thread blocks on its ticket: nobody else may poll it
  };

  base::result<void> prepare() GAUDI_REQUIRES(owner_->mutex_);
  [[nodiscard]] copy_row row() const noexcept GAUDI_REQUIRES(owner_->mutex_);
  [[nodiscard]] bool should_pin(const copy_row& row) const noexcept GAUDI_REQUIRES(owner_->mutex_);
  base::result<void> hold(unsigned side, std::uint64_t addr) GAUDI_REQUIRES(owner_->mutex_);
  int step() GAUDI_REQUIRES(owner_->mutex_);
  void feed(part& idle) GAUDI_REQUIRES(owner_->mutex_);
  void submit(part& next) GAUDI_REQUIRES(owner_->mutex_);
  void take_result(part& ended, int rc) GAUDI_REQUIRES(owner_->mutex_);
  void release_all() GAUDI_REQUIRES(owner_->mutex_);
  part* oldest_busy() GAUDI_REQUIRES(owner_->mutex_);

  /// Host memory's address: source or destination. Not for device to device.
  [[nodiscard]] std::byte* host() const noexcept;
  void block(int timeout_ms);

  const std::shared_ptr<copier> owner_;
  const std::uint64_t dst_;
  const std::uint64_t src_;
  const std::uint64_t len_;
  const direction dir_;
  std::optional<device::allocation_pin> held_[2];
  std::optional<pinned_region> pinned_;
  std::uint64_t part_length_ = 0;  // of a copy that needs no chunks
  std::uint64_t next_ = 0;         // first byte that no part has taken yet
  int status_ = 0;                 // the first failure
  bool ended_ = false;
  std::array<part, depth> parts_;
};

/// Copies and returns when the bytes are there; see copier::start. For occasional copies: a caller
/// that copies often keeps a copier.
base::result<void> copy_sync(const std::shared_ptr<device::device>& owner, std::uint64_t dst,
                             std::uint64_t src, std::uint64_t len, direction dir);

}  // namespace gaudi::copy
