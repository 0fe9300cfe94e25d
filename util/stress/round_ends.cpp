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

bool is_loss_of_peer(int error) {
  return error == FI_ECONNRESET || error == FI_ECONNREFUSED || error == FI_ECONNABORTED ||
         error == FI_ETIMEDOUT;
}

bool is_loss_of_device(int error) {
  return error == FI_EIO || error == FI_ENODEV;
}

}  // namespace

bool round_run::poll_once() {
  const auto c = own_.ep().poll();
  if (!c) return false;
  if ((c->flags & FI_REMOTE_WRITE) != 0) {
    take_remote_data(*c);
  } else if (c->context == nullptr) {
    fail_injected(c->error);
  } else {
    auto& t = *static_cast<ticket*>(c->context);
    if (c->error != 0)
      fail(t, c->error);
    else
      end(t, *c);
  }
  return true;
}

// What was injected has an end of its own only where it could not be sent, and that does not say
// which one it is.
void round_run::fail_injected(int error) const {
  if (loses_worker() && is_loss_of_peer(error)) return;
  throw failure(fmt::format("ERROR: {}, of what was injected or of nothing (round {})",
                            fi_strerror(error), plan_.round));
}

// That of a write which failed with a loss may be late.
void round_run::take_remote_data(const completion& c) {
  const std::uint64_t round = c.data >> 20U;
  const std::size_t number = c.data & number_mask;
  if (round != plan_.round && round <= last_loss_ && round != 0) return;
  const bool right = round == plan_.round && number < plan_.operations.size() &&
                     plan_.operations[number].op == operation::writedata &&
                     plan_.operations[number].target == self_;
  if (!right) throw failure(fmt::format("WRONG DATA: {:#x} as remote data of a write", c.data));
  if (!data_.insert(number).second)
    throw failure("UNBALANCED: remote data has come twice of " + describe(plan_, number));
  ++moved_.from[plan_.operations[number].initiator];
}

void round_run::end(ticket& t, const completion& c) {
  if (t.now != state::posted) throw failure("UNBALANCED: ended twice: " + name_of(t));
  if (is_decoy(t)) throw failure("UNBALANCED: a receive that no message is for has got one");
  const planned& p = operation_of(t);
  t.now = state::ended;
  t.length = c.length;
  t.data = c.data;
  ++counted_.completed;
  if (t.is_receive) {
    if (is_tagged(p.op)) check_received(t, t.number);
    ++moved_.from[p.initiator];
    return;
  }
  --open_;
  ++counted_.operations;
  counted_.bytes += p.size;
  if (is_message(p.op) || p.op == operation::writedata) ++moved_.to[p.target];
}

void round_run::fail(ticket& t, int error) {
  if (t.now != state::posted) throw failure("UNBALANCED: ended twice: " + name_of(t));
  if (t.is_receive && error == FI_ECANCELED) {
    ++counted_.cancelled;
    t.now = state::idle;
    if (!t.is_abandoned) to_receive_.push_back(t.number);
    return;
  }
  require_told(t, error);
  ++counted_.failed;
  const bool has_spare = t.is_receive && operation_of(t).spare.size > 0 && !t.is_in_spare;
  if (has_spare) {
    // Its sender may wait for a receive still, unless all sends have ended.
    t.now = state::idle;
    t.is_in_spare = true;
    t.is_abandoned = is_finishing_;
    if (!t.is_abandoned) to_receive_.push_back(t.number);
    return;
  }
  t.now = state::ended;
  t.error = error;
  if (!t.is_receive) --open_;
}

void round_run::require_told(const ticket& t, int error) const {
  if (!is_decoy(t) && may_fail(operation_of(t), t, error)) return;
  throw failure(
      fmt::format("ERROR: {}, of {}{}", fi_strerror(error), name_of(t),
                  loss_.kind == fault_kind::none
                      ? ""
                      : fmt::format(" after a {} of worker {}",
                                    nlohmann::json(loss_.kind).get<std::string>(), loss_.victim)));
}

// Only what has to do with a loss may fail, and only with the codes for it.
bool round_run::may_fail(const planned& p, const ticket& t, int error) const {
  const unsigned peer = t.is_receive ? p.initiator : p.target;
  switch (loss_.kind) {
    case fault_kind::kill:
    case fault_kind::close:
      return peer == loss_.victim && is_loss_of_peer(error);
    case fault_kind::reset:
      return is_on_lost_device(p) && is_loss_of_device(error);
    default:
      return false;
  }
}

bool round_run::loses_worker() const {
  return loss_.kind == fault_kind::kill || loss_.kind == fault_kind::close;
}

bool round_run::is_on_lost_device(const planned& p) const {
  return (p.initiator == loss_.victim && p.near.memory == memory_kind::device) ||
         (p.target == loss_.victim && p.far.memory == memory_kind::device);
}

void round_run::check_received(const ticket& t, std::size_t number) const {
  const planned& p = plan_.operations[number];
  if (t.length != p.size)
    throw failure(
        fmt::format("WRONG DATA: {} bytes have come for {}", t.length, describe(plan_, number)));
  if (has_data(p.op) && t.data != id_of(number))
    throw failure(
        fmt::format("WRONG DATA: {:#x} as remote data of {}", t.data, describe(plan_, number)));
}

}  // namespace gaudi::stress
