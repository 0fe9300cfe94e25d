// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_errno.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "proto/connection/connection.hpp"
#include "proto/operation/memory.hpp"
#include "proto/operation/operations.hpp"

namespace gaudi::proto {

/// Messages to peers that there is no connection with yet, or no credit for, each peer's in their
/// order: an application need not repeat the call until there is one. They leave as soon as they
/// may, and end with the error of a connection that cannot be made, or is lost.
///
/// Not thread safe: the caller holds the domain lock. peer::early counts those of a peer.
class early_sends {
 public:
  /// Of one peer. Who wants to send more repeats the call.
  static constexpr std::uint32_t most = 64;

  struct message {
    local_memory memory;
    send_params what;
    std::unique_ptr<std::byte[]> copied;  // of outgoing::inject, and `memory` is this
  };

  [[nodiscard]] bool empty() const noexcept { return queues_.empty(); }

  /// Keeps it behind the others to this peer. -FI_EAGAIN: there are `most`, or an injected one is
  /// not in host memory. -FI_ENOMEM.
  int keep(peer& to, const local_memory& memory, const send_params& what) noexcept;

  /// Calls post(message), which returns 0, -FI_EAGAIN, or an error that ends the message, for the
  /// oldest ones. False: the oldest one left has to wait.
  template <class Post>
  bool post(peer& to, Post&& post);

  /// Ends all to this peer with the positive FI_E*. Whether there were any.
  bool fail(peer& to, int error) noexcept;

  void fail_all(int error) noexcept;

  /// Whether some have completed as the application sees it: it has their buffers back.
  [[nodiscard]] bool any_injected() const noexcept;
  /// Calls visit(peer) for each that there are some for; it may post them, or end them.
  template <class Visit>
  void for_each_peer(Visit&& visit);
  template <class Is>
  [[nodiscard]] bool any_of(Is&& is) const {
    for (const auto& q : queues_)
      if (is(*q->to)) return true;
    return false;
  }

 private:
  struct queue {
    peer* to;
    std::deque<message> waiting;
  };
  [[nodiscard]] queue* of(const peer& to) const noexcept;
  [[nodiscard]] queue& made_for(peer& to);
  void end_oldest(queue& q, int error) noexcept;
  void drop_oldest(queue& q) noexcept;
  void forget(const peer& to) noexcept;

  std::vector<std::unique_ptr<queue>> queues_;
};

template <class Post>
bool early_sends::post(peer& to, Post&& post) {
  while (to.early != 0) {
    queue& q = *of(to);
    const int ret = post(q.waiting.front());
    if (ret == -FI_EAGAIN) return false;
    // The connection may have ended in the middle, and all of them with it.
    if (to.early != 0) ret ? end_oldest(q, -ret) : drop_oldest(q);
  }
  forget(to);
  return true;
}

// Without a list of its own: peers without credits are visited by every progress.
template <class Visit>
void early_sends::for_each_peer(Visit&& visit) {
  for (std::size_t i = 0; i < queues_.size();) {
    peer* const visited = queues_[i]->to;
    visit(*visited);
    if (i < queues_.size() && queues_[i]->to == visited) ++i;
  }
}

}  // namespace gaudi::proto
