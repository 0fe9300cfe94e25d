// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/make_room.hpp"
#include "base/scoped_fd.hpp"
#include "ipc/fd_listener.hpp"
#include "ipc/shm_channel.hpp"
#include "proto/connection/connection_table.hpp"
#include "proto/connection/pending_ends.hpp"
#include "proto/wire/hello.hpp"

namespace gaudi::proto {

/// Shared memory with peers on this host, and dma-bufs for them. Who accepts a connection makes the
/// segment and sends it before the answer to the request; who asked for the connection takes it
/// before anything else, and says so. So a connection has its one way for packets before the first
/// of them. Not thread safe: the caller holds the domain lock.
class shm_negotiator {
 public:
  struct config {
    std::uint64_t instance;    // of this endpoint
    ipc::host_kernel* kernel;  // null: it is not opened
    std::size_t slots;         // that data for devices passes through there, each way
    std::size_t slot_size;     // bytes
  };

  explicit shm_negotiator(const config& c) noexcept : config_(c) {}

  /// Memory may be shared from then on, where the listener for descriptors opens; else it warns.
  /// `sleeps`: whether this end may wait for the peer's packets in a system call.
  void open(bool sleeps);
  /// What peers compare their own with; 0: no memory is shared.
  [[nodiscard]] std::uint32_t host() const noexcept { return host_; }
  void accept_pending() {
    if (listener_) listener_->accept_pending();
  }

  /// By who accepts: gives the connection a channel and sends the peer its segment, where that is
  /// on this host. Where it comes to nothing the core carries the packets.
  /// From then on settle() looks for the peer's word.
  void offer(connection& c, const hello& remote_hello);
  /// By who has asked: takes the channel that the peer has made, or shares no memory with anybody
  /// any more and says so, and the core carries this connection's packets. Nobody has put one into
  /// the segment yet, and the peer puts none there before this answer.
  void take_or_refuse(connection& c, const hello& remote_hello);
  /// By who accepts, when the peer has the answer: whether it has said what it does with the
  /// channel, if there is one. Else settle() tells. After a no the core carries the packets.
  bool is_settled_or_awaited(connection& c);

  /// Room for as many connections as there are. Throws std::bad_alloc.
  void reserve(std::size_t connections) { base::reserve_ahead(awaited_, connections); }
  [[nodiscard]] bool awaits_any() const noexcept { return !awaited_.empty(); }
  /// Calls usable(connection&) for each whose peer's word is there: that it shares the channel, or,
  /// of one whose answer it has, that it does not, which it says to all alike. Of one that is about
  /// to end, or is interrupted, too, the latter where it is yes: what the peer has put into the
  /// channel is as good as sent.
  template <class Usable>
  void settle(const connection_table& table, const pending_ends& ending, Usable&& usable) {
    std::erase_if(awaited_, [&](std::uint32_t id) {
      connection* const c = table.find(id);
      if (!c || !c->shm || c->usable() || c->state == connection_state::failed) return true;
      const bool may_be_up = c->is_interrupted() || c->handshake.awaits_shm || ending.contains(id);
      if (!may_be_up || !is_settled(*c)) return false;
      if (c->shm || (c->handshake.is_answered && !c->is_interrupted())) usable(*c);
      return true;
    });
  }

  /// Sends the dma-buf of one of our allocations to a peer that we share memory with; `fd` stays
  /// the caller's. 0, or an error of ipc::send_fd.
  [[nodiscard]] int send_dmabuf(const connection& c, std::uint64_t allocation, int fd) const;
  /// What the peer says it has sent. None: it did not come.
  base::scoped_fd import_from_peer(const connection& c, std::uint64_t allocation);

 private:
  [[nodiscard]] ipc::shm_channel::config channel_config(const connection& c) const noexcept;
  bool take(connection& c, const hello& remote_hello);
  static bool is_settled(connection& c);

  const config config_;
  std::unique_ptr<ipc::fd_source> listener_;  // none: no memory is shared
  std::uint32_t host_ = 0;
  bool sleeps_ = false;
  std::vector<std::uint32_t> awaited_;
};

}  // namespace gaudi::proto
