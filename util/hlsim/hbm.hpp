// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/scoped_fd.hpp"
#include "shared_state.hpp"

namespace hlsim {

using gaudi::base::scoped_fd;

/// The bytes of a simulated device's HBM, with its SRAM behind them: a sparse file that is never
/// mapped, so no stray CPU access can reach it. A file in the device folder; where /dev/udmabuf
/// exists a memfd of the process that opened the device, because only a memfd can become a dma-buf.
class hbm_store {
 public:
  /// Makes a zeroed store for the context that `state` is about to begin and notes in it where
  /// other processes find it. Empty with errno set when that fails.
  static hbm_store create(device_state& state, uint64_t sram_bytes);

  /// The store of a context that another process may have opened.
  static hbm_store attach(const device_state& state);

  explicit operator bool() const noexcept { return static_cast<bool>(fd_); }
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }

  /// Copies between `host` and the store. False when the host range is not all accessible (EFAULT)
  /// or the machine has no memory left (ENOSPC); errno tells.
  bool read(uint64_t offset, void* host, uint64_t size) const noexcept;
  bool write(uint64_t offset, const void* host, uint64_t size) const noexcept;

  /// Gives the memory of a range back to the machine; it reads as zeros afterwards.
  void discard(uint64_t offset, uint64_t size) const noexcept;

 private:
  explicit hbm_store(scoped_fd fd) noexcept : fd_(std::move(fd)) {}
  scoped_fd fd_;
};

/// True when exports are real dma-bufs.
bool have_udmabuf() noexcept;

}  // namespace hlsim
