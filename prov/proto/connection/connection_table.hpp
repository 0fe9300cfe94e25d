// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/random_name_table.hpp"
#include "base/random_source.hpp"
#include "base/result.hpp"
#include "core/fid.hpp"
#include "proto/connection/connection.hpp"

namespace gaudi::proto {

/// The connections of an endpoint, by the number that peers call them by and by the core's
/// endpoint. Owns them. Not thread safe: the caller holds the domain lock.
class connection_table {
 public:
  explicit connection_table(base::random_source random) : by_id_(random) {}

  /// Adds one that has no core endpoint yet; remove() has room from then on. -FI_ENOMEM: there are
  /// no more numbers. Throws std::bad_alloc, and then nothing has changed.
  base::result<connection*> add(peer& p, connection_state s);
  /// Gives it its core endpoint. Throws std::bad_alloc, and then it has it, but is not found by it.
  void set_endpoint(connection& c, core::unique_fid<fid_ep> ep);
  void close_endpoint(connection& c) noexcept;
  /// Takes it out of everything but memory: callers up the stack may still look at it.
  void remove(connection& c) noexcept;
  /// Frees those that were removed: nobody looks at them any more.
  void free_removed() noexcept { removed_.clear(); }

  [[nodiscard]] connection* find(std::uint32_t id) const noexcept { return by_id_.find(id); }
  /// Null: none has this core endpoint.
  [[nodiscard]] connection* of(const fid* endpoint) const noexcept;
  [[nodiscard]] std::size_t count() const noexcept { return by_id_.size(); }
  /// Those that are removed and not freed as well.
  [[nodiscard]] std::size_t total() const noexcept { return connections_.size() + removed_.size(); }
  /// In no order that anything depends on, but the same one for the same calls.
  [[nodiscard]] const std::vector<std::unique_ptr<connection>>& all() const noexcept {
    return connections_;
  }
  /// Calls visit(connection&) for each; it may remove any, and add none.
  template <class Visit>
  void for_each(Visit&& visit) {
    by_id_.for_each(std::forward<Visit>(visit));
  }

 private:
  base::random_name_table<connection> by_id_;
  std::unordered_map<const fid*, connection*> by_fid_;
  std::vector<std::unique_ptr<connection>> connections_;
  std::vector<std::unique_ptr<connection>> removed_;
};

}  // namespace gaudi::proto
