// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include "proto/connection/connection.hpp"

namespace gaudi::proto {

/// How many data messages each peer may send without an answer, where the receive buffers for them
/// are shared by all peers (over RDMA): in all never more than there are buffers for. Each has a
/// few for certain; the others go to peers that use theirs up, as long as there are some, and are
/// taken back from those that do not, or have far more.
///
/// Over a stream, where what finds no buffer waits in the socket, each peer has as many as one
/// needs, and none of this is called. Not thread safe: the caller holds the domain lock.
class credit_pool {
 public:
  static constexpr std::uint16_t certain = 4;
  static constexpr std::uint16_t most = 64;

  /// `limited`: the buffers are shared. `others`: how many there are for more than what each
  /// connection has for certain.
  credit_pool(bool limited, std::size_t others) noexcept
      : limited_(limited), window_(window_over_stream(others)), others_(others) {}

  [[nodiscard]] bool is_limited() const noexcept { return limited_; }

  /// The window that the peer of a new connection begins with, which is its own until close().
  [[nodiscard]] std::uint16_t open(connection& c) noexcept;
  void close(const connection& c) noexcept;

  /// A message of the peer's does not occupy anything here any more.
  void consumed(connection& c) noexcept {
    if (!limited_) return c.data.consumed(window_);
    consumed_of_limited(c);
  }

  /// The peer has given up this many of the credits that it had.
  void released(connection& c, std::uint32_t count) noexcept;

  /// A connection that wants more than there is: others are to be asked for theirs (recall).
  [[nodiscard]] bool any_wanted() const noexcept { return wanted_by_ != nullptr; }
  /// Picks one that is to be asked, if there is one, with for_each(visit), which visits all
  /// connections. Null: none has any that it does not use.
  template <class ForEach>
  connection* recall(ForEach&& for_each) noexcept;

  /// Credits that no connection has, of `others`.
  [[nodiscard]] std::size_t others() const noexcept { return others_; }

 private:
  static std::uint16_t window_over_stream(std::size_t others) noexcept;
  static std::uint32_t promised(const connection& c) noexcept;
  void consumed_of_limited(connection& c) noexcept;
  void grow(connection& c) noexcept;
  void lower(connection& c, std::uint16_t target) noexcept;
  [[nodiscard]] bool is_asleep(const connection& c) const noexcept;

  // A connection that nothing came on while so many messages came on others.
  static constexpr std::uint64_t asleep_after = 64;
  // To look for one that has too many costs a visit to each.
  static constexpr std::uint64_t between_looks = 32;

  const bool limited_;
  const std::uint16_t window_;  // over a stream
  std::size_t others_;
  std::uint64_t messages_ = 0;  // consumed, of all connections
  std::uint64_t next_look_ = 0;
  connection* wanted_by_ = nullptr;  // until the next recall or close
};

template <class ForEach>
connection* credit_pool::recall(ForEach&& for_each) noexcept {
  connection* const wants = wanted_by_;
  wanted_by_ = nullptr;
  connection* idle = nullptr;
  connection* rich = nullptr;
  for_each([&](connection& c) {
    if (&c == wants || promised(c) <= certain) return;
    connection*& best = is_asleep(c) ? idle : rich;
    if (!best || promised(c) > promised(*best)) best = &c;
  });
  if (idle) {
    lower(*idle, certain);
    idle->share.used_at = messages_;  // is not asked again at once
    return idle;
  }
  // Of what it uses up, less comes back.
  if (rich && wants && promised(*rich) >= 2 * promised(*wants))
    lower(*rich, static_cast<std::uint16_t>(promised(*rich) / 2));
  return nullptr;
}

}  // namespace gaudi::proto
