// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "proto/peer/address_vector.hpp"
#include "proto/peer/peer.hpp"

namespace gaudi::proto {

/// Who gives peers the numbers that their messages match receives by.
class peer_numbers {
 public:
  virtual std::uint32_t number_of(const net_address& name) = 0;
  /// The peer is forgotten, and no message of it is kept.
  virtual void forget_number_of(const net_address& name) noexcept = 0;

 protected:
  ~peer_numbers() = default;
};

/// The peers of an endpoint by name. Owns them; a peer's address is the same until it is forgotten.
/// Not thread safe: the caller holds the domain lock.
class peer_registry {
 public:
  /// `scope`: of the endpoint's own address, if it is a link-local one, else 0. Peers that have
  /// such addresses are then reached by the same interface, whatever number that, or theirs, has in
  /// the name. `numbers` outlives the registry.
  peer_registry(std::uint32_t scope, peer_numbers& numbers) noexcept
      : scope_(scope), numbers_(numbers) {}

  /// What peers' addresses are looked up in; null: nothing. Outlives the registry, or is taken
  /// back.
  void use(const address_vector* addresses) noexcept { addresses_ = addresses; }
  /// Whether names are changed before they are looked up, so that `addresses` has others.
  [[nodiscard]] bool has_scope() const noexcept { return scope_ != 0; }

  /// The peer with this name, made known if it is new. Throws std::bad_alloc.
  peer& named(const net_address& name);
  /// Null: there is none.
  [[nodiscard]] peer* find(const net_address& name) const noexcept;
  [[nodiscard]] const std::vector<std::unique_ptr<peer>>& all() const noexcept { return peers_; }

 private:
  [[nodiscard]] net_address in_scope(const net_address& name) const noexcept {
    return scope_ != 0 ? name.with_scope(scope_) : name;
  }
  void forget_unused();

  const std::uint32_t scope_;
  peer_numbers& numbers_;
  const address_vector* addresses_ = nullptr;
  std::vector<std::unique_ptr<peer>> peers_;
  std::unordered_map<net_address, peer*> by_name_;
  static constexpr std::size_t min_to_look_at = 1024;
  std::size_t to_look_at_ = min_to_look_at;  // when there are as many, at the unused
};

}  // namespace gaudi::proto
