// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/clock.hpp"
#include "base/random_name_table.hpp"
#include "base/random_source.hpp"
#include "base/result.hpp"
#include "base/scoped_fd.hpp"
#include "core/inner_domain.hpp"
#include "ipc/fd_listener.hpp"
#include "proto/connection.hpp"
#include "proto/credit_pool.hpp"
#include "proto/hello.hpp"

namespace gaudi::proto {

/// Who wants to know of connections that came up and went down, and of time. Called from
/// connection_manager::poll and ::fail.
class connection_observer {
 public:
  /// The number for a peer that becomes known: its messages match receives by it.
  virtual std::uint32_t number_of(const net_address& name) = 0;
  /// The peer is forgotten, and no message of it is kept.
  virtual void forget_number_of(const net_address& name) noexcept = 0;
  /// The core endpoint is there, and takes receives before it is up.
  virtual void connection_opened(connection& c) = 0;
  virtual void connection_up(connection& c) = 0;
  /// A peer has closed its end: now is the time to take what came from it before that, and what it
  /// took from us.
  virtual void connections_ending() = 0;
  /// `error` is a positive FI_E* code. The core endpoint is closed: no memory is in use any more.
  virtual void connection_down(connection& c, int error) = 0;
  /// The clock was asked for the time, which is not done at every poll.
  virtual void time_passed(base::clock::time_point now) noexcept { static_cast<void>(now); }

 protected:
  ~connection_observer() = default;
};

/// Makes connections on demand and takes those that peers ask for. When two endpoints ask each
/// other at once, the request of the one with the greater name goes on (and both keep one
/// connection); an endpoint that sends to itself has two, one for each end.
///
/// Not thread safe: the caller holds the domain lock.
class connection_manager {
 public:
  /// What peers are told.
  struct config {
    std::uint32_t eager_limit;
    std::size_t rx_buffers;     // shared by all peers
    bool ipc;                   // share memory with peers on this host
    bool takes_dmabufs;         // of these
    std::size_t slots = 0;      // that data for devices passes through there, each way
    std::size_t slot_size = 0;  // bytes
    // How long a handshake may take; 0: as long as it likes.
    std::chrono::seconds connect_timeout{0};
    base::clock clock{};
    base::random_source random{};
  };

  connection_manager(core::inner_domain& core, config t, connection_observer& observer);
  ~connection_manager();

  /// Opens the listener, whose address is name() from then on. Each connection's core endpoint uses
  /// the two queues, which outlive the manager's connections; without shared receives (null) it has
  /// its own. -FI_EADDRINUSE: the port asked for is taken.
  base::result<void> listen(fid_cq* completions, fid_ep* shared_receives, bool waitable = false,
                            bool any_port = false);
  [[nodiscard]] const net_address& name() const noexcept { return name_; }
  /// What peers tell this endpoint from others by.
  [[nodiscard]] std::uint64_t instance() const noexcept { return instance_; }

  /// The peer with this name, made known if it is new. Where this endpoint's own address is a
  /// link-local one, so is the way to peers that have such: by the same interface, whatever number
  /// that, or theirs, has in the name.
  peer& peer_named(const net_address& name);
  [[nodiscard]] std::vector<std::unique_ptr<peer>>& peers() noexcept { return peers_; }

  /// A usable connection to the peer; starts to make one if there is none. -FI_EAGAIN: not yet.
  /// -FI_EOPBADSTATE: not before listen(). -FI_ETIMEDOUT: the peer has not answered within
  /// terms::connect_timeout. Another error: the last attempt failed with it. After an error the
  /// next call makes another attempt.
  base::result<connection*> get_connection(peer& p);

  [[nodiscard]] connection* find(std::uint32_t id) const noexcept { return by_id_.find(id); }

  /// Handles what the core reports of connections. Cheap when called often: looks at the core at
  /// each call while a connection is being made, else every 200 us, and less and less often, down
  /// to every 5 ms, while there is nothing.
  void poll() {
    if (being_made_ != 0 || ++idle_polls_ == polls_per_clock) poll_if_due();
  }
  void poll_now();

  /// The core's event queue, for fi_trywait. Null before listen().
  [[nodiscard]] fid* events() const noexcept { return events_ ? &events_->fid : nullptr; }

  /// A message came on a connection whose own event was not read yet. False: it is not up after
  /// all.
  bool confirm_connected(connection& c);

  /// Sends the dma-buf of one of our allocations to a peer that we share memory with; `fd` stays
  /// the caller's. Errors of ipc::send_fd.
  int send_dmabuf(const connection& c, std::uint64_t allocation, int fd);
  /// What the peer says it has sent. None: it did not come.
  base::scoped_fd import_from_peer(const connection& c, std::uint64_t allocation);

  /// Closes a connection that is of no use any more; its observer is told.
  void fail(connection& c, int error);
  /// The same at the next poll, for who is in the middle of something. The first error counts.
  void fail_soon(connection& c, int error) noexcept;
  /// Fails it for what its peer sent, and says so.
  void malformed(connection& c, const char* what);
  /// What is done for one peer ends with its connection where there is no memory for it, and goes
  /// on for the others. Null: there is no connection to end.
  template <class Call>
  void on_behalf_of(connection* c, Call&& call) noexcept try {
    call();
  } catch (const std::bad_alloc&) {
    if (c) fail_soon(*c, FI_ENOMEM);
  }

  /// What the peers may send without an answer.
  [[nodiscard]] credit_pool& credits() noexcept { return credits_; }
  [[nodiscard]] std::size_t count() const noexcept { return by_id_.size(); }

  template <class Visit>
  void for_each(Visit&& visit) {
    by_id_.for_each(visit);
  }

 private:
  /// A peer's, that wants a connection.
  struct peer_request {
    core::unique_info info;
    hello remote_hello;
  };

  void forget_unused_peers();
  base::result<connection*> add(peer& p, connection_state s);
  base::result<void> open_endpoint(connection& c, fi_info& info);
  base::result<void> connect(peer& p);
  base::result<void> request_connection(connection& c);
  int answer_request(connection& c, fi_info& info, const hello& remote_hello);
  void close_endpoint(connection& c) noexcept;
  void drop(connection& c);

  void poll_if_due();
  void read_events();
  void refuse_unread() noexcept;
  void end_shut();
  void take_request(peer_request&& request);
  void handle_request(peer_request&& request);
  void meet_request(connection& c, peer_request&& request);
  void accept(peer& p, fi_info& info, const hello& remote_hello);
  void reject(fi_info& info, wire::reject_reason why);
  void connected_or_end(connection& c, const hello* remote_hello) noexcept;
  void handle_connected(connection& c, const hello* remote_hello);
  void now_usable(connection& c);
  void handle_error();
  void take_terms(connection& c, const hello& remote_hello);
  [[nodiscard]] bool is_ending(const connection& c) const noexcept;
  [[nodiscard]] connection* of(const fid* f) const noexcept;
  [[nodiscard]] hello own_hello(const connection* c) const noexcept;

  // handshake_limits.cpp
  void limit_handshakes();
  void end_overdue(base::clock::time_point now);
  void end_silent(base::clock::time_point now);

  // connection_shm.cpp
  void open_fd_listener();
  void offer_shm(connection& c, const hello& remote_hello);
  bool attach_shm(connection& c, const hello& remote_hello);
  bool shm_is_settled(connection& c);
  void settle_shm();
  void stop_sharing();
  [[nodiscard]] ipc::shm_channel::config shm_config(const connection& c) const noexcept;

  core::inner_domain& core_;
  fid_cq* completions_ = nullptr;
  fid_ep* shared_receives_ = nullptr;
  const config config_;
  connection_observer& observer_;
  credit_pool credits_;
  const std::uint32_t scope_;     // of our own address, if it is a link-local one
  const std::uint64_t instance_;  // tells this endpoint from an earlier one at the same address

  core::unique_fid<fid_eq> events_;
  core::unique_fid<fid_pep> listener_;
  net_address name_;
  bool waitable_ = false;
  std::optional<ipc::fd_listener> fd_listener_;  // none: no memory is shared
  std::uint32_t host_ = 0;

  std::vector<std::unique_ptr<peer>> peers_;
  std::unordered_map<net_address, peer*> peers_by_name_;
  std::size_t peers_to_look_at_ = min_peers_to_look_at;  // when there are as many, at the unused
  base::random_name_table<connection> by_id_;
  std::unordered_map<const fid*, connection*> by_fid_;
  std::vector<std::unique_ptr<connection>> connections_;
  std::vector<std::unique_ptr<connection>>
      graveyard_;  // until the next poll: callers may still look at them
  /// Closed by the peer, or of no use any more; they end at the next poll.
  struct ending {
    std::uint32_t id;
    int error;
  };
  std::vector<ending> closing_;
  /// Answered after these ends.
  std::vector<peer_request> deferred_requests_;
  /// Up in the core, and without the peer's word on the shm channel.
  std::vector<std::uint32_t> awaiting_shm_;
  static constexpr std::size_t min_peers_to_look_at = 1024;
  unsigned being_made_ = 0;
  // Reading the clock costs as much as a poll that finds nothing: only every so many polls.
  static constexpr unsigned polls_per_clock = 8;
  static constexpr std::chrono::microseconds min_interval{200};
  unsigned idle_polls_ = 0;
  base::clock::duration interval_ = min_interval;
  base::clock::time_point last_poll_{};
  base::clock::time_point next_overdue_look_{};
  base::clock::time_point next_silence_look_{};
  bool limits_silence_ = false;  // the core listens at a socket
  bool told_of_silent_ = false;
};

}  // namespace gaudi::proto
