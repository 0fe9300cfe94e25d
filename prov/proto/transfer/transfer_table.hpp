// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>

#include "base/id_table.hpp"
#include "base/object_pool.hpp"
#include "proto/connection/connection.hpp"
#include "proto/operation/transfer.hpp"
#include "proto/transfer/operation_records.hpp"

namespace gaudi::proto {

/// The transfers of an endpoint, by the id that peers name them with, and which of them wait to be
/// tried again. Not thread safe: the caller holds the domain lock.
class transfer_table {
 public:
  using id = base::id_table<transfer>::id;

  transfer_table() = default;
  transfer_table(const transfer_table&) = delete;
  transfer_table& operator=(const transfer_table&) = delete;

  /// On a connection, or (null) without one. Null: memory is short.
  transfer* create(connection* c, const local_memory& memory, const completion_spec& completion);
  /// Takes it out of all lists, and the table; what it has is given back already.
  void destroy(transfer& t) noexcept;
  /// Every one, whatever it has: connections, core and devices know of none any more.
  void destroy_all() noexcept;

  /// Null: there is none, or not any more.
  [[nodiscard]] transfer* find(id which) const noexcept { return by_id_.find(which); }
  /// One of this connection's that has not ended; null: there is none.
  [[nodiscard]] transfer* find_active(const connection& c, id which) const noexcept {
    transfer* const t = find(which);
    return t && t->connection == &c && !t->ending.begun ? t : nullptr;
  }
  [[nodiscard]] std::size_t size() const noexcept { return by_id_.size(); }
  template <class Visit>
  void for_each(Visit&& visit) {
    by_id_.for_each(visit);
  }

  /// Operations of the core on the memory of transfers.
  [[nodiscard]] base::object_pool<rma_op>& pieces() noexcept { return pieces_; }

  /// To be tried again, behind the others.
  void stall(transfer& t) noexcept {
    if (!t.stalled_hook.is_linked()) stalled_.push_back(t);
  }
  [[nodiscard]] stalled_list& stalled() noexcept { return stalled_; }

  /// What others see of the transfers.
  [[nodiscard]] operation_records& records() noexcept { return records_; }

  /// It is an RMA operation of a peer's on a region of ours.
  void list_for_peer(transfer& t) noexcept { for_peers_.push_back(t); }
  [[nodiscard]] for_peer_list& for_peers() noexcept { return for_peers_; }

 private:
  friend struct endpoint_audit;  // tests/sim

  base::object_pool<transfer> pool_;
  base::object_pool<rma_op> pieces_;
  base::id_table<transfer> by_id_;
  stalled_list stalled_;  // could not hand out more: no chunk, no room in core or device
  for_peer_list for_peers_;
  operation_records records_;
};

}  // namespace gaudi::proto
