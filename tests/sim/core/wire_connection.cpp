// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// How operations travel: each leaves its sender's memory, arrives behind those before it, is
// carried out where there is a place for it, and ends at its sender, at times that the seed gives.
#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>

#include "sim/core/objects.hpp"
#include "sim/packet_text.hpp"

namespace gaudi::sim {
namespace {

constexpr int remote_access_error = 10;  // IBV_WC_REM_ACCESS_ERR
// Far longer than anybody who can ask the kernel would wait.
constexpr delay patience{1'000'000'000, 2'000'000'000};

}  // namespace

int wire_connection::post(int end, std::shared_ptr<operation> op) {
  wire_end& me = ends[end];
  if (!me.at->is_alive()) return 0;
  const conditions& how = net.how();
  if (net.numbers().chance(how.refused_posts)) return -FI_EAGAIN;
  if (has_no_room_for_reads && op->what == operation::kind::read) {
    ++refused_reads;
    return -FI_EAGAIN;
  }
  const auto queue = net.queues().find(op->queue);
  if (queue != net.queues().end()) {
    core_completions& q = *queue->second;
    if (q.under_way + q.entries.size() >= q.room) return -FI_EAGAIN;
  }
  if (!me.is_up) {
    net.complain("an operation on an endpoint that is not connected");
    return -FI_ENOTCONN;
  }
  if (me.has_heard && net.numbers().chance(500)) return -FI_ENOTCONN;
  if (op->queue) {
    ++queue->second->under_way;
    me.reporting.push_back(op);
  }
  const auto self = shared_from_this();
  if (me.has_heard) {
    // As a queue pair in error has it: taken, and flushed.
    net.after(how.acknowledged, [self, end, op] { self->finish(end, op, FI_ENOTCONN); });
    return 0;
  }
  if (is_cut) return 0;
  me.sent.push_back(op);
  nanoseconds departs = net.now();
  if (!how.rdma && op->parts != 0) departs += net.some(how.departure);
  departs = me.last_departure = std::max(departs, me.last_departure);
  if (how.rdma) {
    // Nothing to do: the NIC takes the bytes when the packet leaves.
  } else if (departs == net.now()) {
    depart(end, *op);
  } else {
    net.at(departs, [self, end, op] { self->depart(end, *op); });
  }
  const nanoseconds arrives = me.last_arrival =
      std::max(departs + net.some(how.flight), me.last_arrival);
  net.at(arrives, [self, end, op] {
    op->arrived = true;
    self->arrive(end);
  });
  return 0;
}

// As tcp: from here on the bytes are the kernel's.
void wire_connection::depart(int end, operation& op) {
  wire_end& me = ends[end];
  if (is_cut || op.ended || !me.ep) return;
  op.gather();
  if (op.what == operation::kind::read || op.at_delivery || !op.queue) return;
  const auto mine = std::find_if(me.reporting.begin(), me.reporting.end(),
                                 [&](const auto& r) { return r.get() == &op; });
  if (mine != me.reporting.end()) finish(end, std::shared_ptr(*mine), 0);
}

void wire_connection::arrive(int end) {
  const wire_end& there = ends[1 - end];
  const bool asleep = net.how().by_progress && there.ep && !there.at->is_looking();
  asleep ? there.at->owe(shared_from_this(), end) : drain(end);
}

void wire_connection::drain(int end) {
  wire_end& me = ends[end];
  while (may_arrive(end) && !me.sent.empty() && me.sent.front()->arrived) {
    const auto op = me.sent.front();
    if (!carry_out(end, op)) return;
    if (!me.sent.empty() && me.sent.front() == op) me.sent.pop_front();
  }
}

// What comes from this end. The other one knows when it is late by when it has heard of the loss.
bool wire_connection::may_arrive(int end) const noexcept {
  const wire_end& there = ends[1 - end];
  if (is_silent && !is_cut) return false;
  return !is_cut || (lets_late_in && net.now() >= late_from && there.ep && !there.has_heard);
}

// False: it has to wait for a buffer.
bool wire_connection::carry_out(int end, const std::shared_ptr<operation>& op) {
  wire_end& me = ends[end];
  wire_end& there = ends[1 - end];
  if (op->what == operation::kind::close) {
    hear_of_end(1 - end);
    return true;
  }
  if (!there.ep) {
    lose_closed(1 - end);
    finish(end, op, FI_ECONNRESET);
    return true;
  }
  if (me.ep && !is_cut) op->gather();
  if (op->what == operation::kind::send) return deliver(end, op);
  const bool reads = op->what == operation::kind::read;
  if (!reads && op->length == 0) {
    end_later(end, op);  // no key is looked at
    return true;
  }
  const auto target = there.ep->domain->find_remote(op->address, op->length, op->key,
                                                    reads ? FI_REMOTE_READ : FI_REMOTE_WRITE);
  net.note(me.at->number(), there.at->number(), [&] {
    return (reads ? "RDMA read " : "RDMA write ") + std::to_string(op->length) + " B" +
           (target.on_device ? " of device memory"
            : target.bytes   ? ""
                             : " (refused)");
  });
  if (!target.bytes) {
    if (is_cut && !net.was_disturbed(me.at->number(), there.at->number()))
      net.complain("a write that was lost comes after its memory was given back");
    refuse_access(end, op);
    return true;
  }
  if (reads) {
    there.ep->domain->held->place_all();
    op->data.assign(target.bytes, target.bytes + op->length);
    if (net.is_lost_memory(target.bytes)) std::fill(op->data.begin(), op->data.end(), unreadable);
    answer_read(end, op);
    return true;
  }
  write(end, op, target);
  return true;
}

void wire_connection::write(int end, const std::shared_ptr<operation>& op,
                            const core_domain::place& target) {
  core_domain& nic = *ends[1 - end].ep->domain;
  const bool before_messages = brings_messages_to(1 - end, nic);
  nic.take_write(target.bytes, *op, is_cut, target.on_device, before_messages);
  if (!before_messages && net.numbers().chance(net.how().lost_writers))
    net.after(net.how().placement, [self = shared_from_this()] { self->cut(); });
  end_later(end, op);
}

// Whether what the peer sends comes by that NIC, on this connection or another one.
bool wire_connection::brings_messages_to(int end, const core_domain& nic) const noexcept {
  if (!is_rail) return true;
  const host* const here = ends[end].at;
  const host* const there = ends[1 - end].at;
  return std::any_of(net.connections().begin(), net.connections().end(), [&](const auto& wire) {
    if (wire->is_rail || wire->is_cut) return false;
    return std::any_of(wire->ends.begin(), wire->ends.end(), [&](const wire_end& one) {
      const wire_end& other = &one == wire->ends.data() ? wire->ends[1] : wire->ends[0];
      return one.ep && one.at == here && other.at == there && one.ep->domain == &nic;
    });
  });
}

bool wire_connection::deliver(int end, const std::shared_ptr<operation>& op) {
  wire_end& there = ends[1 - end];
  receive_queue& receives = there.ep->receives();
  if (receives.buffers.empty()) {
    receives.waiting.push_back({shared_from_this(), end});
    return false;
  }
  const auto room = receives.buffers.front();
  if (!net.alter(*ends[end].at, op->data, room.length)) {
    net.note(ends[end].at->number(), there.at->number(), [] { return "nothing (forged)"; });
    end_later(end, op);
    return true;
  }
  receives.buffers.pop_front();
  there.ep->domain->held->place_those_of_host();
  if (op->data.size() > room.length) {
    net.complain("a message longer than the buffer that it comes to");
    return true;
  }
  if (room.of_device)
    room.of_device->hold(op->number, room.bytes, op->data, true);
  else if (!op->data.empty())
    std::memcpy(room.bytes, op->data.data(), op->data.size());
  net.note(ends[end].at->number(), there.at->number(), [&] { return packet_text(op->data); });
  there.ep->arrivals->report({{room.context, FI_MSG | FI_RECV, op->data.size()}, 0, 0});
  end_later(end, op);
  return true;
}

void wire_connection::answer_read(int end, const std::shared_ptr<operation>& op) {
  wire_end& me = ends[end];
  nanoseconds when = net.now() + net.some(net.how().acknowledged);
  if (net.how().rdma) when = me.last_end = std::max(when, me.last_end);
  net.at(when, [self = shared_from_this(), end, op] {
    if (op->ended || self->is_cut || self->is_silent || !self->ends[end].ep) {
      self->ends[1 - end].owes_answer = true;
      return;
    }
    op->scatter();
    self->finish(end, op, 0);
  });
}

// An acknowledgement is on its way back.
void wire_connection::end_later(int end, const std::shared_ptr<operation>& op) {
  if (!op->queue || op->ended) return;
  wire_end& me = ends[end];
  nanoseconds when = net.now() + net.some(net.how().acknowledged);
  if (net.how().rdma) when = me.last_end = std::max(when, me.last_end);
  net.at(when, [self = shared_from_this(), end, op] {
    if (self->is_cut || self->is_silent)
      self->ends[1 - end].owes_answer = true;
    else
      self->finish(end, op, 0);
  });
}

void wire_connection::finish(int end, const std::shared_ptr<operation>& op, int error,
                             int provider_error) {
  if (op->ended) return;
  op->ended = true;
  std::erase(ends[end].reporting, op);
  const auto found = net.queues().find(op->queue);
  if (found == net.queues().end()) return;
  core_completions& q = *found->second;
  --q.under_way;
  const std::uint64_t flags = op->what == operation::kind::send ? FI_MSG | FI_SEND : FI_RMA;
  q.report({{op->context, flags, 0}, error, provider_error});
}

void wire_connection::fail_reporting(int end, int error) {
  for (const auto& op : std::vector(ends[end].reporting)) finish(end, op, error);
}

// verbs ends the connection of who asks for what it may not have, tcp resets it.
void wire_connection::refuse_access(int end, const std::shared_ptr<operation>& op) {
  finish(end, op, FI_EIO, remote_access_error);
  cut(false);
}

// Nobody is there any more.
void wire_connection::lose_closed(int closed) {
  if (!net.how().reset_by_late_data) return;
  ends[closed].sent.clear();
  hear_of_end(1 - closed);
}

// Over a stream a request that is lost is made again. libfabric's verbs does not tell it from one
// that was refused.
void wire_connection::cut(bool by_network) {
  if (is_cut) return;
  is_cut = true;
  is_lost = by_network;
  if (ends[0].at && ends[1].at) {
    const unsigned a = ends[0].at->number();
    const unsigned b = ends[1].at->number();
    if (!net.how().sessions || !by_network || (net.how().rdma && !ends[0].was_told) || a == b) {
      net.disturb(a, b);
      net.lose(a, b);
      net.lose(b, a);
    }
    net.note(ends[0].at->number(), ends[1].at->number(), [] { return "-- connection lost --"; });
  }
  // Within one machine nothing is late.
  lets_late_in =
      by_network && net.how().late_data && ends[0].at != ends[1].at && net.numbers().chance(500);
  const auto self = shared_from_this();
  // Where something comes late one end hears of the loss long after the other.
  const nanoseconds much =
      lets_late_in ? net.some(net.how().flight) * net.numbers().between(2, 100) : 0;
  const int slow = static_cast<int>(net.numbers().below(2));
  for (int end = 0; end < 2; ++end) {
    keep_what_has_left(end);
    const nanoseconds longer = end == slow ? much * 2 : 0;
    net.at(net.now() + net.some(net.how().notice) + longer, [self, end] {
      self->hear_of_end(end);
      self->fail_reporting(end, FI_ECONNRESET);
    });
  }
  if (!lets_late_in) return;
  late_from = net.now() + much;
  net.at(late_from, [self] {
    for (int end = 0; end < 2; ++end) self->arrive(end);
  });
}

bool wire_connection::has_link() const noexcept {
  if (ends[0].at == ends[1].at) return true;
  for (unsigned end = 0; end < 2; ++end) {
    if (ends[end].at && !net.is_plugged_in(ends[end].at->number(), interfaces[end])) return false;
  }
  return true;
}

// Of a handshake the last step counts. Within one machine there is no link, and the end of one that
// is closing goes another way than its data.
void wire_connection::lose_link() {
  if (is_cut || is_silent || !ends[0].was_told || ends[0].at == ends[1].at) return;
  if (!ends[0].ep || !ends[1].ep) return;
  if (net.numbers().chance(500)) return cut();
  is_silent = true;
  net.note(ends[0].at->number(), ends[1].at->number(), [] { return "-- silence --"; });
  // A kernel gives up in the end.
  if (!net.how().rdma) net.after(patience, [self = shared_from_this()] { self->cut(); });
}

bool wire_connection::carries_rma() const noexcept {
  return std::any_of(ends.begin(), ends.end(), [](const wire_end& end) {
    return std::any_of(end.sent.begin(), end.sent.end(), [](const auto& op) {
      return op->what == operation::kind::read || op->what == operation::kind::write;
    });
  });
}

void wire_connection::keep_what_has_left(int end) {
  wire_end& me = ends[end];
  if (lets_late_in && net.how().rdma && me.ep)
    for (const auto& op : me.sent) op->gather();
  const auto is_lost_now = [&](const auto& op) {
    return !lets_late_in || !op->departed || op->what == operation::kind::read;
  };
  std::erase_if(me.sent, is_lost_now);
}

void wire_connection::hear_of_end(int end) {
  wire_end& me = ends[end];
  if (!me.ep || !me.at->is_alive() || me.has_heard) return;
  if (end == 1 && !me.is_up) return;  // not accepted yet: then
  me.has_heard = true;
  auto& events = me.ep->events->entries;
  if (!ends[0].was_told && (end == 0 || net.how().rdma)) {
    const int error = is_lost && !net.how().rdma ? net.how().lost_request : FI_ECONNREFUSED;
    events.push_back({0, &me.ep->fid, nullptr, error, {}});
  } else {
    if (!me.was_told && !net.how().rdma)
      events.push_back({FI_CONNECTED, &me.ep->fid, nullptr, 0, {}});
    events.push_back({FI_SHUTDOWN, &me.ep->fid, nullptr, 0, {}});
  }
  // What it still sends is for nobody.
  net.after(net.how().notice,
            [self = shared_from_this(), end] { self->fail_reporting(end, FI_ECONNRESET); });
}

void wire_connection::close_end(int end) {
  wire_end& me = ends[end];
  me.ep = nullptr;
  const auto self = shared_from_this();
  for (const auto& op : me.reporting) op->parts = 0;
  net.after(net.how().acknowledged, [self, end] { self->fail_reporting(end, FI_ECANCELED); });
  if (!ends[1 - end].ep) std::erase(net.connections(), self);
  if (is_cut || !me.is_up) return;
  if (is_silent) return cut();
  drain(1 - end);  // for nobody any more
  // What needs this end's memory is lost, and what is sent behind that; the rest arrives, and then
  // the end.
  const auto is_lost = [](const auto& op) {
    return op->length != 0 && op->parts == 0 && op->data.empty();
  };
  const auto first = std::find_if(me.sent.begin(), me.sent.end(), [&](const auto& op) {
    return is_lost(op) && op->what != operation::kind::read;
  });
  me.sent.erase(first, me.sent.end());
  std::erase_if(me.sent, is_lost);
  auto last = std::make_shared<operation>();
  last->what = operation::kind::close;
  last->departed = true;
  me.sent.push_back(last);
  me.last_arrival = std::max(net.now() + net.some(net.how().flight), me.last_arrival);
  net.at(me.last_arrival, [self, end, last] {
    last->arrived = true;
    self->arrive(end);
  });
}

}  // namespace gaudi::sim
