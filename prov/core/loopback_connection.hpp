// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "core/fid.hpp"
#include "core/inner_domain.hpp"

namespace gaudi::core {

/// Memory of this process that the core knows, for its own operations at least.
struct local_place {
  std::byte* bytes;  ///< a device address where the descriptor is a dma-buf's
  void* descriptor;
};

/// A connection of a domain with itself: by it the NIC copies between memory of this process, as
/// between a peer's and ours. Not thread safe; belongs to the domain lock as the domain does, and
/// ends before it.
class loopback_connection {
 public:
  /// Connects; takes some round trips of the connection manager. -FI_ETIMEDOUT: that took longer
  /// than a second by `clock`; else the core's error.
  static base::result<std::unique_ptr<loopback_connection>> open(inner_domain& core,
                                                                 base::clock clock = {});

  loopback_connection(const loopback_connection&) = delete;
  loopback_connection& operator=(const loopback_connection&) = delete;

  /// The NIC reads `length` bytes at `address` under `key`, which must allow FI_REMOTE_READ, and
  /// puts them to `to` (a device address where `descriptor` is a dma-buf's), in as many operations
  /// as the core's max_msg_size asks for. Returns when all is there. -FI_ETIMEDOUT: an operation
  /// took longer than time_limit() of its length; else the core's error. The object is of no use
  /// then, and some of the bytes may have been written.
  base::result<void> read(void* to, void* descriptor, std::size_t length, std::uint64_t address,
                          std::uint64_t key);

  /// The NIC copies `length` bytes by a message. Unlike what read() reads, neither place needs any
  /// right of peers, who cannot be told from this connection: FI_SEND and FI_RECV are enough.
  /// Returns when all is there and both places are the caller's again. Errors as read.
  base::result<void> copy(const local_place& to, const local_place& from, std::size_t length);

  /// How long an operation of that many bytes may take. A NIC that fails says so itself, sooner;
  /// this is for one that says nothing. So it is far beyond what the slowest needs: soft-RoCE on a
  /// busy CPU moves several times 64 MiB a second. Time in which the thread, or the machine, was
  /// stopped does not count.
  static constexpr std::chrono::seconds time_limit(std::size_t length) noexcept {
    return std::chrono::seconds(1 + length / (std::size_t{64} << 20));
  }

 private:
  loopback_connection(inner_domain& core, base::clock clock) noexcept
      : core_(core), clock_(clock) {}
  base::result<void> open_queues();
  base::result<void> listen();
  base::result<unique_fid<fid_ep>> endpoint_for(fi_info& info);
  base::result<void> connect();
  base::result<void> accept(unique_info request);
  base::result<void> answer_until_connected();
  [[nodiscard]] unique_info info_without_port() const;
  template <class Part>
  base::result<void> in_parts(std::size_t length, Part part);
  int await(unsigned operations, base::clock::duration limit);

  inner_domain& core_;
  const base::clock clock_;
  unique_fid<fid_eq> events_;
  unique_fid<fid_cq> completions_;
  unique_fid<fid_pep> listener_;
  unique_fid<fid_ep> near_;
  unique_fid<fid_ep> far_;
};

}  // namespace gaudi::core
