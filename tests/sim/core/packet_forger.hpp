// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/core/packet_grammar.hpp"
#include "sim/rng.hpp"

namespace gaudi::sim {

/// Makes packets that no honest peer sends out of those that one did send. It knows what everybody
/// has sent, and so operations, keys and addresses of others, which a forger in the field has to
/// guess; but not their connections' numbers, which are random and for nobody else.
class packet_forger {
 public:
  /// `is_own`: the forger sends it.
  void overhear(std::span<const std::byte> packet, bool is_own);
  /// Forges it; at most `room` bytes of it arrive. False: nothing arrives in its place.
  bool forge(rng& numbers, std::vector<std::byte>& packet, std::size_t room) const;
  /// Makes one of it that most checks let through, each second time of the kind with that number.
  void compose(rng& numbers, std::size_t favourite, std::vector<std::byte>& packet,
               std::size_t room) const;
  /// The private data of a request or an answer, but for the sender's own name: that of another
  /// host would need that host's address.
  static void forge_hello(rng& numbers, std::vector<std::byte>& said);

 private:
  [[nodiscard]] std::uint64_t some_value(rng& numbers) const;
  void change_field(rng& numbers, std::vector<std::byte>& packet) const;

  static constexpr std::size_t max_kept = 32;
  std::array<std::uint64_t, max_kept> values_{};
  std::array<std::vector<std::byte>, max_kept> packets_;
  std::size_t values_seen_ = 0;
  std::size_t packets_seen_ = 0;
  packet_grammar grammar_;
};

}  // namespace gaudi::sim
