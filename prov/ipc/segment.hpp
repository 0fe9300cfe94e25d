// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.hpp"
#include "base/scoped_fd.hpp"
#include "ipc/byte_ring.hpp"

namespace gaudi::ipc {

/// Who is who in a segment.
enum class end : unsigned { maker, taker };

/// What an end tells the other before the first packet.
struct end_facts {
  std::uint64_t proof_address;  ///< in its memory, where the other may try to read proof_value
  std::uint64_t proof_value;
  std::uint32_t sleeps;  ///< not 0: it may wait on file descriptors, and has to be woken
  std::uint32_t reserved;
};

/// Memory that two processes share: facts of each end, and a ring each way. It has no name in any
/// file system, so it is gone with the last of them, however they end; and it is sealed, so that
/// no end can cut it and kill the other with SIGBUS (memfd_create(2)).
class segment {
 public:
  /// Makes one. `capacity` of each ring is a power of two, in bytes. Errors are memfd_create's and
  /// mmap's, negative.
  static base::result<segment> make(std::size_t capacity, base::scoped_fd& memory);
  /// Maps what another process made. -FI_EINVAL: not such a segment, or not sealed.
  static base::result<segment> take(int memory);

  segment(segment&& other) noexcept;
  segment& operator=(segment&&) = delete;
  ~segment();

  [[nodiscard]] end_facts& facts_of(end which) noexcept;
  /// The ring that `from` writes.
  [[nodiscard]] ring_writer writer(end from) noexcept;
  [[nodiscard]] ring_reader reader(end from) noexcept;

 private:
  struct head;
  segment(void* at, std::size_t capacity) noexcept : at_(at), capacity_(capacity) {}
  static std::size_t size_of(std::size_t capacity) noexcept;
  static base::result<segment> map(int memory, std::size_t capacity);
  [[nodiscard]] head& top() const noexcept { return *static_cast<head*>(at_); }
  [[nodiscard]] std::byte* ring_of(end from) const noexcept;

  void* at_ = nullptr;
  std::size_t capacity_ = 0;
};

}  // namespace gaudi::ipc
