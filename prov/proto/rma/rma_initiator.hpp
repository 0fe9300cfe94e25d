// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_errno.h>

#include <cstdint>

#include "core/inner_domain.hpp"
#include "proto/channel/packet_channel.hpp"
#include "proto/connection/connection_manager.hpp"
#include "proto/connection/endpoint_settings.hpp"
#include "proto/operation/operations.hpp"
#include "proto/operation/staging_pool.hpp"
#include "proto/transfer/data_mover.hpp"
#include "proto/transfer/direct_rma.hpp"
#include "proto/transfer/rendezvous_source.hpp"
#include "proto/transfer/transfer_completion.hpp"
#include "proto/transfer/transfer_table.hpp"
#include "reg/key_table.hpp"

namespace gaudi::proto {

/// One-sided operations, at the end that asks for them: by the core alone where the key is its own,
/// else by messages that the target's provider answers (device memory, keys that the application
/// chose, and peers on this host).
///
/// Not thread safe: the caller holds the domain lock.
class rma_initiator {
 public:
  /// What it works with; all of it outlives this.
  struct parts {
    connection_manager& connections;
    core_transport& transport;
    device_copies& copies;
    packet_channel& channel;
    transfer_table& table;
    transfer_completion& completion;
    direct_rma& direct;
    data_mover& mover;
    rendezvous_source& rendezvous;
  };

  rma_initiator(core::inner_domain& core, const endpoint_settings& config, parts collaborators);

  // On a connection that has a credit for it. 0, -FI_EAGAIN: no room; or an error. Inlined into the
  // endpoint's own: each call in between costs a tenth of what it takes to post.
  [[gnu::always_inline]] int write(connection& c, const local_memory& memory,
                                   const rma_access& access) {
    return is_direct(c, access.key) ? access_directly(c, memory, access, transfer_strategy::push)
                                    : write_by_message(c, memory, access);
  }
  [[gnu::always_inline]] int read(connection& c, const local_memory& memory,
                                  const rma_access& access) {
    return reads_directly_ && is_direct(c, access.key)
               ? access_directly(c, memory, access, transfer_strategy::pull)
               : read_by_message(c, memory, access);
  }

  /// What was one operation of the core, which has given it back undone, and whose connection needs
  /// other keys now. As above; if 0, it is still the caller's to let go of (direct_rma::leave).
  int begin_again(connection& c, const direct_op& op);

  /// A copy of memory of any kind, at most max_inject bytes, for release_staging() to take back.
  /// -FI_EAGAIN, or an error: none is left, or the device does not copy.
  base::result<buffer*> copy_injected(connection& c, const local_memory& memory);
  [[nodiscard]] static local_memory memory_in(const buffer& copied) noexcept;

  /// As buffer_pool::free_all.
  void free_buffers() noexcept { injected_.free_all(); }

 private:
  // To a peer on this host all goes the one way that messages go, and the peer looks at the key. So
  // it does where a session has gone on over a NIC that the key is not of.
  [[nodiscard]] bool is_direct(const connection& c, std::uint64_t key) const noexcept {
    return config_.provider_keys && !(key & reg::key_table::software_bit) && !c.shm &&
           !c.session.is_away;
  }
  [[gnu::always_inline]] int access_directly(connection& c, const local_memory& memory,
                                             const rma_access& access, transfer_strategy way) {
    const int ret = parts_.direct.post(c, memory, access, way == transfer_strategy::pull);
    return ret == -FI_EAGAIN ? access_by_transfer(c, memory, access, way) : ret;
  }
  int access_by_transfer(connection& c, const local_memory& memory, const rma_access& access,
                         transfer_strategy way);
  int inject_write(connection& c, const local_memory& memory, const rma_access& access);
  int write_by_message(connection& c, const local_memory& memory, const rma_access& access);
  int read_by_message(connection& c, const local_memory& memory, const rma_access& access);
  void keep_order(transfer& t) noexcept;

  const endpoint_settings& config_;
  const bool reads_directly_;
  const parts parts_;
  staging_pool injected_;
};

}  // namespace gaudi::proto
