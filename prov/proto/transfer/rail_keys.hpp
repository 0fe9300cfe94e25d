// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/inner_domain.hpp"
#include "proto/channel/core_transport.hpp"
#include "proto/channel/packet_channel.hpp"
#include "proto/connection/connection_manager.hpp"
#include "proto/operation/buffer_pool.hpp"
#include "proto/operation/transfer.hpp"
#include "proto/session/rail.hpp"
#include "proto/transfer/transfer_flush.hpp"
#include "proto/transfer/transfer_table.hpp"
#include "proto/transfer/write_fence.hpp"
#include "reg/key_table.hpp"
#include "reg/other_nic.hpp"

namespace gaudi::proto {

/// What memory is called at rails over other NICs, of which the connection itself may be one. This
/// end's is registered with the NIC of a rail when that first carries some of it, and the peer is
/// asked once for each transfer what its memory is called at its NIC; until it has said so the
/// other rails carry the transfer. prov/docs/protocol.md, "Rails".
///
/// Slots have one key for several of them, and serve one transfer after the other: what a NIC of
/// the peer's is known to call them is kept.
///
/// The peer is told of what is written when it is in its memory (write_fence).
///
/// Not thread safe: the caller holds the domain lock.
class rail_keys {
 public:
  /// What it works with; all of it outlives this.
  struct parts {
    connection_manager& connections;
    packet_channel& channel;
    transfer_table& table;
    const reg::key_table& keys;
    transfer_flush& flush;
    const write_fence& fences;
  };

  rail_keys(const rail_settings& settings, parts collaborators) noexcept
      : settings_(settings), parts_(collaborators) {}

  /// From where to where a part of a transfer goes.
  struct way {
    std::size_t offset;         // in the transfer
    bool by_chunk;              // from or to a buffer of ours
    const wire::segment* slot;  // of the peer's; null: it goes to or from other memory
  };

  /// The rails that may carry such a part of the transfer (each is 1 << its place); asks for keys
  /// that are missing.
  [[nodiscard]] std::uint8_t usable(transfer& t, const way& by);
  /// Whether the connection itself will never be one of them, where it is over other NICs: `ours`
  /// is the one that does not take our memory, or the peer's does not reach the peer's.
  struct verdict {
    bool ours = false;
    bool peers = false;
  };
  [[nodiscard]] verdict refused(const transfer& t, const way& by) const noexcept;
  /// Makes an operation of the transfer one of this rail: it gets the descriptor and the key that
  /// the NICs there know the memory by. False: ours does not take it, and carries no more of the
  /// transfer.
  [[nodiscard]] bool adapt(transfer& t, posted_op& w, std::size_t place,
                           rma_request& operation) noexcept;

  /// A peer asks what memory of ours is called.
  void asked(connection& c, const buffer& b, std::size_t length);
  /// A peer's answer. The transfer that may go on by it; null: there is none.
  [[nodiscard]] transfer* answered(connection& c, const buffer& b, std::size_t length);

 private:
  [[nodiscard]] bool may_carry(transfer& t, const rail& r, const way& by);
  [[nodiscard]] bool knows_keys(transfer& t, std::uint8_t peer_nic);
  [[nodiscard]] bool knows_slot(transfer& t, std::uint8_t peer_nic, const wire::segment& slot);
  void ask(const transfer& t, std::uint8_t peer_nic, const wire::segment& what);
  [[nodiscard]] reg::other_nic* nic_of(std::uint32_t number) const noexcept;
  [[nodiscard]] static void* descriptor_at(reg::other_nic& nic, transfer& t, rma_op& piece,
                                           const rma_request& operation);
  [[nodiscard]] static const core::inner_mr* offered(reg::other_nic& nic, transfer& t,
                                                     const local_segment& s, std::uint64_t access);
  static void keys_of_transfer(reg::other_nic& nic, transfer& t, std::uint64_t access,
                               wire::rail_keys_fields& answer);
  static void key_of_slot(reg::other_nic& nic, const transfer& t, std::uint64_t key,
                          wire::rail_keys_fields& answer);
  static void learn(transfer_rails::at& at, rail_set& set, const wire::rail_keys_fields& answer);
  void key_of_region(reg::other_nic& nic, const wire::rail_ask_fields& request,
                     std::uint64_t access, wire::rail_keys_fields& answer) const;

  const rail_settings& settings_;
  const parts parts_;
};

}  // namespace gaudi::proto
