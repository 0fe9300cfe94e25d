// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.hpp"
#include "base/scoped_fd.hpp"
#include "ipc/byte_ring.hpp"
#include "ipc/cooperative_copy.hpp"

namespace gaudi::ipc {

class host_kernel;

/// Who is who in a segment.
enum class end : unsigned { creator, attacher };

/// Whether an end can read and write the other's memory. `gone`: it has closed the connection, and
/// none of its own memory is the other's to read or write any more.
enum class cma_state : std::uint32_t { unknown, yes, no, gone };

/// What an end tells the other before the first packet.
struct peer_info {
  std::uint64_t probe_address;  ///< in its memory, where the other may try to read probe_cookie
  std::uint64_t probe_cookie;
  std::uint32_t sleeps;        ///< not 0: it may wait on file descriptors, and has to be woken
  std::atomic<cma_state> cma;  ///< the creator may say it later
};

/// Bytes of a page; rings and slots are whole ones.
inline constexpr std::size_t segment_page = 4096;

/// How a segment is cut.
struct segment_shape {
  std::uint64_t capacity;   ///< bytes of each ring: a power of two
  std::uint64_t slots;      ///< staging slots each way; may be 0
  std::uint64_t slot_size;  ///< bytes, a multiple of segment_page

  friend bool operator==(const segment_shape&, const segment_shape&) = default;
};

/// What a segment begins with; behind it, each from a new page on, are the rings' bytes and the
/// slots.
struct segment_head {
  std::uint64_t magic;
  segment_shape shape;
  std::array<peer_info, 2> facts;
  std::array<ring_control, 2> rings;                     ///< by the end that writes
  std::array<cooperative_copies::words, 2> cooperative;  ///< by the end that owns the copies
};

/// Memory that two processes share: facts of each end, a ring each way, words of the copies that
/// both make together, and slots each way that data passes through between devices. Pages that
/// nobody touches take no memory. It has no name in any file system, so it is gone with the last of
/// them, however they end; and it is sealed, so that no end can cut it and kill the other with
/// SIGBUS (memfd_create(2)).
class segment {
 public:
  /// Makes one, mapped by `kernel`, which outlives it. Errors are memfd_create's and mmap's,
  /// negative.
  static base::result<segment> make(const segment_shape& shape, base::scoped_fd& memory,
                                    host_kernel& kernel);
  /// Maps what another process made. -FI_EINVAL: not such a segment, or not sealed.
  static base::result<segment> take(int memory, host_kernel& kernel);

  segment(segment&& other) noexcept;
  segment& operator=(segment&&) = delete;
  ~segment();

  [[nodiscard]] peer_info& peer_info_of(end which) noexcept;
  /// The ring that `from` writes.
  [[nodiscard]] ring_writer writer(end from) noexcept;
  [[nodiscard]] ring_reader reader(end from) noexcept;
  /// Of the copies whose data comes to `owner`.
  [[nodiscard]] cooperative_copies::words& copy_state_of(end owner) noexcept;
  /// All slots for data that comes to `sink`, one behind the other.
  [[nodiscard]] std::span<std::byte> slots_to(end sink) const noexcept;
  [[nodiscard]] const segment_shape& shape() const noexcept { return shape_; }

 private:
  segment(host_kernel& kernel, void* at, const segment_shape& shape) noexcept
      : kernel_(&kernel), base_(at), shape_(shape) {}
  static std::size_t size_of(const segment_shape& shape) noexcept;
  [[nodiscard]] segment_head& top() const noexcept { return *static_cast<segment_head*>(base_); }
  [[nodiscard]] std::byte* ring_of(end from) const noexcept;

  host_kernel* kernel_;
  void* base_ = nullptr;
  segment_shape shape_{};
};

}  // namespace gaudi::ipc
