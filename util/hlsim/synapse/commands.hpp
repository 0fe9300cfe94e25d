// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace synsim {

/// The packet of a copy or a fill, as the device's queues take it. Reference, section 5.1.
struct lin_dma {
  uint32_t size;  ///< bytes
  uint32_t control;
  uint64_t source;  ///< of a fill: the pattern
  uint64_t destination;
};
static_assert(sizeof(lin_dma) == 24);
inline constexpr uint32_t copy_control = 9U << 24 | 1U << 31;
inline constexpr uint32_t fill_control = copy_control | 1U << 4;
/// Most bytes of one packet.
inline constexpr uint64_t packet_limit = 2ULL << 30;

/// Submits packets to the queues of a device and keeps each command buffer as it is until the
/// device is through with it. Not thread safe.
class commands {
 public:
  /// Maps host memory of its own to the device; usable() tells whether that worked.
  explicit commands(int fd);
  /// Nothing is in flight any more.
  ~commands();
  commands(const commands&) = delete;
  commands& operator=(const commands&) = delete;

  [[nodiscard]] bool usable() const noexcept { return va_ != 0; }

  /// Packets that one submission holds.
  static constexpr size_t most_packets = 128;
  /// In order with all that was submitted to the same queue. Waits while too much is in flight.
  /// The number of the submission; 0: the device takes none.
  uint64_t submit(uint32_t queue, std::span<const lin_dma> packets);

 private:
  static constexpr size_t slots = 48;  // the driver holds 64
  static constexpr size_t slot_bytes = 4096;
  static_assert(most_packets * sizeof(lin_dma) <= slot_bytes);

  int fd_;
  std::byte* host_ = nullptr;
  uint64_t va_ = 0;
  size_t next_ = 0;
  std::array<uint64_t, slots> in_use_{};  ///< numbers of submissions; 0: none yet
};

/// How a submission of any age goes: 0 it ended well, -EBUSY not yet (after `timeout_us`), else the
/// driver's -errno.
int outcome_of(int fd, uint64_t submission, uint64_t timeout_us);

}  // namespace synsim
