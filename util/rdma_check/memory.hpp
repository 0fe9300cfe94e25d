// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/scoped_fd.hpp"
#include "common/pattern.hpp"
#include "copy/host_pages.hpp"
#include "gaudi.hpp"

namespace gaudi::rdma_check {

struct mr_deregister {
  void operator()(ibv_mr* mr) const { ibv_dereg_mr(mr); }
};
using mr_ptr = std::unique_ptr<ibv_mr, mr_deregister>;

/// Registers host memory for all local and remote operations; a failure (operation_failed) with
/// the reason.
mr_ptr register_host(ibv_pd* pd, const copy::host_pages& pages);

/// Memory of one side, registered with its NIC for all operations; its length is whole pages. The
/// CPU never touches device memory: the copy engine fills and reads it. The protection domain must
/// outlive it.
class memory {
 public:
  /// `gaudi` null: host memory. Otherwise the NIC is given a dma-buf; a failure (no_dmabuf) says
  /// who refused it and what to do.
  memory(ibv_pd* pd, const gaudi_device* gaudi, std::size_t size);

  bool on_device() const { return gaudi_ != nullptr; }
  std::uint64_t address() const { return address_; }
  std::size_t length() const { return length_; }
  std::uint32_t lkey() const { return mr_->lkey; }
  std::uint32_t rkey() const { return mr_->rkey; }

  void fill(const common::pattern& bytes, std::size_t offset, std::size_t size);
  /// Offset in the message of the first byte that is not the pattern's.
  std::optional<std::size_t> find_difference(const common::pattern& bytes, std::size_t offset,
                                             std::size_t size);

 private:
  void register_device(ibv_pd* pd, std::size_t size);

  // In this order they are made; the driver wants them released in reverse.
  const gaudi_device* gaudi_;
  copy::host_pages pages_;               // the memory itself, or what passes through to the device
  std::unique_ptr<device_block> block_;  // null for host memory
  base::scoped_fd dmabuf_;
  mr_ptr mr_;
  std::uint64_t address_ = 0;
  std::size_t length_ = 0;
};

}  // namespace gaudi::rdma_check
