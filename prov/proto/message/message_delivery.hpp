// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "base/counter.hpp"
#include "base/make_room.hpp"
#include "base/result.hpp"
#include "proto/channel/packet_channel.hpp"
#include "proto/channel/receive_buffers.hpp"
#include "proto/connection/connection_manager.hpp"
#include "proto/connection/endpoint_settings.hpp"
#include "proto/connection/peer_addresses.hpp"
#include "proto/match/receive.hpp"
#include "proto/match/receive_context.hpp"
#include "proto/match/unexpected_budget.hpp"
#include "proto/operation/completion_queue.hpp"
#include "proto/operation/latency_sampler.hpp"
#include "proto/transfer/data_mover.hpp"
#include "proto/transfer/rendezvous_sink.hpp"
#include "proto/transfer/transfer_table.hpp"

namespace gaudi::proto {

/// There was no memory for what a packet asks for, and nothing of it has been done.
struct untouched : std::bad_alloc {};

/// Messages that arrive: which receive they belong to, how they get to its memory, and those that
/// wait for one. A peer whose messages wait beyond its part of the budget does not get its credits
/// back until they are taken, and so comes to a halt.
///
/// Not thread safe: the caller holds the domain lock.
class message_delivery final : public message_owner {
 public:
  /// What it works with; all of it outlives this.
  struct parts {
    connection_manager& connections;
    receive_buffers& buffers;
    packet_channel& channel;
    transfer_table& table;
    data_mover& mover;
    rendezvous_sink& sink;
    peer_addresses& addresses;
    latency_sampler& latencies;
  };

  message_delivery(const endpoint_settings& config, parts collaborators);
  virtual ~message_delivery() = default;
  message_delivery(const message_delivery&) = delete;
  message_delivery& operator=(const message_delivery&) = delete;

  /// Where requests of peers report (FI_REMOTE_CQ_DATA of an RMA write), and receives that are
  /// shared. Null: nowhere. `selective`: only those posted with FI_COMPLETION.
  void use_queue(completion_queue* queue, bool selective) noexcept {
    queue_ = queue;
    selective_ = selective;
  }
  [[nodiscard]] completion_queue* queue() const noexcept { return queue_; }
  void count_shared(base::counter* counter) noexcept { counter_ = counter; }

  /// Where receives are posted, and messages wait.
  [[nodiscard]] receive_context& receives() noexcept { return *receives_; }
  [[nodiscard]] const receive_context& receives() const noexcept { return *receives_; }
  /// Takes messages to receives that other endpoints have a part in. The context outlives this.
  void share(receive_context& with);
  /// Takes its messages out of the context.
  void leave() noexcept { receives_->remove(*this); }

  /// Room in the list for so many connections. Throws std::bad_alloc.
  void reserve(std::size_t connections) { base::reserve_ahead(withholding_, connections); }
  /// A message that is all here can still be received; one whose data is at the peer cannot.
  void connection_down(connection& c);

  /// An eager message, or the rts of one. Whether the buffer is free again. Throws untouched.
  bool handle_message(connection& c, buffer& b, std::size_t length);
  bool handle_rts(connection& c, buffer& b, std::size_t length);
  /// A message that its peer may still write to, as it lies in shared memory; `fields` does not. It
  /// goes to its place from there. False: nothing was done, as its receive does not wait or wants
  /// more than that.
  [[nodiscard]] bool deliver_in_place(const connection& c, const wire::eager_fields& fields,
                                      std::span<const std::byte> payload) noexcept;
  /// Brings a message to its memory. Whether `holder`, the buffer with the payload, is free again.
  /// Null connection: it is gone.
  bool deliver(connection* c, const message_info& m, const std::byte* payload, buffer* holder,
               const completion_spec& completion, const local_memory& memory);

  /// Whether peers have reported more remote writes than the application has read: they need no
  /// receive of its for that.
  [[nodiscard]] bool reports_are_behind() const noexcept;
  /// The credit of a message waits. `kind`: which of the connection's counters it goes to.
  void withhold_credit(connection& c, std::uint32_t& kind) noexcept;
  /// There is room again, for some peer or for all: the credits of messages that stay are returned,
  /// too. The receiver may be waiting for one that its peer has not sent yet.
  void return_withheld();
  [[nodiscard]] bool any_withheld() const noexcept { return !withholding_.empty(); }

 private:
  friend struct endpoint_audit;  // tests/sim

  // message_owner
  [[nodiscard]] base::result<std::uint32_t> source_of(const recv_params& params) const override;
  [[nodiscard]] completion_spec reported_here(completion_spec completion) const noexcept override;
  void deliver_unexpected(unexpected& m, const completion_spec& completion,
                          const local_memory& memory) override;
  void discard_message(unexpected& m) override;

  [[gnu::always_inline]] bool deliver_plainly(const connection& c, const wire::eager_fields& fields,
                                              std::span<const std::byte> payload,
                                              match_queue& queue, posted_receive& receive) noexcept;
  bool handle_other_message(connection& c, buffer& b, std::size_t length, posted_receive* receive);
  [[gnu::always_inline]] bool accept(connection& c, buffer& b, const message_info& m,
                                     const std::byte* payload, posted_receive* receive);
  [[gnu::always_inline]] bool deliver_now(connection* c, const message_info& m,
                                          const std::byte* payload, buffer* holder,
                                          const completion_spec& completion,
                                          const local_memory& memory);
  // With copies of what is known: the short way of a message that is expected keeps it in
  // registers.
  bool queue_unexpected(connection& c, buffer& b, message_info m, const std::byte* payload);
  bool deliver_into_many(connection& c, message_info m, const std::byte* payload, buffer& holder,
                         posted_receive& r);
  transfer* create_transfer(connection* c, bool is_rendezvous, const completion_spec& completion,
                            const local_memory& memory);
  bool deliver_by_transfer(connection* c, message_info m, const std::byte* payload, buffer* holder,
                           const completion_spec& completion, const local_memory& memory,
                           cq_entry entry);
  void forget(unexpected& m);

  const endpoint_settings& config_;
  const parts parts_;
  std::unique_ptr<receive_context> own_receives_;  // null where they are shared
  receive_context* receives_;
  completion_queue* queue_ = nullptr;
  bool selective_ = false;
  base::counter* counter_ = nullptr;
  unexpected_budget unexpected_;
  std::vector<std::uint32_t> withholding_;  // connections by id, with connection::withheld
  std::size_t held_buffers_ = 0;
};

}  // namespace gaudi::proto
