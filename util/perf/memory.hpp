// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "common/pattern.hpp"
#include "endpoint.hpp"
#include "options.hpp"

namespace gaudi::perf {

/// Whether the device copies: a Gaudi3 does not, and its bytes can be neither set nor verified.
bool can_copy(endpoint& ep);

/// Registered memory of one kind, zeroed where that can be. Device memory is reached only through
/// the provider's copy. The endpoint must outlive it.
class buffer {
 public:
  buffer(endpoint& ep, memory_kind kind, std::size_t size);

  local_memory local(std::size_t offset) const;

  /// What the peer needs for RMA to this buffer.
  remote_memory remote() const;

  void fill(const common::pattern& bytes, std::size_t offset, std::size_t size);

  /// Offset in the message of the first byte that is not the pattern's.
  std::optional<std::size_t> find_difference(const common::pattern& bytes, std::size_t offset,
                                             std::size_t size) const;

 private:
  void copy_to_device(std::size_t offset, std::span<const std::byte> from) const;
  void copy_from_device(std::size_t offset, std::span<std::byte> to) const;

  endpoint& ep_;
  std::vector<std::byte> host_;                    // empty for device memory
  std::unique_ptr<common::device_memory> device_;  // null for host memory
  mutable std::vector<std::byte> scratch_;
  std::uint64_t base_ = 0;
  fid_ptr<fid_mr> mr_;
};

}  // namespace gaudi::perf
