// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <algorithm>
#include <cstdint>

namespace gaudi::proto {

/// Flow control of one class of messages on one connection, seen from one end: how many messages we
/// may send, and how many of those that we received have been consumed and are to be announced to
/// the peer.
///
/// The window of a peer shrinks when others need its part of the receive buffers (credit_pool):
/// consumed messages are then simply not announced until the outstanding grant is down to the
/// target, and the peer is asked for credits that it does not use.
class credit_window {
 public:
  /// Both windows as exchanged in the hello: what the peer lets us send, and what we let it send.
  void start(std::uint16_t ours, std::uint16_t peers) noexcept {
    available_ = ours;
    offered_ = ours;
    granted_ = peers;
    held_ = 0;
    returnable_ = 0;
  }

  [[nodiscard]] bool can_send() const noexcept { return available_ != 0; }
  void sent() noexcept { --available_; }
  void returned(std::uint8_t count) noexcept { available_ += count; }

  /// Whether it has a credit for a message.
  [[nodiscard]] bool may_arrive() const noexcept { return held_ + returnable_ < granted_; }
  /// A message of the peer is here. False: it had no credit for it.
  [[nodiscard]] bool arrived() noexcept { return ++held_ + returnable_ <= granted_; }

  /// It no longer occupies anything here. `target` is the window that the peer shall have, to which
  /// the current one moves by one a message.
  void consumed(std::uint16_t target) noexcept {
    --held_;
    if (granted_ > target) {
      --granted_;
      return;
    }
    ++returnable_;
    if (granted_ < target) {
      ++granted_;
      ++returnable_;
    }
  }

  /// How many we may send beyond `keep`, which we then may not any more: the peer gets them back.
  [[nodiscard]] std::uint32_t release_beyond(std::uint32_t keep) noexcept {
    const std::uint32_t count = available_ > keep ? available_ - keep : 0;
    available_ -= count;
    return count;
  }
  /// The peer has given up so many of its own, at most may_be_released().
  void released(std::uint32_t count) noexcept { granted_ -= count; }
  [[nodiscard]] std::uint32_t may_be_released() const noexcept {
    return granted_ - std::min(granted_, held_ + returnable_);
  }

  /// Credits to put into the next message to the peer.
  [[nodiscard]] std::uint8_t take_returnable() noexcept {
    const auto count = static_cast<std::uint8_t>(std::min<std::uint32_t>(returnable_, 255));
    returnable_ -= count;
    return count;
  }

  /// The peer may have used half of its window or more: a message of our own for the credits is
  /// worth sending.
  [[nodiscard]] bool return_is_due() const noexcept {
    return returnable_ != 0 && (returnable_ + held_) * 2 >= granted_;
  }

  /// The peer has said of every message of ours that it was consumed. False may also mean that the
  /// window has shrunk.
  [[nodiscard]] bool all_returned() const noexcept { return available_ >= offered_; }

  [[nodiscard]] std::uint32_t available() const noexcept { return available_; }
  [[nodiscard]] std::uint32_t granted() const noexcept { return granted_; }
  [[nodiscard]] std::uint32_t held() const noexcept { return held_; }
  [[nodiscard]] std::uint32_t returnable() const noexcept { return returnable_; }

 private:
  std::uint32_t available_ = 0;
  std::uint32_t offered_ = 0;  // available_ at the start
  std::uint32_t granted_ = 0;
  std::uint32_t held_ = 0;
  std::uint32_t returnable_ = 0;
};

}  // namespace gaudi::proto
