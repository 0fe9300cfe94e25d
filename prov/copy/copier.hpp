// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

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
  /// Host ranges from this length on are pinned for the copy, shorter ones pass through chunks.
  /// Pinning costs about as much as copying some hundred KiB.
  static constexpr std::uint64_t pin_threshold = 1 << 20;

  /// The device's copier, shared with whoever else has it now. Errors of dma_engine::for_device.
  static base::result<std::shared_ptr<copier>> for_device(
      const std::shared_ptr<device::device>& owner);

  /// Starts a copy of `len` bytes (0 is allowed). Host addresses are the process's own, device
  /// addresses lie inside one allocation or known range of the device: else -FI_EINVAL. Both ranges
  /// stay as they are until the operation has ended; device ranges are pinned meanwhile.
  /// -FI_ENOMEM; errors of dma_engine::submit but -FI_EAGAIN, which is waited out.
  base::result<std::unique_ptr<operation>> start(std::uint64_t dst, std::uint64_t src,
                                                 std::uint64_t len, direction dir);

  /// The same, and waits for the end.
  base::result<void> copy(std::uint64_t dst, std::uint64_t src, std::uint64_t len, direction dir);

  [[nodiscard]] dma_engine& engine() const noexcept { return *engine_; }

 private:
  friend class operation;
  struct passkey {};

 public:
  /// For for_device, the only maker.
  copier(passkey, std::shared_ptr<dma_engine> engine);

 private:
  bounce_pool::chunk* acquire();
  void release(bounce_pool::chunk* returned);

  const std::shared_ptr<dma_engine> engine_;
  std::mutex mutex_;  // guards chunks_
  bounce_pool chunks_;
};

/// One asynchronous copy, advanced by poll or wait. Used by one thread at a time. Destroying it
/// before its end waits for the engine, as the hardware still uses the ranges.
class operation {
 public:
  operation(const operation&) = delete;
  operation& operator=(const operation&) = delete;
  ~operation();

  /// 0: done, and again at each later call; -FI_EAGAIN: not yet; else it failed, for good.
  int poll();
  /// As poll, but waits up to `timeout_ms` (-1: for ever) and then says -FI_ETIMEDOUT.
  int wait(int timeout_ms);

 private:
  friend class copier;
  static constexpr unsigned depth = 4;  // chunks on their way at a time

  /// A part of the copy that is with the engine. Without a chunk, the host memory itself is pinned.
  struct part {
    ticket copy;
    bounce_pool::chunk* chunk = nullptr;
    std::uint64_t offset = 0;
    std::uint64_t len = 0;
    bool busy = false;
  };

  operation(std::shared_ptr<copier> owner, std::uint64_t dst, std::uint64_t src, std::uint64_t len,
            direction dir);
  base::result<void> prepare();
  base::result<void> pin_device_range(std::uint64_t addr);
  void pin_host_range();
  int step(int timeout_ms);
  int fill(part& idle);
  int finish(part& ended, int timeout_ms);
  int submit(part& next);
  void drain();
  [[nodiscard]] std::byte* host() const noexcept;

  const std::shared_ptr<copier> owner_;
  const std::uint64_t dst_;
  const std::uint64_t src_;
  const std::uint64_t len_;
  const direction dir_;
  std::optional<device::allocation_pin> held_[2];
  std::optional<pinned_region> pinned_;
  std::uint64_t next_ = 0;  // first byte that no part has taken yet
  int status_ = 0;          // the first failure
  std::array<part, depth> parts_;
};

/// Copies and returns when the bytes are there; see copier::start. For occasional copies: a caller
/// that copies often keeps a copier.
base::result<void> copy_sync(const std::shared_ptr<device::device>& owner, std::uint64_t dst,
                             std::uint64_t src, std::uint64_t len, direction dir);

}  // namespace gaudi::copy
