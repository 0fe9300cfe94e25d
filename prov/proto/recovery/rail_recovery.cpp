// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/recovery/rail_recovery.hpp"

#include <rdma/fi_errno.h>

#include <utility>

#include "proto/recovery/rma_operation.hpp"

namespace gaudi::proto {

bool rail_recovery::ended(posted_op& w, int error) {
  connection* const c = w.connection;
  if (c) {
    rail& r = c->at_core.rails->rails[w.rail - 1U];
    if (w.what == posted_op::kind::fence) {
      fence_ended(*c, r, static_cast<fence_op&>(w), error);
      return true;
    }
    parts_.scheduler.ended(*c, w.rail - 1U, length_of(w), error);
    if (w.rail > 1) {
      parts_.transport.unlist(r, w);
      if (error == 0 || !keeps(*c, r, w)) parts_.mover.rma_ended(w, error);
      return true;
    }
  }
  w.rail = 0;
  return false;
}

// A rail that gives back what it had is lost. What was written may still come to the peer, also of
// a transfer that has failed: the peer hears of that when it has closed its end.
bool rail_recovery::keeps(connection& c, rail& r, posted_op& w) {
  parts_.scheduler.fail(c, r);
  parts_.scheduler.look_at(c);
  const transfer* const t = transfer_of(w);
  if (!t || (t->ending.begun && t->strategy != transfer_strategy::push)) return false;
  r.undone.push_back(w);
  return true;
}

void rail_recovery::fence_ended(connection& c, rail& r, fence_op& w, int error) {
  parts_.transport.unlist(r, w);
  ++r.load.ended;
  if (error == 0 || !w.owner) return parts_.mover.rma_ended(w, 0);
  r.fences.push_back(w);
  parts_.scheduler.fail(c, r);
  parts_.scheduler.look_at(c);
}

// On a rail that is closed at both ends nothing is on its way any more.
void rail_recovery::go_on_with_fences(connection& c) {
  for (rail& r : c.at_core.rails->rails) {
    parts_.fences.post_waiting(c, r);
    const bool is_closed =
        r.now == rail::state::down || (r.now == rail::state::lost && r.peer_has_closed);
    while (is_closed && !r.fences.empty()) {
      posted_op& w = r.fences.front();
      r.fences.pop_front();
      parts_.mover.rma_ended(w, 0);
    }
  }
}

void rail_recovery::progress() {
  bool any_connecting = false;
  for (const std::uint32_t id : parts_.scheduler.take_to_look_at()) {
    connection* const c = parts_.connections.find(id);
    if (!c || !c->at_core.rails) continue;
    c->at_core.rails->is_listed = false;
    parts_.connections.on_behalf_of(c, [&] {
      const bool is_connecting = parts_.connector.progress(*c);
      any_connecting = any_connecting || is_connecting;
      if (!redo_lost(*c) || is_connecting) parts_.scheduler.look_at(*c);
      go_on_with_fences(*c);
    });
  }
  if (any_connecting) parts_.connections.poll_now();
}

// False: there was no room for some.
bool rail_recovery::redo_lost(connection& c) {
  bool all = true;
  for (rail& r : c.at_core.rails->rails) {
    if (r.now == rail::state::lost && r.posted.empty()) all = redo(c, r) && all;
  }
  return all;
}

// False: there was no room for some.
bool rail_recovery::redo(connection& c, rail& r) {
  posted_op_list writes;
  int ret = 0;
  while (!r.undone.empty() && ret != -FI_EAGAIN) {
    posted_op& w = r.undone.front();
    r.undone.pop_front();
    const transfer& t = *transfer_of(w);
    if (t.strategy == transfer_strategy::push && !r.peer_has_closed) {
      writes.push_back(w);
      continue;
    }
    ret = post_elsewhere(w);
    if (ret == 0) ++parts_.paths.again.rma;
    if (ret == -FI_EAGAIN) {
      r.undone.push_front(w);
    } else if (ret) {
      parts_.mover.rma_ended(w, -ret);
    }
  }
  r.undone.splice(r.undone.begin(), writes);
  if (r.undone.empty() && r.peer_has_closed) parts_.connector.is_down(c, r);
  return ret != -FI_EAGAIN;
}

int rail_recovery::post_elsewhere(posted_op& w) {
  w.rail = 0;
  return transfer_of(w)->ending.begun ? -FI_ECONNRESET : parts_.mover.post_elsewhere(w);
}

void rail_recovery::connection_down(connection& c, int error) {
  parts_.connector.connection_down(c);
  if (!c.at_core.rails) return;
  for (rail& r : c.at_core.rails->rails) {
    parts_.mover.give_up(r.undone, error);
    parts_.fences.give_up(r);
  }
}

}  // namespace gaudi::proto
