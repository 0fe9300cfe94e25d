// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.hpp"
#include "reg/region.hpp"

namespace gaudi::reg {

/// Keys of a domain's regions.
///
/// A key that the provider chooses is the core's own key where a peer may use it directly (host
/// memory, and device memory that the NIC reaches), so that RMA needs no software at the target.
/// Every other region is `software`: its key is found in this table when a request of a peer
/// arrives. Keys that the application chooses are always software, as the core knows nothing of
/// them. Linked through the regions themselves, so that only growth allocates; they leave before
/// they go. Not thread safe: the caller holds the domain lock.
class key_table {
 public:
  /// Set in every provider-chosen key that the core does not know. verbs keys have 32 bits and
  /// over tcp core::inner_domain draws 63: the core's own never have it.
  static constexpr std::uint64_t software_bit = std::uint64_t{1} << 63;

  /// Makes the region known under a key of the provider's choice, and writes it to region.key.
  /// `software`: not under the core's, so that this side takes part in every access.
  void add_chosen_here(region& r, bool software = false);

  /// Makes the region known under the application's key. -FI_ENOKEY: in use.
  base::result<void> add_requested(region& r, std::uint64_t key);

  /// Nothing happens to one that is not here.
  void remove(region& r) noexcept;

  /// Where a peer's request points. -FI_EACCES: no such key, not this access, or outside the
  /// region: a peer learns no more than that.
  [[nodiscard]] base::result<region*> find(std::uint64_t key, std::uint64_t address,
                                           std::size_t length, std::uint64_t access) const noexcept;

 private:
  // Keys that applications choose count up, or have their numbers in their upper bits.
  [[nodiscard]] std::size_t place_of(std::uint64_t key) const noexcept {
    return static_cast<std::size_t>(key * 0x9e3779b97f4a7c15 >> (64 - bits_));
  }
  region*& chain(std::uint64_t key) noexcept { return chains_[place_of(key)]; }
  void link(region& r) noexcept;
  void make_room();
  [[nodiscard]] std::uint64_t software_key() noexcept;
  [[nodiscard]] bool has(std::uint64_t key) noexcept;

  // Regions in one allocation of a device may share the core's registration, and so its key.
  std::vector<region*> chains_;
  unsigned bits_ = 0;  // of their number
  std::size_t count_ = 0;
};

}  // namespace gaudi::reg
