// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ipc/segment.hpp"

#include <fcntl.h>
#include <rdma/fi_errno.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <bit>
#include <cerrno>
#include <new>
#include <utility>

#include "ipc/host_kernel.hpp"

namespace gaudi::ipc {

namespace {

constexpr std::uint64_t magic_of_segments = 0x34676553'46415547;
constexpr std::size_t min_ring_capacity = 1024;
constexpr std::size_t max_capacity = std::size_t{1} << 28;
constexpr std::size_t max_slots = 1024;
constexpr std::size_t max_slot_size = std::size_t{1} << 30;
constexpr int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

constexpr std::size_t index_of(end which) noexcept {
  return static_cast<std::size_t>(which);
}

// The limits keep every sum of sizes far below 2^64.
bool is_possible(const segment_shape& s) noexcept {
  return std::has_single_bit(s.capacity) && s.capacity >= min_ring_capacity &&
         s.capacity <= max_capacity && s.slots <= max_slots && s.slot_size <= max_slot_size &&
         s.slot_size % segment_page == 0;
}

// Whole pages: slots behind the rings begin on one.
constexpr std::size_t ring_bytes(const segment_shape& s) noexcept {
  return (2 * s.capacity + segment_page - 1) & ~(segment_page - 1);
}

}  // namespace

std::size_t segment::size_of(const segment_shape& s) noexcept {
  static_assert(sizeof(segment_head) <= segment_page);
  return segment_page + ring_bytes(s) + 2 * s.slots * s.slot_size;
}

base::result<segment> segment::make(const segment_shape& shape, base::scoped_fd& memory,
                                    host_kernel& kernel) {
  if (!is_possible(shape)) return base::error{-FI_EINVAL};
  memory.reset(::memfd_create("gaudi-fi", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory) return base::error{-errno};
  if (::ftruncate(memory.get(), static_cast<off_t>(size_of(shape))) != 0 ||
      ::fcntl(memory.get(), F_ADD_SEALS, seals) != 0)
    return base::error{-errno};
  const auto at = kernel.map(memory.get(), size_of(shape));
  if (!at) return at.failure();
  auto* const top = new (*at) segment_head{};
  top->magic = magic_of_segments;
  top->shape = shape;
  return segment(kernel, *at, shape);
}

// What the head says is the other process's word, and may change: it is read once, and believed
// only as far as the file is as long as it says.
base::result<segment> segment::take(int memory, host_kernel& kernel) {
  const int has = ::fcntl(memory, F_GET_SEALS);
  if (has < 0 || (has & F_SEAL_SHRINK) == 0) return base::error{-FI_EINVAL};
  struct stat facts {};
  if (::fstat(memory, &facts) != 0) return base::error{-errno};
  const auto size = static_cast<std::size_t>(facts.st_size);
  if (size < segment_page) return base::error{-FI_EINVAL};
  const auto at = kernel.map(memory, size);
  if (!at) return at.failure();
  const segment_head& top = *static_cast<const segment_head*>(*at);
  const segment_shape says = top.shape;
  if (top.magic != magic_of_segments || !is_possible(says) || size_of(says) != size) {
    kernel.unmap(*at, size);
    return base::error{-FI_EINVAL};
  }
  return segment(kernel, *at, says);
}

segment::segment(segment&& other) noexcept
    : kernel_(other.kernel_), base_(std::exchange(other.base_, nullptr)), shape_(other.shape_) {}

segment::~segment() {
  if (base_) kernel_->unmap(base_, size_of(shape_));
}

peer_info& segment::peer_info_of(end which) noexcept {
  return top().facts[index_of(which)];
}

std::byte* segment::ring_of(end from) const noexcept {
  return static_cast<std::byte*>(base_) + segment_page + index_of(from) * shape_.capacity;
}

cooperative_copies::words& segment::copy_state_of(end owner) noexcept {
  return top().cooperative[index_of(owner)];
}

ring_writer segment::writer(end from) noexcept {
  return {top().rings[index_of(from)], ring_of(from), shape_.capacity};
}

ring_reader segment::reader(end from) noexcept {
  return {top().rings[index_of(from)], ring_of(from), shape_.capacity};
}

std::span<std::byte> segment::slots_to(end sink) const noexcept {
  const std::size_t each_way = shape_.slots * shape_.slot_size;
  std::byte* const first = static_cast<std::byte*>(base_) + segment_page + ring_bytes(shape_);
  return {first + index_of(sink) * each_way, each_way};
}

}  // namespace gaudi::ipc
