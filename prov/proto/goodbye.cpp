// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// How an endpoint leaves its peers. An application may close as soon as its operations have
// completed, and what that promised must still arrive. The core alone does not see to it: a stream
// is reset when the peer sends to a socket that is closed already, be it only credits, and what the
// peer had not read by then is dropped.
//
// With a session over tcp it is the peer that says what it has received. Else
// the last packet to each peer is one that its core acknowledges (FI_TRANSMIT_COMPLETE): all
// that went before it on the connection is in the peer's memory then. Over tcp the answer comes
// when the peer progresses, over RDMA from its NIC. Packets in shared memory outlive their sender.
#include "proto/goodbye.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>

#include "base/log.hpp"
#include "proto/operation/direct_op.hpp"
#include "proto/operation/transfer.hpp"

namespace gaudi::proto {
namespace {

// What only has to leave this process takes no peer's time.
constexpr std::chrono::milliseconds min_linger{500};

bool has_queued(const connection& c) noexcept {
  return !c.outbox.ordered.empty() || c.outbox.has_control();
}

bool owe_events(const posted_op_list& operations) noexcept {
  return std::any_of(operations.begin(), operations.end(), [](const posted_op& w) {
    if (w.what != posted_op::kind::direct) return false;
    const auto& op = static_cast<const direct_op&>(w);
    return op.on && op.has_data;
  });
}

// Whether a packet is to tell the target of a write that the core has. It completes with the
// connection at the latest, and that it was told is part of that.
bool owes_event(const connection& c) noexcept {
  const bool of_direct =
      c.at_core.direct != 0 && (owe_events(c.at_core.posted) || owe_events(c.session.undone) ||
                                owe_events(c.session.to_redo));
  return of_direct || std::any_of(c.transfers.begin(), c.transfers.end(), [](const transfer& t) {
           return t.rma.event_data && t.moved.in_flight != 0;
         });
}

bool owes_packet(const connection& c) noexcept {
  return has_queued(c) || owes_event(c);
}

}  // namespace

// Whether the peer may not have received all. It says nothing of credits alone.
bool goodbye::is_awaited(connection& c) {
  bool any = false;
  c.session.packets.each_from(c.session.packets.first(), [&](const sent_packets::packet& p) {
    const std::byte* const bytes = p.whole ? p.whole->bytes : p.bytes.data();
    any = reinterpret_cast<const wire::header*>(bytes)->what != wire::kind::credit;
    return !any;
  });
  return any;
}

bool goodbye::must_linger() {
  if (!until_) until_ = config_.clock.now() + std::max(config_.linger, min_linger);
  const connection* waits_for = nullptr;
  connections_.for_each([&](connection& c) {
    if ((c.usable() && !has_left(c)) || (c.is_interrupted() && (owes_packet(c) || is_awaited(c))))
      waits_for = &c;
  });
  if (!waits_for && !sender_.any_injected()) return false;
  if (config_.clock.now() < *until_) return true;
  GAUDI_WARN(EP_CTRL,
             "an endpoint closes although %s has not taken all that was sent to it: it may miss "
             "the last messages (does it make progress?)\n",
             waits_for ? waits_for->remote->name.to_string().c_str() : "a peer not connected yet");
  return false;
}

// Whether all that the connection was given is with the peer, or as near as can be told.
bool goodbye::has_left(connection& c) {
  if (owes_packet(c)) return false;
  if (c.session.is_kept && !is_awaited(c)) return true;
  if (c.session.is_kept && !core_.core().over_rdma()) return false;
  if (owes_goodbye(c)) {
    const int ret = say_goodbye(c);
    return ret != 0 && ret != -FI_EAGAIN;
  }
  if (c.session.is_kept) return false;
  return std::none_of(c.at_core.posted.begin(), c.at_core.posted.end(),
                      [](const posted_op& w) { return w.what == posted_op::kind::message; });
}

// Over tcp the window is the same all the time, so credits tell that nothing is on its way.
bool goodbye::owes_goodbye(const connection& c) const noexcept {
  if (c.closing.last_word.is_said || c.shm || config_.linger.count() == 0) return false;
  return core_.core().over_rdma() || c.at_core.wrote || !c.data.all_returned() ||
         !c.control.all_returned();
}

// 0: it is on its way. -FI_EAGAIN: there was no room for it yet. Others: the connection is about to
// end.
int goodbye::say_goodbye(connection& c) {
  buffer* const b = channel_.acquire();
  if (!b) return -FI_EAGAIN;
  const wire::header head{wire::kind::credit, 0, 0, 0, c.terms.connection_id};
  std::memcpy(b->bytes, &head, sizeof head);
  b->begin_message(sizeof head);
  b->transmit = true;
  const int ret = channel_.post(c, *b);
  if (ret) {
    channel_.recycle(*b);
  } else {
    c.closing.last_word.is_said = true;
  }
  return ret;
}

}  // namespace gaudi::proto
