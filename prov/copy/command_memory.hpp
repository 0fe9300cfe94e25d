// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.hpp"
#include "copy/host_pages.hpp"
#include "copy/kernel_commands.hpp"
#include "copy/pinned_region.hpp"
#include "hl/abi.hpp"

namespace gaudi::copy {

/// Command buffers of equal size, in the form that the device's queues take: for Gaudi2 parts of
/// host memory that is pinned once, for Gaudi1 one of the driver's each. Members may be called from
/// any thread, for different buffers. Move-only.
class command_memory {
 public:
  /// `count` buffers of `len` bytes, a power of two of at most a page. -FI_ENOMEM;
  /// device::lost().
  static base::result<command_memory> make(const std::shared_ptr<device::device>& owner,
                                           unsigned count, std::uint32_t len);

  /// The device is lost: nothing here keeps it open any more. Buffers may still be written.
  void abandon() const noexcept {
    for (const kernel_commands& one : requested_) one.abandon();
  }

  /// Where buffer `index` (from 0 on) is written. It stays as it is until its submission has ended.
  [[nodiscard]] std::byte* at(unsigned index) const noexcept { return buffers_[index].host; }
  /// What submits the first `bytes` of it to a queue.
  [[nodiscard]] hl::cs_chunk chunk(unsigned index, std::uint32_t bytes,
                                   std::uint32_t queue) const noexcept {
    return {.cb_handle = buffers_[index].handle,
            .queue_index = queue,
            .cb_size = bytes,
            .flags = pinned_ ? hl::chunk_user_cb : 0};
  }

 private:
  struct buffer {
    std::byte* host;
    std::uint64_t handle;  // or device address, where they are pinned
  };

  command_memory() = default;
  base::result<void> pin(const std::shared_ptr<device::device>& owner, unsigned count,
                         std::uint32_t len);
  base::result<void> request(const std::shared_ptr<device::device>& owner, unsigned count,
                             std::uint32_t len);

  std::optional<host_pages> pages_;
  std::optional<pinned_region> pinned_;  // of pages_: unpinned before they go
  std::vector<kernel_commands> requested_;
  std::vector<buffer> buffers_;
};

}  // namespace gaudi::copy
