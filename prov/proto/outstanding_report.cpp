// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/outstanding_report.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "device/device_loss_epoch.hpp"

namespace gaudi::proto {
namespace {

namespace outstanding = base::outstanding;
using outstanding::connection_phase;
using outstanding::record;
using outstanding::wait_reason;

constexpr auto min_interval = std::chrono::milliseconds(50);
// Each costs tens of nanoseconds to look at: a thousandth of the time at most goes there.
constexpr auto interval_for_each = std::chrono::microseconds(20);
// An application may sleep between any two messages: so many take no longer than that.
constexpr std::size_t short_report = 64;

bool is_ready(const posted_op& message) noexcept {
  return static_cast<const buffer&>(message).ready;
}

std::size_t queued_packets(const connection& c) noexcept {
  return c.outbox.ordered.size() + c.outbox.control.size() + c.outbox.control_buffers.size() +
         c.remote->early;
}

wait_reason wait_of_control(const connection& c) noexcept {
  if (!c.outbox.control_buffers.empty() && !is_ready(c.outbox.control_buffers.front()))
    return wait_reason::device_copy;
  return c.control.can_send() ? wait_reason::room : wait_reason::credit;
}

// While it is being made: since when, and until when at most.
void put_limits(record& r, const connection& c, const base::connection_limits& limits) noexcept {
  auto from = c.handshake.made_at;
  auto limit = limits.connect_timeout;
  if (c.is_interrupted()) {
    const auto& lost = c.session.interruption;
    from = lost.since;
    limit = limits.reconnect_timeout;
    r.done = static_cast<std::uint64_t>(std::max(lost.error, 0));
  }
  r.since = nanoseconds(from);
  if (limit.count() != 0) r.total = nanoseconds(from + limit);
}

}  // namespace

// The page's numbers stay as they are, whatever order the states have.
connection_phase phase_of(connection_state s) noexcept {
  switch (s) {
    case connection_state::connecting:
      return connection_phase::connecting;
    case connection_state::accepting:
      return connection_phase::accepting;
    case connection_state::failed:
      return connection_phase::failed;
    case connection_state::interrupted:
      return connection_phase::interrupted;
    case connection_state::reconnecting:
      return connection_phase::reconnecting;
    case connection_state::reaccepting:
      return connection_phase::reaccepting;
    case connection_state::resuming:
      return connection_phase::resuming;
    case connection_state::connected:
      return connection_phase::connected;
    case connection_state::closing:
      break;
  }
  return connection_phase::closing;
}

wait_reason wait_of(const connection& c) noexcept {
  if (c.state == connection_state::failed) return wait_reason::nothing;
  if (c.is_interrupted()) return wait_reason::reconnection;
  if (!c.usable()) return wait_reason::handshake;
  if (!c.postponed.empty()) return wait_reason::memory;
  if (c.receives.withheld != 0 || c.receives.withheld_events != 0) return wait_reason::application;
  if (!c.outbox.ordered.empty())
    return is_ready(c.outbox.ordered.front()) ? wait_reason::room : wait_reason::device_copy;
  if (c.outbox.has_control()) return wait_of_control(c);
  return c.data.can_send() ? wait_reason::nothing : wait_reason::credit;
}

void outstanding_report::open(const base::clock& clock) {
  connections_.reserve(outstanding::max_connections);
  clock_ = clock;
  loss_epoch_ = device::device_loss_epoch::count();
  endpoint_ = outstanding::record_owner(outstanding::record_kind::endpoint);
  if (!endpoint_) return;
  parts_.table.records().open(clock_, endpoint_.place());
  write_all(clock_.now(), false);
}

void outstanding_report::close() noexcept {
  parts_.table.records().close();
  connections_.clear();
  endpoint_.reset();
}

void outstanding_report::write_all(base::clock::time_point now, bool asleep) noexcept {
  is_asleep_ = asleep;
  next_ = now + min_interval + interval_for_each * (parts_.connections.count() + operations());
  const std::size_t waiting = write_connections(now);
  write_operations(now);
  write_endpoint(now, waiting);
}

bool outstanding_report::is_short() const noexcept {
  return parts_.connections.count() + operations() <= short_report;
}

std::size_t outstanding_report::operations() const noexcept {
  return parts_.table.size() + parts_.direct.count();
}

void outstanding_report::fall_asleep_at(base::clock::time_point now) noexcept {
  if (now >= next_ || is_short()) write_all(now, true);
}

void outstanding_report::write_endpoint(base::clock::time_point now, std::size_t waiting) noexcept {
  const std::uint64_t loss_epoch = device::device_loss_epoch::count();
  if (loss_epoch != loss_epoch_) loss_seen_at_ = now;
  loss_epoch_ = loss_epoch;
  const std::uint64_t since = endpoint_.since();
  record r{};
  r.endpoint = endpoint_.place();
  if (is_asleep_) r.flags = outstanding::asleep;
  r.device = -1;
  r.since = since != 0 ? since : nanoseconds(now);
  r.seen = nanoseconds(now);
  r.instance = parts_.connections.instance();
  r.total = loss_epoch_;
  r.done = nanoseconds(loss_seen_at_);
  r.counts[outstanding::operations] = operations();
  r.counts[outstanding::waiting_connections] = waiting;
  r.counts[outstanding::unexpected_messages] = parts_.delivery.receives().unexpected_messages();
  r.counts[outstanding::posted_receives] = parts_.delivery.receives().posted();
  const net_address& name = parts_.connections.name();
  std::memcpy(r.address.data(), name.raw(), std::min(name.length(), r.address.size()));
  endpoint_.write(r);
}

void outstanding_report::write_operations(base::clock::time_point now) noexcept {
  operation_records& records = parts_.table.records();
  if (operations() == 0) return records.give_back();
  if (parts_.direct.count() != 0)
    parts_.direct.for_each([&](direct_op& op) { records.show(op, now); });
  parts_.table.for_each([&](transfer& t) { records.show(t, now, false); });
  // Visited once each, whatever they belong to; none is what is looked for.
  static_cast<void>(parts_.copies.find([&](const buffer& b) {
    if (b.owner) records.show(*b.owner, now, true);
    return false;
  }));
}

std::size_t outstanding_report::write_connections(base::clock::time_point now) noexcept {
  std::size_t waiting = 0;
  for (shown_connection& s : connections_) s.still_waits = false;
  parts_.connections.for_each([&](connection& c) {
    if (std::exchange(c.silence.noticed, c.silence.packets) != c.silence.packets)
      c.silence.heard_at = now;
    const wait_reason why = wait_of(c);
    if (why == wait_reason::nothing) return;
    ++waiting;
    write_connection(c, why, now);
  });
  std::erase_if(connections_, [](const shown_connection& s) { return !s.still_waits; });
  return waiting;
}

outstanding_report::shown_connection* outstanding_report::shown_as(std::uint32_t id) noexcept {
  const auto known = std::find_if(connections_.begin(), connections_.end(),
                                  [&](const shown_connection& s) { return s.id == id; });
  if (known != connections_.end()) return &*known;
  if (connections_.size() == connections_.capacity()) return nullptr;
  outstanding::record_owner taken(outstanding::record_kind::connection);
  if (!taken) return nullptr;
  return &connections_.emplace_back(shown_connection{id, true, std::move(taken)});
}

void outstanding_report::write_connection(const connection& c, wait_reason why,
                                          base::clock::time_point now) noexcept {
  shown_connection* const as = shown_as(c.id);
  if (!as) return;
  as->still_waits = true;
  const std::uint64_t since = as->record.since();
  record r{};
  r.type = static_cast<std::uint8_t>(phase_of(c.state));
  r.wait = why;
  r.endpoint = endpoint_.place();
  r.id = c.id;
  r.device = -1;
  r.since = since != 0 ? since : nanoseconds(now);
  if (!c.usable()) put_limits(r, c, limits_);
  r.counts[outstanding::data_credits] = c.data.available();
  r.counts[outstanding::control_credits] = c.control.available();
  r.counts[outstanding::queued_packets] = queued_packets(c);
  r.counts[outstanding::withheld_credits] = c.receives.withheld + c.receives.withheld_events;
  put_peer(r, c);
  as->record.write(r);
}

}  // namespace gaudi::proto
