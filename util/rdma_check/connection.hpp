// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "events.hpp"
#include "plan.hpp"

namespace gaudi::rdma_check {

/// Local memory of an operation; `lkey` of its registration.
struct local_range {
  std::uint64_t address;
  std::uint32_t size;
  std::uint32_t lkey;
};

/// Memory of the peer as RDMA addresses it.
struct remote_place {
  std::uint64_t address = 0;
  std::uint32_t rkey = 0;
};

/// What a connection is for; the client tells it when it connects. Messages between the two
/// programs have a connection of their own, so that it outlives an operation that fails.
enum class purpose : std::uint16_t { control = 1, data = 2 };

/// A reliable connection (RC queue pair) with a protection domain and a completion queue of its
/// own. What is made in the protection domain must be gone before it. Movable.
class connection {
 public:
  /// The client's side: finds the way to the server, through the local address `bind` if not empty.
  /// Nothing is sent yet. A failure (no_connection) with the reason.
  static connection towards(const std::string& server, std::uint16_t port, const std::string& bind);
  /// The server's side, of a request that a listener took.
  static connection requested(id_ptr id);

  /// For the client. False: nobody listens there, or nobody who takes this; the connection is of no
  /// more use then. Receives should be posted by now. A failure (no_connection).
  [[nodiscard]] bool connect(purpose what, std::chrono::milliseconds limit);
  /// The same for the server.
  void accept(std::chrono::milliseconds limit);
  /// Tells the peer; nothing works afterwards.
  void disconnect();
  /// Whether the peer has disconnected or is gone. Asks the kernel: not for each poll.
  bool closed();

  ibv_pd* pd() const { return pd_.get(); }
  std::string nic() const { return ibv_get_device_name(id_->verbs->device); }

  /// Each posts one operation with a completion; never inline, which would have the CPU read the
  /// memory. A failure (operation_failed).
  void post(operation op, const local_range& local, const remote_place& remote,
            std::uint32_t immediate);
  /// `local` of size 0: for a write with immediate data.
  void post_receive(const local_range& local, std::uint64_t tag);

  /// Completions, whatever their status: how many of `into` are filled.
  std::size_t poll(std::span<ibv_wc> into);

 private:
  connection(event_channel channel, id_ptr id);
  void make_queues();
  event_ptr expect(rdma_cm_event_type wanted, std::chrono::milliseconds limit) const;

  template <class Object, int (*Release)(Object*)>
  struct release {
    void operator()(Object* object) const { Release(object); }
  };
  struct release_qp {
    void operator()(rdma_cm_id* owner) const { rdma_destroy_qp(owner); }
  };

  // In the order of making; released in reverse.
  event_channel channel_;
  id_ptr id_;
  std::unique_ptr<ibv_pd, release<ibv_pd, ibv_dealloc_pd>> pd_;
  std::unique_ptr<ibv_cq, release<ibv_cq, ibv_destroy_cq>> cq_;
  std::unique_ptr<rdma_cm_id, release_qp> qp_;  // the id that has one
  bool closed_ = false;
};

/// The server's ear.
class listener {
 public:
  /// `bind` empty: all addresses of this machine. A failure (no_connection).
  listener(const std::string& bind, std::uint16_t port);

  /// The next request for that purpose, not answered yet; others are refused. nullopt as limit: for
  /// ever. A failure (no_connection) when the limit is over.
  connection take(purpose wanted, std::optional<std::chrono::milliseconds> limit) const;

 private:
  event_channel channel_;
  id_ptr id_;
};

}  // namespace gaudi::rdma_check
