// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ipc/segment.hpp"

#include <fcntl.h>
#include <rdma/fi_errno.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <array>
#include <bit>
#include <cerrno>
#include <new>
#include <utility>

namespace gaudi::ipc {

struct segment::head {
  std::uint64_t magic;
  std::uint64_t capacity;
  std::array<end_facts, 2> facts;
  std::array<ring_control, 2> rings;  // by the end that writes
};

namespace {

constexpr std::uint64_t magic_of_segments = 0x31676553'46415547;
constexpr std::size_t page = 4096;
constexpr std::size_t least_capacity = 1024;
constexpr std::size_t most_capacity = std::size_t{1} << 28;
constexpr int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

constexpr std::size_t index_of(end which) noexcept {
  return static_cast<std::size_t>(which);
}

bool is_possible(std::uint64_t capacity) noexcept {
  return std::has_single_bit(capacity) && capacity >= least_capacity && capacity <= most_capacity;
}

}  // namespace

std::size_t segment::size_of(std::size_t capacity) noexcept {
  static_assert(sizeof(head) <= page);
  return page + 2 * capacity;
}

base::result<segment> segment::map(int memory, std::size_t capacity) {
  void* const at =
      ::mmap(nullptr, size_of(capacity), PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
  if (at == MAP_FAILED) return base::error{-errno};
  // A child of fork does not use the connection, and must not keep the memory.
  ::madvise(at, size_of(capacity), MADV_DONTFORK);
  return segment(at, capacity);
}

base::result<segment> segment::make(std::size_t capacity, base::scoped_fd& memory) {
  memory.reset(::memfd_create("gaudi-fi", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory) return base::error{-errno};
  if (::ftruncate(memory.get(), static_cast<off_t>(size_of(capacity))) != 0 ||
      ::fcntl(memory.get(), F_ADD_SEALS, seals) != 0)
    return base::error{-errno};
  auto made = map(memory.get(), capacity);
  if (made) {
    head* const top = new (made->at_) head{};
    top->magic = magic_of_segments;
    top->capacity = capacity;
  }
  return made;
}

base::result<segment> segment::take(int memory) {
  const int has = ::fcntl(memory, F_GET_SEALS);
  if (has < 0 || (has & F_SEAL_SHRINK) == 0) return base::error{-FI_EINVAL};
  struct stat facts {};
  if (::fstat(memory, &facts) != 0) return base::error{-errno};
  const auto size = static_cast<std::uint64_t>(facts.st_size);
  const std::uint64_t capacity = size > page ? (size - page) / 2 : 0;
  if (!is_possible(capacity) || size != size_of(capacity)) return base::error{-FI_EINVAL};
  auto taken = map(memory, capacity);
  if (taken && (taken->top().magic != magic_of_segments || taken->top().capacity != capacity))
    return base::error{-FI_EINVAL};
  return taken;
}

segment::segment(segment&& other) noexcept
    : at_(std::exchange(other.at_, nullptr)), capacity_(other.capacity_) {}

segment::~segment() {
  if (at_) ::munmap(at_, size_of(capacity_));
}

end_facts& segment::facts_of(end which) noexcept {
  return top().facts[index_of(which)];
}

std::byte* segment::ring_of(end from) const noexcept {
  return static_cast<std::byte*>(at_) + page + index_of(from) * capacity_;
}

ring_writer segment::writer(end from) noexcept {
  return {top().rings[index_of(from)], ring_of(from), capacity_};
}

ring_reader segment::reader(end from) noexcept {
  return {top().rings[index_of(from)], ring_of(from), capacity_};
}

}  // namespace gaudi::ipc
