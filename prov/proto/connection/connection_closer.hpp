// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "base/clock.hpp"
#include "proto/connection/connection_lru.hpp"
#include "proto/connection/connection_manager.hpp"
#include "proto/wire/wire.hpp"

namespace gaudi::proto {

/// Sends a packet that is only a header, and takes no credit. Returns 0, -FI_EAGAIN (no room for it
/// yet), or the error that the connection is about to end with.
class header_sender {
 public:
  virtual int send_header(connection& c, wire::kind what) = 0;

 protected:
  ~header_sender() = default;
};

/// Closes connections that are of no use any more, or too many, in agreement with their peers, so
/// that nothing that either end has sent is lost: the end that has no address for the peer any
/// more, or no room (connection_room), asks while nothing is under way, and begins nothing new; the
/// other end agrees if nothing of its own is under way, and begins nothing new either; then the
/// first one closes. What the applications send meanwhile waits for the next connection
/// (early_sends).
///
/// Not thread safe: the caller holds the domain lock.
class connection_closer {
 public:
  connection_closer(connection_manager& connections, header_sender& sender,
                    const base::clock& clock, std::size_t most) noexcept
      : connections_(connections), sender_(sender), clock_(clock), most_(most) {}

  /// The peer's last address was removed. Where memory is short its connection stays.
  void not_needed(const peer& p) noexcept;
  /// Has those closed that are too many, the least used first. To be called when there is another
  /// one, and now and then, also to find out which are used. Where memory is short they stay.
  void make_room() noexcept {
    if (most_ != 0 && 2 * connections_.count() > most_) [[unlikely]]
      close_surplus();
  }
  /// A close_request, close_accept or close_refuse of the peer's. Throws std::bad_alloc.
  void arrived(connection& c, wire::kind what);

  /// To be called at each progress while there are any().
  void poll();
  [[nodiscard]] bool any() const noexcept { return !listed_.empty(); }
  /// Whether a peer waits for an answer that had no room, or for the end that both have agreed to,
  /// and nothing comes that would tell: poll() must be called soon.
  [[nodiscard]] bool waits_unnoticed() const noexcept;

 private:
  struct entry {
    std::uint32_t id;  // of the connection
    base::clock::time_point asks_from{};
    base::clock::duration pause = min_pause;
    bool is_surplus = false;  // else the application has removed the peer's address
    bool has_asked = false;
  };

  void close_surplus() noexcept;
  void list(const connection& c);
  [[nodiscard]] bool is_listed(const connection& c) const noexcept;
  static bool may_leave(const connection& c) noexcept;
  void answer(connection& c);
  void ask(connection& c, entry& e);
  [[nodiscard]] bool is_through(entry& e);

  // Each poll costs a look at the clock, and some peers are never through.
  static constexpr unsigned polls_per_look = 8;
  static constexpr base::clock::duration min_pause = std::chrono::milliseconds(1);
  static constexpr base::clock::duration max_pause = std::chrono::seconds(1);
  static constexpr base::clock::duration pause_between_looks = std::chrono::milliseconds(100);

  connection_manager& connections_;
  header_sender& sender_;
  const base::clock clock_;
  const std::size_t most_;
  connection_lru lru_;
  base::clock::time_point looked_at_{};  // at which ones are used
  std::vector<entry> listed_;
  unsigned polls_ = 0;
};

}  // namespace gaudi::proto
