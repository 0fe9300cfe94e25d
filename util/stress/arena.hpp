// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "common/fabric.hpp"
#include "endpoint.hpp"
#include "plan.hpp"

namespace gaudi::stress {

/// A worker's memory of one kind, registered. Device memory is reached only through the provider's
/// copy. The endpoint must outlive it.
class arena {
 public:
  /// device: the number of the Gaudi that device memory is on.
  arena(const endpoint& ep, memory_kind kind, std::size_t size, int device);

  /// Has another registration in place of the one that peers know, so that nothing of theirs that
  /// is late reaches it.
  void renew();

  local_memory local(const place& at) const;

  /// What peers need for RMA to it.
  remote_memory remote() const { return remote_; }

  void store(std::span<const std::byte> bytes);
  std::vector<std::byte> load(std::size_t size) const;

  /// Whether a copy from the device tells that it is lost. False for host memory.
  bool is_lost() const;

 private:
  void register_all();
  int copy_from_device(std::span<std::byte> to) const;

  fid_domain* domain_;
  bool by_address_;
  std::size_t size_;
  int number_;
  const fi_gaudi_ops* ops_ = nullptr;
  std::vector<std::byte> host_;                    // empty for device memory
  std::unique_ptr<common::device_memory> device_;  // null for host memory
  std::uint64_t base_ = 0;
  common::fid_ptr<fid_mr> mr_;
  remote_memory remote_;
};

}  // namespace gaudi::stress
