// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Messages that a peek finds before they are received or discarded.
#include <rdma/fi_errno.h>

#include "common/failure.hpp"
#include "round_run.hpp"

namespace gaudi::stress {
namespace {

using common::failure;

std::uint64_t first_flags(receive_mode mode) {
  if (is_claimed(mode)) return FI_PEEK | FI_CLAIM;
  return mode == receive_mode::discard ? FI_PEEK | FI_DISCARD : FI_PEEK;
}

}  // namespace

// Once a message is claimed or discarded there is a second peek, which has to find nothing.
bool round_run::peek_next() {
  if (to_find_.empty()) return false;
  ticket& t = receives_[to_find_.front()];
  const planned& p = operation_of(t);
  if (t.is_abandoned && !t.is_found) {
    to_find_.pop_front();
    return true;
  }
  const request r{.op = p.op, .size = 0, .near = local(p.far), .id = id_of(t.number)};
  const std::uint64_t flags = t.is_found ? FI_PEEK : first_flags(p.mode);
  const long ret = own_.ep().receive(r, p.initiator, flags, &t);
  if (ret == -FI_EAGAIN) return false;
  common::require(ret, "fi_trecvmsg with FI_PEEK");
  to_find_.pop_front();
  ++counted_.posted;
  t.now = state::sought;
  return true;
}

void round_run::end_peek(ticket& t, const completion& c) {
  t.now = state::idle;
  if (c.error == FI_ENOMSG) {
    ++counted_.unmatched;
    if (t.is_found) return take_found(t);
    to_find_.push_back(t.number);
    return;
  }
  const std::string name = "the peek for " + describe(work_.plan, t.number);
  if (c.error != 0) rules_.refuse(c.error, name);
  if (t.is_found) throw failure("UNBALANCED: found again: " + name_of(t));
  ++counted_.completed;
  require_received(work_.plan, t.number, c.length, c.data);
  if (c.tag != id_of(t.number)) throw failure("WRONG DATA: another tag is told by " + name);
  t.is_found = true;
  t.length = c.length;
  t.data = c.data;
  if (operation_of(t).mode == receive_mode::peek) return take_found(t);
  to_find_.push_back(t.number);
}

void round_run::take_found(ticket& t) {
  if (operation_of(t).mode != receive_mode::discard) {
    to_receive_.push_back(t.number);
    return;
  }
  t.now = state::ended;
  end_received(t);
}

}  // namespace gaudi::stress
