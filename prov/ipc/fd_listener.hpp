// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <optional>

#include "base/result.hpp"
#include "base/scoped_fd.hpp"

namespace gaudi::ipc {

/// Names one connection, and what of it, so that a descriptor comes to where it is meant for.
struct fd_handshake_id {
  std::uint64_t to_instance;      ///< of the endpoint that takes the segment
  std::uint64_t from_instance;    ///< of the endpoint that made it
  std::uint32_t to_connection;    ///< as the attacher calls it
  std::uint32_t from_connection;  ///< as the creator calls it
  std::uint64_t payload_id = 0;   ///< 0: the segment; else the allocation whose dma-buf this is

  friend bool operator==(const fd_handshake_id&, const fd_handshake_id&) = default;
};

/// An open conversation with the process at the other end: the kernel has told who that is.
struct control_socket {
  base::scoped_fd socket;
  pid_t pid = 0;  ///< as this process's PID namespace has it; 0: not in it
};

/// A descriptor, and who has sent it.
struct received_fd {
  control_socket with;
  base::scoped_fd memory;
};

/// Where an endpoint takes segments, and dma-bufs, from endpoints on its host. Not thread safe.
/// Nothing here blocks.
class fd_source {
 public:
  virtual ~fd_source() = default;

  /// What came for `expected`, which its creator says it has sent; nothing: it cannot be had.
  virtual std::optional<received_fd> take(const fd_handshake_id& expected) = 0;
  /// Accepts the connections that wait, of which the kernel queues only so many, and closes those
  /// of other users at once. Without any it is one system call. To be called from time to time: who
  /// fills the queue keeps this host's peers from sharing memory until then.
  virtual void accept_pending() = 0;
};

/// The same by an abstract socket (unix(7)), which is in no file system and only in its own network
/// namespace. Only processes of this user are listened to.
class fd_listener final : public fd_source {
 public:
  /// `instance` is the endpoint's random number. Errors are socket's and bind's, negative.
  static base::result<fd_listener> open(std::uint64_t instance);

  std::optional<received_fd> take(const fd_handshake_id& expected) override;
  void accept_pending() override;

 private:
  explicit fd_listener(base::scoped_fd listener) : listener_(std::move(listener)) {}
  /// Who came in; nothing is known of what they bring before they have said it.
  struct pending_client {
    received_fd received;
    std::optional<fd_handshake_id> id;
  };
  void listen();

  base::scoped_fd listener_;
  bool warned_ = false;  // of other users
  std::deque<pending_client> waiting_;
};

/// Sends a descriptor to the endpoint that `says` names. -FI_ECONNREFUSED: no such
/// endpoint in this network namespace. -FI_EACCES: another user's.
base::result<control_socket> send_fd(const fd_handshake_id& says, int memory);

/// One byte each way ends a conversation: whether the attacher has the segment. 0 or negative
/// errno.
int answer(const control_socket& with, bool yes) noexcept;
/// The attacher's answer; nothing: it has not come yet. No, too, where the attacher is gone.
std::optional<bool> answer_of(const control_socket& with) noexcept;

}  // namespace gaudi::ipc
