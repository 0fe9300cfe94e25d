// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What ends in a round, and whether it may end so.
#include <fmt/format.h>
#include <rdma/fi_errno.h>

#include "common/failure.hpp"
#include "round_run.hpp"

namespace gaudi::stress {
namespace {

using common::failure;

constexpr std::uint64_t number_mask = (1U << 20U) - 1;

}  // namespace

bool round_run::poll_once() {
  const auto c = own_.ep().poll();
  if (!c) return false;
  if ((c->flags & FI_REMOTE_WRITE) != 0) {
    take_remote_data(*c);
  } else if (c->context == nullptr) {
    rules_.require_injected(c->error);
  } else {
    auto& t = *static_cast<ticket*>(c->context);
    if (t.kind == ticket::purpose::buffer)
      buffers_.take(t, *c, counted_, moved_, books_);
    else if (t.now == state::sought)
      end_peek(t, *c);
    else
      end_told(t, *c);
  }
  return true;
}

void round_run::end_told(ticket& t, const completion& c) {
  books_.add(is_receive(t) ? counted_kind::receive : counter_books::kind_of(operation_of(t).op),
             c.error == 0);
  if (c.error != 0)
    fail(t, c.error);
  else
    end(t, c);
}

// That of a write which failed with a loss may be late.
void round_run::take_remote_data(const completion& c) {
  const std::uint64_t round = c.data >> 20U;
  const std::size_t number = c.data & number_mask;
  if (round != work_.plan.round && round <= work_.last_loss && round != 0) return;
  const bool right = round == work_.plan.round && number < work_.plan.operations.size() &&
                     work_.plan.operations[number].op == operation::writedata &&
                     work_.plan.operations[number].target == work_.self;
  if (!right) throw failure(fmt::format("WRONG DATA: {:#x} as remote data of a write", c.data));
  if (!data_.insert(number).second)
    throw failure("UNBALANCED: remote data has come twice of " + describe(work_.plan, number));
  ++moved_.from[work_.plan.operations[number].initiator];
}

void round_run::end(ticket& t, const completion& c) {
  if (t.now != state::posted) throw failure("UNBALANCED: ended twice: " + name_of(t));
  if (is_decoy(t)) throw failure("UNBALANCED: a receive that no message is for has got one");
  const planned& p = operation_of(t);
  t.now = state::ended;
  t.length = c.length;
  t.data = c.data;
  ++counted_.completed;
  if (is_receive(t)) return end_received(t);
  --open_;
  ++counted_.operations;
  counted_.bytes += p.size;
  if (is_message(p.op) || p.op == operation::writedata) ++moved_.to[p.target];
}

void round_run::end_received(const ticket& t) {
  const planned& p = operation_of(t);
  if (is_tagged(p.op)) require_received(work_.plan, t.number, t.length, t.data);
  ++moved_.from[p.initiator];
  if (!t.is_found) return;
  if (p.mode == receive_mode::peek) ++counted_.peeked;
  if (p.mode == receive_mode::claim) ++counted_.claimed;
  if (is_discarded(p.mode)) ++counted_.discarded;
}

void round_run::fail(ticket& t, int error) {
  if (t.now != state::posted) throw failure("UNBALANCED: ended twice: " + name_of(t));
  if (is_receive(t) && error == FI_ECANCELED) {
    ++counted_.cancelled;
    t.now = state::idle;
    if (!t.is_abandoned) to_receive_.push_back(t.number);
    return;
  }
  require_told(t, error);
  ++counted_.failed;
  const bool has_spare = is_receive(t) && operation_of(t).spare.size > 0 && !t.is_in_spare;
  if (has_spare) {
    // Its sender may wait for a receive still, unless all sends have ended.
    t.now = state::idle;
    t.is_in_spare = true;
    t.is_abandoned = phase_ == phase::finishing;
    if (!t.is_abandoned) to_receive_.push_back(t.number);
    return;
  }
  t.now = state::ended;
  t.error = error;
  if (!is_receive(t)) --open_;
}

void round_run::require_told(const ticket& t, int error) const {
  if (is_decoy(t))
    rules_.refuse(error, name_of(t));
  else if (is_receive(t))
    rules_.require_receive(t.number, error, name_of(t));
  else
    rules_.require_operation(t.number, error, name_of(t));
}

}  // namespace gaudi::stress
