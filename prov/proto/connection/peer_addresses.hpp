// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fabric.h>

#include <vector>

#include "proto/connection/connection_closer.hpp"
#include "proto/connection/connection_manager.hpp"
#include "proto/peer/address_vector.hpp"

namespace gaudi::proto {

/// The peers of an endpoint by their addresses, as its address vector has them. An address has a
/// peer from the first time on that something is sent to it, or that the peer is heard of: most
/// that an application knows of it never talks to. Not thread safe: the caller holds the domain
/// lock.
class peer_addresses final : private address_vector::listener {
 public:
  peer_addresses(connection_manager& connections, connection_closer& closer) noexcept
      : connections_(connections), closer_(closer) {}

  void use(address_vector& av);
  /// From here on no address has a peer that had none.
  void stop() noexcept;
  /// The peer, made known where it is not yet. Null: the address vector has nothing there. Throws
  /// std::bad_alloc.
  [[nodiscard]] peer* meet(fi_addr_t address);
  /// Null: the address vector has nothing there, or nothing was sent to it.
  [[nodiscard]] peer* find(fi_addr_t address) const noexcept {
    return address < by_address_.size() ? by_address_[address] : nullptr;
  }
  /// The peer's connection where it is open; null: there is none, or not yet.
  [[nodiscard]] connection* open_connection(fi_addr_t address) const noexcept {
    const peer* const p = find(address);
    return p && p->current && p->current->is_open() ? p->current : nullptr;
  }

 private:
  void added(fi_addr_t index, const net_address& address) override;
  void removed(fi_addr_t index, const net_address& address) override;

  connection_manager& connections_;
  connection_closer& closer_;
  address_vector* addresses_ = nullptr;
  std::vector<peer*> by_address_;
};

}  // namespace gaudi::proto
