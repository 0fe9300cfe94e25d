// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_errno.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

#include "proto/channel/core_transport.hpp"
#include "proto/channel/packet_channel.hpp"
#include "proto/connection/connection_manager.hpp"
#include "proto/recovery/rma_operation.hpp"
#include "proto/transfer/data_mover.hpp"
#include "proto/transfer/direct_rma.hpp"
#include "proto/transfer/transfer_completion.hpp"

namespace gaudi::proto {

/// Sees to it that the loss of a core connection loses nothing: keeps account of what each end of a
/// session has received, holds back the failures of a connection that goes on, and has the core do
/// again on the next one what it had not done on the last.
///
/// A message that the core has sent is told as sent, and kept until the peer has it. Over RDMA the
/// end of an operation says that it has. RMA that the core gave back is posted again, but not a
/// write that is followed by a packet which the peer has received: it has been done, and the peer
/// may have written there since. It keeps its place before the packets behind it, but not where the
/// session may go on over another NIC (session::may_move), whose keys have to be asked for first:
/// there no packet relies on it.
///
/// Not thread safe: the caller holds the domain lock.
class session_recovery {
 public:
  /// What it works with; all of it outlives this.
  struct parts {
    connection_manager& connections;
    core_transport& transport;
    packet_channel& channel;
    data_mover& mover;
    direct_rma& direct;
    transfer_completion& completion;
    path_counters& paths;
  };

  explicit session_recovery(parts collaborators) noexcept : parts_(collaborators) {}

  /// Room in the lists for so many connections. Throws std::bad_alloc.
  void reserve(std::size_t connections);

  /// A packet came on a connection of a session. False: it is dealt with, as the peer has sent it
  /// before, or says how far it is, or has failed.
  [[nodiscard]] bool arrived(connection& c, const wire::header& head);
  /// The core gives an operation back: a message, or another one with an `error`, which may be
  /// changed. It is listed at the core no more. True: it is kept for its session, and nobody is
  /// told.
  [[nodiscard]] bool takes_back(posted_op& w, int& error);
  /// A message has left, or failed.
  void message_left(buffer& b, int error);

  /// The connection has another core endpoint.
  void reconnected(connection& c);
  /// Whether RMA waits to be posted again on connections that are up.
  [[nodiscard]] bool any_to_redo() const noexcept { return !redoing_.empty(); }
  /// Posts it, as far as there is room. `begin_again`: rma_initiator's.
  template <class BeginAgain>
  void redo(BeginAgain&& begin_again) {
    std::erase_if(redoing_, [&](std::uint32_t id) {
      connection* const c = parts_.connections.find(id);
      if (!c || c->is_interrupted()) return true;  // it is listed again when it is up
      bool over = true;
      parts_.connections.on_behalf_of(c, [&] { over = c->usable() && redo_of(*c, begin_again); });
      return over;
    });
  }
  /// Ends what is kept with the error: the session has failed, and core_transport knows.
  void connection_down(connection& c, int error);

  /// Goes on with what had to wait for room; peers that were sent nothing lately are told what was
  /// received, so that they need not keep it. The connection_manager calls its observer so at every
  /// poll while a session is interrupted.
  void time_passed(base::clock::time_point now) noexcept {
    if (!resuming_.empty()) progress();
    if (!owing_.empty() && now >= next_words_) send_words(now);
  }

 private:
  void heard(connection& c, std::uint32_t received);
  [[nodiscard]] bool keeps(connection& c, posted_op& w, int& error);
  void refuse_what_ends_connections(connection& c);
  void progress();
  void send_words(base::clock::time_point now);
  void acknowledge(connection& c, std::uint32_t number, const buffer* but = nullptr);
  void list_undone(connection& c, posted_op& w) noexcept;
  [[nodiscard]] bool is_through(connection& c);
  [[nodiscard]] int say(connection& c);
  [[nodiscard]] int replay(connection& c);
  [[nodiscard]] int post_undone_before(connection& c, std::uint32_t number);
  void list_to_redo(const connection& c) noexcept;
  void posted_again(posted_op& w, int ret);

  // False: there was no room.
  template <class BeginAgain>
  [[nodiscard]] bool redo_of(connection& c, BeginAgain& begin_again) {
    posted_op_list& left = c.session.to_redo;
    while (!left.empty()) {
      posted_op& w = left.front();
      left.pop_front();
      const bool by_message = w.what == posted_op::kind::direct && c.session.is_away;
      const std::uint8_t tries = w.tries;
      int ret = -FI_ECONNRESET;
      try {
        if (!is_over(w))
          ret = by_message ? begin_again(c, static_cast<direct_op&>(w))
                           : parts_.mover.post_elsewhere(w);
      } catch (const std::bad_alloc&) {
        ret = -FI_ENOMEM;
      }
      if (ret == -FI_EAGAIN) {
        left.push_front(w);
        return false;
      }
      if (ret == 0) w.tries = tries;
      posted_again(w, ret);
      if (by_message && ret == 0) parts_.direct.leave(static_cast<direct_op&>(w));
    }
    return true;
  }

  const parts parts_;
  std::vector<std::uint32_t> resuming_;  // connections by id
  std::vector<std::uint32_t> redoing_;
  struct owed_word {
    std::uint32_t connection;
    std::uint32_t received;  // when it was last thought of, or before what it is about
  };
  std::vector<owed_word> owing_;  // or not any more
  base::clock::time_point next_words_{};
};

}  // namespace gaudi::proto
