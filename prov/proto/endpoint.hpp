// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/counter.hpp"
#include "base/event_set.hpp"
#include "base/result.hpp"
#include "core/inner_domain.hpp"
#include "device/device_loss_epoch.hpp"
#include "device/device_registry.hpp"
#include "proto/channel/core_transport.hpp"
#include "proto/channel/packet_channel.hpp"
#include "proto/channel/receive_buffers.hpp"
#include "proto/channel/shm_transport.hpp"
#include "proto/connection/connection_closer.hpp"
#include "proto/connection/connection_manager.hpp"
#include "proto/connection/endpoint_settings.hpp"
#include "proto/connection/peer_addresses.hpp"
#include "proto/goodbye.hpp"
#include "proto/match/receive_context.hpp"
#include "proto/message/message_delivery.hpp"
#include "proto/message/message_sender.hpp"
#include "proto/operation/device_copies.hpp"
#include "proto/operation/operations.hpp"
#include "proto/operation/path_counters.hpp"
#include "proto/outstanding_report.hpp"
#include "proto/packet_dispatcher.hpp"
#include "proto/peer/address_vector.hpp"
#include "proto/rma/one_sided.hpp"
#include "proto/transfer_engine.hpp"
#include "reg/key_table.hpp"

namespace gaudi::proto {

/// The reliable datagram endpoint: messages, tagged messages, RMA and atomics over connections of
/// the core provider. Composes the components that do it, and drives them: what happens to them
/// comes here, from the core or from below, and is passed to whom it concerns.
///
/// Not thread safe: the caller holds the domain lock for every call.
class endpoint final : private connection_observer,
                       private device_copies::observer,
                       private packet_channel::observer {
 public:
  using settings = endpoint_settings;

  /// All that it is given by reference outlives it; `devices` are those whose addresses it takes.
  endpoint(core::inner_domain& core, reg::key_table& keys, const device::device_registry& devices,
           path_counters& paths, const settings& config,
           const latency_histograms* latencies = nullptr);
  virtual ~endpoint();
  endpoint(const endpoint&) = delete;
  endpoint& operator=(const endpoint&) = delete;

  void use_addresses(address_vector& av) { addresses_.use(av); }
  /// Counts what peers read and write here.
  void count_peers(const peer_access_counters& counters) noexcept {
    one_sided_.counters = counters;
  }
  /// What arrives: where it is reported, and the receives. Sharing receives is not for after
  /// enable().
  [[nodiscard]] message_delivery& messages() noexcept { return delivery_; }
  [[nodiscard]] receive_context& receives() noexcept { return delivery_.receives(); }

  /// Opens the core objects and listens. Before everything below; once, but for attempts that
  /// failed.
  using opening = endpoint_opening;
  base::result<void> enable(opening config = {});
  [[nodiscard]] bool enabled() const noexcept { return transport_.queue() != nullptr; }
  [[nodiscard]] const net_address& name() const noexcept { return connections_->name(); }

  // Each returns 0, -FI_EAGAIN (no connection or credit yet: progress, and try again), or an error.
  // Errors after that are reported by completion.
  int send(const local_memory& memory, const send_params& message);
  int write(const local_memory& memory, const rma_access& access);
  int read(const local_memory& memory, const rma_access& access);
  int access_ranges(rma_ranges::direction way, const local_memory& memory, const rma_access& access,
                    std::span<const fi_rma_iov> ranges);
  int atomic(const atomic_access& access);

  /// Whether nothing of this endpoint's is under way to or from the peer: what follows a fence may
  /// start (FI_FENCE). Progresses if not.
  bool is_quiet(fi_addr_t with);

  /// Ends what still uses the region, on behalf of peers: it is about to be deregistered. The
  /// application's own operations are its own affair (fi_mr(3)).
  void quiesce_region(const reg::region& r);

  /// Whether the peers have still to take what completed here, before shut_down(): what is on its
  /// way would be lost with the connection. Starts settings::linger at the first call, after which
  /// the answer is no. Progress and ask again; the domain lock may be left in between. The
  /// application starts nothing any more.
  [[nodiscard]] bool must_linger();

  /// Lingers, closes all connections and drops what is outstanding. Nothing else but the destructor
  /// may follow.
  void shut_down();

  /// Handles what has happened since the last call. Never blocks. Where memory is short, the
  /// operations that need some fail with FI_ENOMEM, or wait.
  void progress() noexcept;

  /// Something is under way that no file descriptor tells of: progress() must be called soon.
  [[nodiscard]] bool needs_polling() const noexcept;
  /// Progresses what may have something to do; whether a thread may sleep on wait_fds() after that.
  /// `ready`: which of these were readable, asked under the domain lock that is held. 0 or
  /// -FI_EAGAIN.
  int try_wait(const base::ready_fds& ready = base::ready_fds::any()) noexcept;
  /// File descriptors of a waitable endpoint, readable when there is something to progress.
  [[nodiscard]] const std::vector<int>& wait_fds() const noexcept {
    return transport_.wait_fds().all();
  }

 private:
  friend struct endpoint_audit;  // tests/sim

  base::result<void> open(opening config);
  base::result<connection*> data_connection(fi_addr_t to);

  void handle_completed(posted_op& w, std::size_t length, int error);
  std::size_t handle_completions(std::size_t most);
  bool poll_shm();
  void progress_waiting();
  void end_lost();
  void memory_is_short() noexcept;

  // connection_observer
  std::uint32_t number_of(const net_address& name) override { return receives().number_of(name); }
  void forget_number_of(const net_address& name) noexcept override {
    receives().forget_number_of(name);
  }
  void connection_opened(connection& c) override;
  void connection_up(connection& c) override;
  void connections_ending() override;
  void connection_down(connection& c, int error) override;
  void session_changed(connection& c) override;
  void time_passed(base::clock::time_point now) noexcept override {
    report_.refresh(now);
    transfers_.links.time_passed(now);
    closer_.make_room();
    transfers_.sessions.time_passed(now);
  }
  // device_copies::observer
  void copied(buffer& b) noexcept override { transfers_.mover.copied(b); }
  // packet_channel::observer
  void message_failed(std::uint32_t transfer, int error) override;

  const settings config_;
  // What becomes known of this endpoint beside completions.
  struct {
    path_counters& paths;
    latency_sampler latencies;
    link_reporter links;
  } telemetry_;
  // Memory that the core or a device may still use outlives the connections: shut_down().
  receive_buffers receive_buffers_;
  std::unique_ptr<connection_manager> connections_;
  core_transport transport_;
  shm_transport shm_;
  device_copies copies_;
  packet_channel channel_;
  connection_closer closer_;
  peer_addresses addresses_;
  transfer_engine transfers_;
  message_delivery delivery_;
  message_sender sender_;
  one_sided one_sided_;
  packet_dispatcher dispatcher_;
  goodbye goodbye_;
  outstanding_report report_;
  struct {
    std::uint64_t loss_epoch = device::device_loss_epoch::count();
    bool memory_is_short = false;
    // Since the last try_wait() that asked the core, as long as none of the queues' descriptors is
    // readable. A queue of the verbs provider is: what it was armed for makes it readable, whoever
    // takes that (libfabric 2.1, verbs_cq.c, vrb_cq_trywait; ibv_req_notify_cq(3)).
    bool is_armed = false;
  } noticed_;
};

}  // namespace gaudi::proto
