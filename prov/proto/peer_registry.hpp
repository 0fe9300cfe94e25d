// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "proto/peer.hpp"

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

  /// The peer with this name, made known if it is new. Throws std::bad_alloc.
  peer& named(const net_address& name);
  [[nodiscard]] const std::vector<std::unique_ptr<peer>>& all() const noexcept { return peers_; }

 private:
  void forget_unused();

  const std::uint32_t scope_;
  peer_numbers& numbers_;
  std::vector<std::unique_ptr<peer>> peers_;
  std::unordered_map<net_address, peer*> by_name_;
  static constexpr std::size_t min_to_look_at = 1024;
  std::size_t to_look_at_ = min_to_look_at;  // when there are as many, at the unused
};

}  // namespace gaudi::proto
