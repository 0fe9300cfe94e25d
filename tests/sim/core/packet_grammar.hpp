// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "proto/wire/wire.hpp"
#include "sim/rng.hpp"

namespace gaudi::sim {

/// What the fields of each kind of packet mean. A packet that is composed by it has in each field
/// what another packet had in a field of the same meaning, so that it gets behind the checks that
/// refuse what is nonsense, also where its kind was never sent in the schedule.
class packet_grammar {
 public:
  /// Remembers the values of a packet's fields. `is_by_composer`: of who compose() is for, or of
  /// another, to whom the same operation is the other's.
  void learn(std::span<const std::byte> packet, bool is_by_composer);
  /// Makes of a packet, of which only the header is there, one of that kind.
  void compose(rng& numbers, proto::wire::kind what, std::vector<std::byte>& packet) const;

 private:
  static constexpr std::size_t max_kept = 16;
  static constexpr std::size_t widest = sizeof(proto::wire::rail_place);
  /// The last values that a field of one meaning had.
  struct known_values {
    std::array<std::array<std::byte, widest>, max_kept> values{};
    std::size_t seen = 0;
  };
  static constexpr std::size_t meanings = 6;
  static constexpr std::size_t kinds = 64;

  void put(rng& numbers, std::size_t meaning, std::span<std::byte> at) const;
  void put_list(rng& numbers, std::size_t meaning, std::size_t most,
                std::vector<std::byte>& packet) const;

  std::array<known_values, meanings> known_{};
  std::array<std::uint8_t, kinds> flags_{};  // that the last one of each kind had
};

}  // namespace gaudi::sim
