// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>

#include <boost/intrusive/list.hpp>
#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "base/clock.hpp"
#include "core/fid.hpp"
#include "ipc/shm_channel.hpp"
#include "proto/connection/credits.hpp"
#include "proto/operation/buffer_pool.hpp"
#include "proto/operation/posted_op.hpp"
#include "proto/operation/shared_slots.hpp"
#include "proto/operation/transfer.hpp"
#include "proto/peer/peer.hpp"
#include "proto/session/rail.hpp"
#include "proto/session/session.hpp"
#include "proto/wire/wire.hpp"

namespace gaudi::proto {

struct buffer;

enum class connection_state : std::uint8_t {
  connecting,  // we asked
  accepting,   // we said yes, and wait for the core to say it is up
  failed,      // closed; goes as soon as nobody is looking at it
  // Of a session, whose core connection was lost:
  interrupted,   // it has none
  reconnecting,  // as `connecting`
  reaccepting,   // as `accepting`
  resuming,      // it is up, and brings what the other one lost
  connected,
  closing,  // as `connected`, but nothing new begins on it (connection_closer)
};

/// One core connection to a peer, in use both ways. Belongs to the connection_manager.
class connection {
 public:
  /// Throws std::bad_alloc: queues of the standard library allocate when they are made.
  connection(peer& p, connection_state s) : remote(&p), state(s) { ++p.connections; }
  ~connection() { --remote->connections; }
  connection(const connection&) = delete;
  connection& operator=(const connection&) = delete;

  [[nodiscard]] bool returns_due() const noexcept {
    return usable() && (data.return_is_due() || control.return_is_due());
  }
  [[nodiscard]] bool usable() const noexcept { return state >= connection_state::connected; }
  [[nodiscard]] bool is_being_made() const noexcept {
    return state == connection_state::connecting || state == connection_state::accepting;
  }
  /// Whether its session waits for a core connection.
  [[nodiscard]] bool is_interrupted() const noexcept {
    return state >= connection_state::interrupted && state <= connection_state::resuming;
  }
  /// Whether an operation may begin, and nothing before it has to be done first.
  [[nodiscard]] bool is_open() const noexcept {
    return state == connection_state::connected && data.can_send() && rma_order.pending == 0;
  }
  /// Whether what is for the peer leaves now or later.
  [[nodiscard]] bool goes_on() const noexcept { return state >= connection_state::interrupted; }
  /// What the peer says of itself in its hello; `own_eager_limit` in bytes.
  void take_terms(const wire::hello& remote_hello, std::uint32_t own_eager_limit) noexcept;
  /// Which NICs its core connection, or the attempt to make one, is over: `here` null and `there` 0
  /// are those of the domain and of the peer's keys. Others only where there are rails.
  void take_nics(reg::other_nic* here, std::uint8_t there) noexcept;
  /// Whether its session may go on over them.
  [[nodiscard]] bool may_move() const noexcept { return session.may_move && at_core.rails; }
  /// What carries its packets here; null: the domain's own.
  [[nodiscard]] reg::other_nic* nic() const noexcept {
    return session.is_away ? at_core.rails->rails.front().nic : nullptr;
  }
  /// Whether nothing of this end's is under way: its end would lose nothing that began here.
  [[nodiscard]] bool is_idle() const noexcept;

  /// Whether the other end is an endpoint of this process.
  [[nodiscard]] bool is_here() const noexcept { return shm && shm->is_within_process(); }
  /// Where the peer may put data that is for a device here; null: nowhere.
  [[nodiscard]] shared_slots* slots_to_us();
  /// Whether the grant names slots that there are, and no more of them than they are long.
  [[nodiscard]] bool are_slots_of_peer(const wire::cts_fields& g);
  /// Whether the peer says that the kernel keeps our memory from it, and there is another way.
  [[nodiscard]] bool is_kept_from_peer();

  /// Completes the header of a packet that leaves now, with all credits that are due.
  void fill_header(wire::header& h, wire::kind what, std::uint8_t flags) noexcept {
    h = {what, flags, data.take_returnable(), control.take_returnable(), terms.connection_id};
  }

  peer* remote;
  connection_state state;
  std::uint32_t id = 0;  // what the peer has to call it
  core::unique_fid<fid_ep> ep;
  /// What the peer has said in its hello (take_terms).
  struct {
    std::uint32_t connection_id = 0;  // what the peer calls it
    // Largest message in bytes that both ends' buffers take, header included.
    std::uint32_t eager_limit = 0;
    std::uint64_t instance = 0;
    bool takes_dmabufs = false;
  } terms;
  /// While it is being made: the connection_manager's.
  struct {
    base::clock::time_point made_at{};
    bool requested_here = false;  // ours was the request
    bool crossed = false;         // usable, a request of the peer's was refused as older than it
    bool awaits_shm = false;      // accepting: the peer's word on the channel is missing
    bool is_answered = false;     // accepting: the peer has the answer, as its packets tell
  } handshake;
  /// The peer's silence: what others see of it, and what the message_sender makes of it.
  struct {
    base::clock::time_point heard_at{};  // as outstanding_report has noticed
    std::uint32_t packets = 0;           // that have come
    std::uint32_t noticed = 0;           // of them by then
    // Messages that were refused for want of a credit, with no packet in between.
    std::uint32_t refused = 0;
    std::uint32_t refused_at = 0;  // packets by the last of them
  } silence;
  credit_window data;
  credit_window control;
  /// Of the buffers for data: the credit_pool's alone.
  struct {
    std::uint16_t target = 0;   // that the peer's window moves to
    std::uint16_t used = 0;     // messages since it was last raised, or was found enough
    std::uint64_t used_at = 0;  // messages that all peers had sent by the last one of this
  } share;
  /// What comes, and the credits that do not go back yet.
  struct {
    std::uint32_t posted = 0;    // to ep; over RDMA they are posted for all connections
    std::uint32_t endpoint = 0;  // which ep it is, of those that the session has had
    bool are_short = false;      // listed among those that want more
    // Credits of messages that are kept beyond the peer's part of the budget, or that the
    // application has not read the completions of: the peer waits for them.
    std::uint32_t withheld = 0;
    std::uint32_t withheld_events = 0;  // of wire::kind::event, which takes credits for control
  } receives;
  // To a peer on this host: packets go this way. The core connection carries what neither process
  // can copy, wakes a peer that sleeps, and tells of its end.
  std::shared_ptr<ipc::shm_channel> shm;  // and of copies that outlive the connection
  /// With a peer on this host.
  struct {
    // In the channel's memory; null before the first data that is staged there.
    std::unique_ptr<shared_slots> slots_in;
    std::unique_ptr<shared_slots> slots_out;
    bool doorbell_due = false;     // listed among those whose peer has to be woken
    bool import_disabled = false;  // of the peer's dma-bufs: our NIC does not read them
  } local;
  /// Its end that both agree to, the connection_closer's; and what others have to do with its end.
  struct {
    bool asked = false;   // and was not refused
    bool agreed = false;  // to the peer's request
    bool peer_agreed = false;
    bool owes_answer = false;
    [[nodiscard]] bool is_wanted() const noexcept { return asked || agreed; }
    /// What goodbye.cpp says before the endpoint closes.
    struct {
      bool is_said = false;  // by the last packet, which the core acknowledges
      /// Another packet follows.
      void take_back() noexcept { is_said = false; }
    } last_word;
    /// What the connection_lru has found.
    struct {
      std::uint64_t use = 0;
      std::uint32_t rma = 0;
      std::uint64_t round = 0;  // and when it was new
    } seen;
  } closing;
  /// Packets that came and wait for memory, in their order: the packet_dispatcher's. It has counted
  /// the first, which met none, and not those behind it.
  posted_op_list postponed;
  /// What has still to leave: the packet_channel's.
  struct {
    // Messages that wait for their payload to come from a device, and those behind them: order is
    // kept.
    posted_op_list ordered;
    // Control messages that wait for credits or room in the core.
    std::list<std::vector<std::byte>> control;
    posted_op_list control_buffers;
    bool control_waits = false;  // listed among those with messages to flush
    [[nodiscard]] bool has_control() const noexcept {
      return !control.empty() || !control_buffers.empty();
    }
  } outbox;
  struct {
    posted_op_list posted;            // and not yet completed
    std::unique_ptr<rail_set> rails;  // null: never had any
    std::uint32_t ended = 0;          // operations that have come back from it, but for rails
    std::uint32_t rma = 0;            // operations that it was given, modulo 2^32
    bool wrote = false;               // by one of these, which no credit tells of
    std::uint32_t direct = 0;         // of `posted` and session::undone, the direct_rma's
    /// Whether anything gets to the peer's NIC: the link_watch's.
    struct {
      std::uint32_t ended = 0;    // by the last look; over a stream: packets that have come
      std::uint32_t looks = 0;    // in a row that found as many
      std::uint32_t arrived = 0;  // the last packet that is known to be there, by its number
    } link;
  } at_core;
  proto::session session;
  // Operations that fail if it does.
  transfer_list transfers;
  /// RMA that later operations must not overtake.
  struct {
    std::uint32_t pending = 0;  // of `transfers`, those with transfer::partially_issued
    bool holds_early = false;   // of early_sends some have still to leave; counted in `pending`
  } rma_order;
};

}  // namespace gaudi::proto
