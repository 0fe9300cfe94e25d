// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>

#include "base/result.hpp"
#include "core/inner_domain.hpp"

namespace gaudi::reg {

/// Numbers for parts of dma-bufs that the application brings, by which the registration cache knows
/// them: the same part, by whichever descriptor, has the same number. Which file a descriptor means
/// is told by device and inode. A registration keeps the dma-buf, and so its inode: while there is
/// one with a part's number nothing else can have the inode, and once there is none the number
/// finds nothing. So no descriptor is kept, and a number may outlive its file. Not thread safe.
class dmabuf_ids {
 public:
  /// Of the part; as none of an allocation. -errno: not an open file. Throws std::bad_alloc.
  base::result<std::uint64_t> number_of(const core::dmabuf_range& part);

  /// Drops the numbers that `is_known` says nothing is registered with, at times, so that there are
  /// hardly more than registrations.
  template <class IsKnown>
  void prune(IsKnown&& is_known) {
    if (numbers_.size() < enough_) return;
    std::erase_if(numbers_, [&](const auto& n) { return !is_known(n.second); });
    enough_ = 2 * numbers_.size() + few;
  }

  [[nodiscard]] std::size_t count() const noexcept { return numbers_.size(); }

 private:
  // Allocations count up from 1, and never get here.
  static constexpr std::uint64_t first = std::uint64_t{1} << 60;
  static constexpr std::size_t few = 64;

  struct part_name {
    ::dev_t device;
    ::ino_t inode;
    std::uint64_t offset;
    std::uint64_t length;
    std::uint64_t base_addr;
    bool operator<(const part_name& other) const noexcept {
      return std::tie(device, inode, offset, length, base_addr) <
             std::tie(other.device, other.inode, other.offset, other.length, other.base_addr);
    }
  };
  std::map<part_name, std::uint64_t> numbers_;
  std::uint64_t next_ = first;
  std::size_t enough_ = few;
};

}  // namespace gaudi::reg
