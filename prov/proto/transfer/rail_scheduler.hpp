// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/make_room.hpp"
#include "proto/connection/connection.hpp"
#include "proto/operation/path_counters.hpp"
#include "proto/operation/transfer.hpp"
#include "proto/session/rail.hpp"
#include "proto/session/rail_settings.hpp"

namespace gaudi::proto {

/// Which rail carries the next piece of a long transfer. Each has a few pieces at a time, so that
/// the faster ones come back for more, and the end of a transfer is not left to a slow one: that
/// gets a piece only where it is through with it before the others would be with all that is left.
///
/// Not thread safe: the caller holds the domain lock.
class rail_scheduler {
 public:
  /// `in_order`: RMA is to arrive in the order in which it was posted, which only one connection
  /// does.
  rail_scheduler(const rail_settings& settings, bool in_order, base::clock clock,
                 path_counters& paths)
      : settings_(settings),
        threshold_(settings.count > 1 && !in_order ? 2 * settings.chunk : SIZE_MAX),
        clock_(clock),
        paths_(paths) {}

  /// Whether its pieces go over several rails, or the connection is one that needs other keys. One
  /// that is long enough has rails made.
  [[nodiscard]] bool shares_out(const transfer& t) {
    if (t.length >= threshold_) [[unlikely]]
      return shares_out_long(*t.connection);
    return t.connection->session.is_away;
  }
  /// Bytes of the shortest transfer that is shared out.
  [[nodiscard]] std::size_t threshold() const noexcept { return threshold_; }
  /// Bytes of a piece.
  [[nodiscard]] std::size_t chunk() const noexcept { return settings_.chunk; }
  /// Has those made that are down, if it is time.
  void want(connection& c);
  /// The place of the rail that is to have `length` bytes of the `left` that a transfer has still
  /// to hand out; none: to wait is better, or there is no room. `usable`: the rails that can have
  /// them, each 1 << its place.
  [[nodiscard]] std::optional<std::size_t> choose(const connection& c, std::size_t length,
                                                  std::size_t left,
                                                  std::uint8_t usable = 0xff) noexcept;
  /// It has them.
  void posted(connection& c, posted_op& w, std::size_t place, std::size_t length) noexcept;
  /// The rail at `place`, which had so much, has done it or failed to.
  void ended(connection& c, std::size_t place, std::size_t length, int error) noexcept;

  /// The rail takes nothing more: it is about to be closed.
  void fail(connection& c, rail& r) noexcept;

  // The connections whose rails rail_recovery has something to do with.

  [[nodiscard]] bool any_to_look_at() const noexcept { return any_to_look_at_; }
  /// Room for so many connections. Throws std::bad_alloc.
  void reserve(std::size_t connections) { base::reserve_ahead(to_look_at_, connections); }
  void look_at(connection& c) noexcept {
    if (!std::exchange(c.at_core.rails->is_listed, true)) to_look_at_.push_back(c.id);
    any_to_look_at_ = true;
  }
  /// By id; some may have ended. They may be listed again.
  [[nodiscard]] std::vector<std::uint32_t> take_to_look_at() {
    // GCC 14 takes what a plain copy frees for no heap object.
    std::vector<std::uint32_t> all(to_look_at_.begin(), to_look_at_.end());
    to_look_at_.clear();
    any_to_look_at_ = false;
    return all;
  }

 private:
  [[nodiscard]] bool shares_out_long(connection& c);

  const rail_settings& settings_;
  const std::size_t threshold_;
  const base::clock clock_;
  path_counters& paths_;
  std::vector<std::uint32_t> to_look_at_;
  bool any_to_look_at_ = false;  // asked at every progress
};

}  // namespace gaudi::proto
