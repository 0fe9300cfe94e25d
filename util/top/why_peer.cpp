// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "why_peer.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "why_call.hpp"

namespace gaudi::top {
namespace {

namespace outstanding = base::outstanding;
using outstanding::record;
using outstanding::wait_reason;

bool is_of_subject(const evidence& known, const record& r) {
  const auto& own = known.subject.endpoints;
  return std::any_of(own.begin(), own.end(),
                     [&](const record& e) { return e.instance == r.instance; });
}

bool has_copies_for(const outstanding_view& p, const evidence& known) {
  return std::any_of(p.operations.begin(), p.operations.end(), [&](const record& r) {
    return r.wait == wait_reason::device_copy && is_of_subject(known, r);
  });
}

/// What the peer's own end of the connection says of it.
verdict fault_of_connection(const outstanding_view& peer, const evidence& known) {
  for (const record& c : peer.connections) {
    if (!is_of_subject(known, c)) continue;
    const std::string age = age_text(since(c.since, known.now));
    if (c.wait == wait_reason::reconnection)
      return {"connection-lost",
              fmt::format(", which has lost its connection with this process {} ago", age)};
    if (c.wait == wait_reason::memory)
      return {"peer-memory", fmt::format(", which has had no memory for what came for {}", age)};
    if (c.wait == wait_reason::application)
      return {"peer-application",
              fmt::format(", whose application has taken too little of what came for {}", age)};
  }
  return {};
}

bool knows_of_subject(const outstanding_view& peer, const evidence& known) {
  const auto is_known = [&](const record& r) { return is_of_subject(known, r); };
  return std::any_of(peer.operations.begin(), peer.operations.end(), is_known) ||
         std::any_of(peer.connections.begin(), peer.connections.end(), is_known);
}

/// Of a message that the peer has not answered, though it goes on.
verdict fault_of_receiver(const evidence& known, const record& waits, const peer_process& peer) {
  if (peer.endpoint->counts[outstanding::unexpected_messages] != 0)
    return {"no-receive", ", which has posted no matching receive"};
  const std::uint64_t age = since(waits.since, known.now);
  if (age < second || knows_of_subject(*peer.process, known)) return {};
  return {"network", fmt::format(", which has not got the message within {}", age_text(age))};
}

}  // namespace

bool is_stopped(const outstanding_view& p) {
  return p.state == 'T' || p.state == 't';
}

std::uint64_t idle_time(const record& endpoint, std::uint64_t now) {
  if ((endpoint.flags & outstanding::asleep) != 0) return 0;
  const std::uint64_t idle = since(endpoint.seen, now);
  return idle < second ? 0 : idle;
}

std::uint64_t idle_time(const outstanding_view& p, std::uint64_t now) {
  if (p.endpoints.empty()) return 0;
  std::uint64_t least = idle_time(p.endpoints.front(), now);
  for (const record& e : p.endpoints) least = std::min(least, idle_time(e, now));
  return least;
}

peer_process find_peer(const evidence& known, const record& of) {
  for (const outstanding_view& p : known.host)
    for (const record& e : p.endpoints)
      if (of.instance != 0 ? e.instance == of.instance : e.address == of.address) return {&p, &e};
  return {};
}

std::string peer_text(const record& r, const peer_process& peer) {
  if (!peer.process) return address_text(r);
  return fmt::format("{} (process {}, {})", address_text(r), peer.process->pid,
                     peer.process->command);
}

verdict fault_of_process(const peer_process& peer, std::uint64_t now) {
  if (is_stopped(*peer.process)) return {"peer-stopped", ", which is stopped (by a signal)"};
  const std::uint64_t idle = idle_time(*peer.endpoint, now);
  // The one that sleeps may do so for the thread that is inside the call.
  const bool sleeps = (peer.endpoint->flags & outstanding::asleep) != 0;
  const record* const call = stuck_call(*peer.process, now);
  if (call && (idle != 0 || sleeps))
    return {"peer-driver", fmt::format(", where a thread has been {} for {}", call_text(*call),
                                       age_text(since(call->since, now)))};
  if (idle == 0) return {};
  const bool is_all = idle_time(*peer.process, now) != 0;
  return {"peer-application",
          fmt::format(", whose application has not {} for {}",
                      is_all ? "called the provider" : "progressed that endpoint", age_text(idle))};
}

verdict fault_of_peer(const evidence& known, const record& waits, const peer_process& peer) {
  if (!peer.process) {
    const std::uint64_t silence = since(std::max(waits.seen, waits.since), known.now);
    if (silence < second) return {};
    return {"peer-silent", fmt::format(", silent for {}", age_text(silence))};
  }
  if (verdict found = fault_of_process(peer, known.now); !found.culprit.empty()) return found;
  if (verdict found = fault_of_connection(*peer.process, known); !found.culprit.empty())
    return found;
  if (has_copies_for(*peer.process, known))
    return {"peer-device", ", whose device is still copying"};
  return waits.wait == wait_reason::matching_receive ? fault_of_receiver(known, waits, peer)
                                                     : verdict{};
}

}  // namespace gaudi::top
