// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/result.hpp"
#include "core/fid.hpp"
#include "core/inner_domain.hpp"

namespace gaudi::core {

/// A connection of a domain with itself: by it the NIC copies between memory of this process, as
/// between a peer's and ours. Not thread safe; belongs to the domain lock as the domain does, and
/// ends before it.
class loopback {
 public:
  /// Connects; takes some round trips of the connection manager. -FI_ETIMEDOUT: that took longer
  /// than a second; else the core's error.
  static base::result<std::unique_ptr<loopback>> open(inner_domain& core);

  loopback(const loopback&) = delete;
  loopback& operator=(const loopback&) = delete;

  /// The NIC reads `length` bytes at `address` under `key`, which must allow FI_REMOTE_READ, and
  /// puts them to `to` (a device address where `descriptor` is a dma-buf's). Returns when it has
  /// done so. -FI_ETIMEDOUT after a second, or the core's error; the object is of no use then.
  base::result<void> read(void* to, void* descriptor, std::size_t length, std::uint64_t address,
                          std::uint64_t key);

 private:
  explicit loopback(inner_domain& core) noexcept : core_(core) {}
  base::result<void> open_queues();
  base::result<void> listen();
  base::result<unique_fid<fid_ep>> endpoint_for(fi_info& info);
  base::result<void> connect();
  base::result<void> accept(unique_info request);
  base::result<void> answer_until_connected();
  [[nodiscard]] unique_info info_without_port() const;

  inner_domain& core_;
  unique_fid<fid_eq> events_;
  unique_fid<fid_cq> completions_;
  unique_fid<fid_pep> listener_;
  unique_fid<fid_ep> near_;
  unique_fid<fid_ep> far_;
};

}  // namespace gaudi::core
