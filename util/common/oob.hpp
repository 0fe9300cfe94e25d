// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

namespace gaudi::common {

/// Owns a file descriptor.
class descriptor {
 public:
  explicit descriptor(int fd = -1) : fd_(fd) {}
  descriptor(descriptor&& other) noexcept : fd_(other.release()) {}
  descriptor& operator=(descriptor&& other) noexcept;
  ~descriptor();
  int get() const { return fd_; }

 private:
  int release();
  int fd_;
};

/// The connection beside the fabric (out of band) on which the two sides exchange addresses, keys
/// and results and keep in step. One thread. Every wait ends with a failure after the time-out or
/// when the peer closes.
class oob_channel {
 public:
  oob_channel(descriptor socket, std::chrono::seconds timeout);

  /// Waits without limit for one client on the port, as a server does.
  static oob_channel accept(std::uint16_t port, std::chrono::seconds timeout);

  /// Tries for the whole time-out, because the server may not have started yet.
  static oob_channel connect(const std::string& host, std::uint16_t port,
                             std::chrono::seconds timeout);

  /// Called over and over while waiting: providers with manual progress only answer the
  /// peer's one-sided operations when they are polled. `pause` is slept between the calls.
  void set_idle_work(std::function<void()> work, std::chrono::milliseconds pause = {}) {
    idle_work_ = std::move(work);
    pause_ = pause;
  }

  void set_timeout(std::chrono::seconds timeout) { timeout_ = timeout; }

  void send(const nlohmann::json& value);
  nlohmann::json receive();
  nlohmann::json exchange(const nlohmann::json& value);

  /// Returns when both sides have called it.
  void barrier();

  /// Whether the peer has closed. Where it said why, this ends in a peer_failure with that.
  bool peer_gone();

  /// Says why this side ends, as the last thing, and waits a moment for the peer to have read it.
  /// Never fails.
  void tell_failure(const std::string& why) noexcept;

  /// The address of this host on the connection, empty for loopback or a local socket.
  std::string local_address() const;

 private:
  void send_bytes(std::span<const std::byte> bytes);
  void receive_bytes(std::span<std::byte> bytes);
  void wait_for(short events);
  [[noreturn]] void receive_failure();
  void look_for_reason();

  descriptor socket_;
  std::chrono::seconds timeout_;
  std::function<void()> idle_work_;
  std::chrono::milliseconds pause_{};
};

/// A TCP port on which several clients are taken, one after the other.
class oob_listener {
 public:
  explicit oob_listener(std::uint16_t port);

  /// Waits without limit for the next client.
  oob_channel accept(std::chrono::seconds timeout) const;

  /// Waits for so long at most; whether accept would return at once.
  bool has_client(std::chrono::milliseconds limit) const;

 private:
  descriptor socket_;
};

}  // namespace gaudi::common
