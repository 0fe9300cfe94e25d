// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What moves everything: completions of the core, ends of device copies, connection events, and
// what had to wait for room.
#include <rdma/fi_errno.h>

#include <algorithm>
#include <utility>

#include "base/cancellation_deferred.hpp"
#include "base/log.hpp"
#include "base/probes.hpp"
#include "proto/endpoint.hpp"

namespace gaudi::proto {
namespace {

// Peers that send without end are not to keep a call of the application's.
constexpr std::size_t completions_at_once = 1024;
// More than a peer has credits for: 16 packets a look.
constexpr unsigned looks_at_the_end = 64;

}  // namespace

// At every look: nearly always nothing waits.
[[gnu::always_inline]] inline void endpoint::progress_waiting() {
  if (dispatcher_.any_postponed()) [[unlikely]]
    dispatcher_.retry_postponed();
  if (sender_.has_early()) [[unlikely]]
    sender_.progress_early();
  if (one_sided_.ranges.any_unposted()) [[unlikely]]
    one_sided_.ranges.progress();
  if (closer_.any()) [[unlikely]]
    closer_.poll();
  if (transfers_.sessions.any_to_redo()) [[unlikely]]
    transfers_.sessions.redo([this](connection& c, const direct_op& op) {
      return one_sided_.initiator.begin_again(c, op);
    });
}

void endpoint::progress() noexcept try {
  if (!enabled()) return;
  // Messages that are expected, from peers on this host, do not wait for all else that is looked
  // after here, which is many times as much as they are.
  if (!shm_.empty() && shm_.poll_expected([this](connection& c, std::span<const std::byte> packet) {
        return dispatcher_.take_in_place(c, packet);
      }))
    return;
  const base::cancellation_deferred until_it_is_done;
  if (device::device_loss_epoch::count() != noticed_.loss_epoch) [[unlikely]]
    end_lost();
  progress_waiting();
  if (shm_.empty() || shm_.is_turn_of_core(poll_shm())) handle_completions(completions_at_once);
  if (!transfers_.immediate.empty())
    transfers_.immediate.tell_ends([this](posted_op& w, int error) {
      connections_->on_behalf_of(w.connection, [&] {
        transport_.unlist(w);
        transfers_.mover.rma_ended(w, error);
      });
    });
  if (transfers_.cooperative.any_to_help()) transfers_.cooperative.help_peers();
  if (copies_.any()) copies_.poll();
  if (transfers_.rail_choice.any_to_look_at()) [[unlikely]]
    transfers_.rails.progress();
  if (transfers_.mover.has_stalled()) transfers_.mover.retry_stalled();
  if (receive_buffers_.short_of_posted()) [[unlikely]]
    receive_buffers_.post_more();
  if (dispatcher_.can_post_receives()) [[unlikely]]
    dispatcher_.post_waiting_receives();
  if (delivery_.any_withheld()) [[unlikely]]
    delivery_.return_withheld();
  if (channel_.has_waiting()) channel_.flush();
  if (shm_.owes_doorbells()) shm_.ring_doorbells();
  if (transfers_.dmabufs.exporter.any_freed()) transfers_.dmabufs.exporter.tell_of_freed();
  connections_->poll();
} catch (const std::bad_alloc&) {
  memory_is_short();
}

void endpoint::memory_is_short() noexcept {
  if (!std::exchange(noticed_.memory_is_short, true))
    GAUDI_WARN(EP_DATA, "memory is short: operations fail or wait\n");
}

bool endpoint::poll_shm() {
  return shm_.poll([this](connection& c, std::span<const std::byte> packet) {
    return dispatcher_.take_from_shm(c, packet);
  });
}

bool endpoint::needs_polling() const noexcept {
  return copies_.any() || dispatcher_.any_postponed() || sender_.early_wait_unnoticed() ||
         closer_.waits_unnoticed() || receive_buffers_.short_of_posted() ||
         !transfers_.immediate.empty() || transfers_.cooperative.any_to_help() ||
         shm_.owes_doorbells() || dispatcher_.can_post_receives() ||
         transfers_.mover.waits_unnoticed() || channel_.waits_unnoticed() ||
         transfers_.rail_choice.any_to_look_at() || connections_->any_interrupted() ||
         one_sided_.ranges.waits_unnoticed() || transfers_.sessions.any_to_redo();
}

int endpoint::try_wait(const base::ready_fds& ready) noexcept try {
  if (!enabled()) return 0;
  const base::cancellation_deferred until_it_is_known;
  // Each queue that is armed, each look at the core's events, and an alarm that is set again are
  // system calls.
  const wait_descriptors& fds = transport_.wait_fds();
  const bool is_armed = noticed_.is_armed && !ready.any_of(fds.queues());
  const bool core_may_tell = fds.all().empty() || ready.any_of(fds.events());
  const bool alarm_runs = !ready.any_of(fds.alarm());
  // Where a domain has many endpoints most of them are not what has woken the thread.
  const bool is_silent = is_armed && alarm_runs && !core_may_tell &&
                         device::device_loss_epoch::count() == noticed_.loss_epoch;
  const auto is_idle = [&] { return !needs_polling() && shm_.may_sleep(); };
  if (!is_silent || !is_idle()) {
    progress();
    connections_->poll_now(core_may_tell);
    if (!is_idle()) return -FI_EAGAIN;
  }
  if (!is_armed && !fds.all().empty()) {
    const int ret = transport_.try_wait(connections_->connector().events());
    noticed_.is_armed = ret == 0 && transport_.core().over_rdma();
    if (ret) return ret;
  }
  transfers_.links.fall_asleep(alarm_runs);
  report_.fall_asleep();
  return 0;
} catch (const std::bad_alloc&) {
  memory_is_short();
  return -FI_EAGAIN;
}

std::size_t endpoint::handle_completions(std::size_t most) {
  return transport_.read(most, [this](posted_op& w, std::size_t length, int error) {
    connections_->on_behalf_of(w.connection, [&] { handle_completed(w, length, error); });
  });
}

void endpoint::handle_completed(posted_op& w, std::size_t length, int error) {
  if (w.what == posted_op::kind::receive)
    return dispatcher_.receive_completed(static_cast<buffer&>(w), length, error);
  if (w.rail != 0) [[unlikely]] {
    if (w.what == posted_op::kind::probe) return transfers_.links.ended(w, error);
    if (transfers_.rails.ended(w, error)) return;
  }
  if (error == 0 && w.what != posted_op::kind::message) {
    transport_.unlist(w);
    return transfers_.mover.rma_ended(w, 0);
  }
  if (transfers_.sessions.takes_back(w, error)) return;
  if (w.what == posted_op::kind::message)
    return transfers_.sessions.message_left(static_cast<buffer&>(w), error);
  transfers_.mover.rma_ended(w, error);
}

// Devices have been lost, for this endpoint or for others.
void endpoint::end_lost() {
  noticed_.loss_epoch = device::device_loss_epoch::count();
  copies_.prefer_lost();
  receives().fail_lost();
  transfers_.direct.end_lost();
  transfers_.completion.end_lost();
}

void endpoint::message_failed(std::uint32_t transfer, int error) {
  if (proto::transfer* const t = transfers_.table.find(transfer))
    transfers_.completion.complete(*t, error);
}

// Each connection may be in each list of the components, and a message that has come on one whose
// place there cannot be made would be lost. Throws std::bad_alloc: the connection is not made then.
void endpoint::connection_opened(connection& c) {
  const std::size_t count = connections_->count();
  shm_.reserve(count);
  channel_.reserve(count);
  delivery_.reserve(count);
  dispatcher_.reserve(count);
  transfers_.sessions.reserve(count);
  transfers_.rail_choice.reserve(count);
  closer_.make_room();
  // The peer may send as soon as it knows of this.
  receive_buffers_.serve(count);
  dispatcher_.post_receives(c);
}

void endpoint::connection_up(connection& c) {
  ++telemetry_.paths.connections.made;
  base::probes::connection_up(c.id, c.remote->address, c.shm != nullptr);
  if (c.shm) shm_.add(c);
  // The peer sends nothing before a packet tells it that its answer has come.
  if (c.handshake.requested_here && !c.shm) shm_.ring_doorbell(c);
  dispatcher_.post_receives(c);
  transfers_.rail_making.connection_up(c);
  if (c.usable()) sender_.connection_up(c);
}

// What is there now was posted before: as many completions as there is work at the core find it,
// however much other peers send meanwhile.
void endpoint::connections_ending() {
  if (dispatcher_.any_postponed()) dispatcher_.retry_postponed();
  // All that there is now: another connection's errors may stand before this one's last words.
  for (std::size_t left = receive_buffers_.out() + transport_.posted(); left != 0;) {
    const std::size_t taken = handle_completions(left);
    if (taken == 0) break;
    left -= std::min(left, taken);
  }
  shm_.expect_all();
  for (unsigned looks = 0; looks < looks_at_the_end && poll_shm(); ++looks) shm_.expect_all();
}

void endpoint::session_changed(connection& c) {
  if (c.state == connection_state::interrupted) {
    base::probes::connection_down(c.id, c.remote->address, c.session.interruption.error);
    ++telemetry_.paths.connections.interrupted;
    telemetry_.links.connection_lost(c);
  } else if (c.state == connection_state::resuming) {
    transfers_.sessions.reconnected(c);
  } else {
    base::probes::connection_up(c.id, c.remote->address, c.shm != nullptr);
    ++telemetry_.paths.connections.resumed;
    if (c.session.has_moved()) ++telemetry_.paths.again.elsewhere;
    telemetry_.links.connection_regained(c);
    transfers_.rail_making.resumed(c);
    way_home::resumed(c);
    dispatcher_.post_receives(c);
    if (c.returns_due()) channel_.return_credits(c);
    if (c.state == connection_state::connected) sender_.connection_up(c);
  }
}

void endpoint::connection_down(connection& c, int error) {
  base::probes::connection_down(c.id, c.remote->address, c.closing.is_wanted() ? 0 : error);
  ++(c.closing.is_wanted() ? telemetry_.paths.connections.closed
                           : telemetry_.paths.connections.lost);
  telemetry_.links.connection_down(c, error);
  shm_.remove(c);
  transfers_.dmabufs.connection_down(c);
  dispatcher_.connection_down(c);
  transfers_.rails.connection_down(c, error);
  core_transport::connection_down(c, error);
  transfers_.sessions.connection_down(c, error);
  channel_.connection_down(c, error);
  transfers_.connection_down(c, error);
  delivery_.connection_down(c);
  sender_.connection_down(c, error);
}

}  // namespace gaudi::proto
