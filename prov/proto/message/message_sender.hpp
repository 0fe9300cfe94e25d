// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include "proto/channel/core_transport.hpp"
#include "proto/channel/packet_channel.hpp"
#include "proto/channel/shm_transport.hpp"
#include "proto/connection/connection_manager.hpp"
#include "proto/connection/endpoint_settings.hpp"
#include "proto/message/early_sends.hpp"
#include "proto/operation/device_copies.hpp"
#include "proto/operation/operations.hpp"
#include "proto/operation/path_counters.hpp"
#include "proto/transfer/rendezvous_source.hpp"
#include "proto/transfer/transfer_completion.hpp"
#include "proto/transfer/transfer_table.hpp"

namespace gaudi::proto {

/// How a message leaves: the choice of protocol, messages that fit one packet, and those that wait
/// for a connection or credit.
///
/// Not thread safe: the caller holds the domain lock.
class message_sender {
 public:
  /// What it works with; all of it outlives the sender.
  struct parts {
    connection_manager& connections;
    core_transport& transport;
    shm_transport& shm;
    device_copies& copies;
    packet_channel& channel;
    path_counters& paths;
    transfer_table& table;
    transfer_completion& completion;
    rendezvous_source& rendezvous;
  };

  message_sender(const endpoint_settings& config, parts collaborators) noexcept
      : refusals_before_waiting_(config.refusals_before_waiting),
        max_by_ring_(config.max_by_ring),
        parts_(collaborators) {}

  /// On a connection that has a credit for it. 0, -FI_EAGAIN: no room; or an error.
  int send(connection& c, const local_memory& memory, const send_params& message);
  /// There is no connection with the peer yet, or something before it has not left, or there has
  /// been no credit for a while: the message leaves when it may. -FI_EAGAIN: it does not wait yet,
  /// or too many do.
  int send_early(peer& p, const local_memory& memory, const send_params& message);

  /// New operations may begin on the connection: those that waited for it are the first.
  void connection_up(connection& c);
  /// Messages that wait for the next connection end with the error, unless both ends agreed to
  /// close this one.
  void connection_down(const connection& c, int error);
  /// Ends all that wait.
  void fail_early(int error) noexcept { early_.fail_all(error); }
  /// Asks for the connections that some wait for, and sends those that may leave.
  void progress_early();
  [[nodiscard]] bool has_early() const noexcept { return !early_.empty(); }
  /// Whether an application has the buffers back of some that have not left.
  [[nodiscard]] bool any_injected() const noexcept { return early_.any_injected(); }
  /// Whether some wait for what nobody tells of: the end of a pause between requests, or room here.
  /// Credits come by message.
  [[nodiscard]] bool early_wait_unnoticed() const noexcept;

 private:
  [[nodiscard]] bool is_for_ring(const connection& c, const local_memory& memory,
                                 const send_params& message) const noexcept;
  [[nodiscard]] bool is_eager(const connection& c, const local_memory& memory,
                              const send_params& message) const noexcept;
  [[nodiscard]] bool is_stalled(connection& c) const noexcept;
  static void hold_back(connection& c) noexcept;
  void post_early(peer& p);
  [[gnu::always_inline]] int send_eager(connection& c, const local_memory& memory,
                                        const send_params& message);
  int send_otherwise(connection& c, const local_memory& memory, const send_params& message);
  int send_shm(connection& c, const local_memory& memory, const send_params& message);
  [[gnu::always_inline]] int send_injected(connection& c, const local_memory& memory,
                                           const send_params& message);
  int send_buffered(connection& c, const local_memory& memory, const send_params& message,
                    bool gather);
  int send_rendezvous(connection& c, const local_memory& memory, const send_params& message);
  [[nodiscard]] bool can_gather(const local_memory& memory,
                                const send_params& message) const noexcept;
  void count_gathered(const local_memory& memory) noexcept;

  const std::uint32_t refusals_before_waiting_;
  const std::size_t max_by_ring_;
  const parts parts_;
  early_sends early_;
};

}  // namespace gaudi::proto
