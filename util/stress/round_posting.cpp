// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What a round posts: operations, receives, receives that nothing is for; and what it cancels.
#include <rdma/fi_errno.h>

#include "common/failure.hpp"
#include "round_run.hpp"

namespace gaudi::stress {
namespace {

constexpr std::size_t decoy_count = 2;
constexpr std::uint64_t cancel_one_in = 8;
constexpr std::uint64_t peek_one_in = 4;

}  // namespace

// A send that has no room waits for nobody's receives: those go on being posted.
bool round_run::step() {
  if (work_.common.cancel && dice_.one_in(cancel_one_in)) cancel_some();
  if (buffers_.post_next(counted_, work_.common.cancel, dice_)) return true;
  if (dice_.one_in(peek_one_in) && peek_next()) return true;
  return dice_.one_in(2) ? post_next() || receive_next() : receive_next() || post_next();
}

const place& round_run::place_of(const ticket& t) const {
  const planned& p = operation_of(t);
  return t.is_in_spare ? p.spare : p.far;
}

local_memory round_run::local(const place& at) {
  return own_.memory(at.memory).local(at);
}

request round_run::request_for(std::size_t number) {
  const planned& p = work_.plan.operations[number];
  request r{.op = p.op, .size = p.size, .near = local(p.near), .id = id_of(number)};
  if (is_message(p.op)) return r;
  if (p.result.size > 0) r.result = local(p.result);
  if (p.compared.size > 0) r.compared = local(p.compared);
  const remote_memory base = work_.workers[p.target].memory.at(index_of(p.far.memory));
  r.far = {base.address + p.far.offset, base.key};
  r.ranges = ranges_for(number);
  return r;
}

// As many as its number says.
std::size_t round_run::ranges_for(std::size_t number) const {
  const planned& p = work_.plan.operations[number];
  if (!work_.common.ranges || is_atomic(p.op)) return 1;
  const std::size_t most = std::min(own_.ep().info().tx_attr->rma_iov_limit, p.size);
  return most == 0 ? 1 : 1 + number % most;
}

bool round_run::post_next() {
  if (to_post_.empty()) return false;
  ticket& t = operations_[to_post_.front()];
  const planned& p = operation_of(t);
  const request what = request_for(t.number);
  const long ret = own_.ep().post(what, p.target, &t);
  if (ret == -FI_EAGAIN) return false;
  to_post_.pop_front();
  ++counted_.posted;
  if (what.ranges > 1) ++counted_.ranged;
  ++open_;
  t.now = state::posted;
  if (ret != 0) {
    fail(t, static_cast<int>(-ret));
  } else if (!endpoint::completes(p.op)) {
    books_.add_injected();
    end(t, {});
  }
  return true;
}

bool round_run::receive_next() {
  if (to_receive_.empty()) return false;
  ticket& t = receives_[to_receive_.front()];
  const planned& p = operation_of(t);
  // What is claimed nobody else can have: it is received whatever became of its sender.
  if (t.is_abandoned && !is_claimed(p.mode)) {
    to_receive_.pop_front();
    return true;
  }
  const request r{
      .op = p.op, .size = place_of(t).size, .near = local(place_of(t)), .id = id_of(t.number)};
  std::uint64_t flags = is_claimed(p.mode) ? FI_CLAIM : 0;
  if (p.mode == receive_mode::claim_discard) flags |= FI_DISCARD;
  const long ret = own_.ep().receive(r, p.initiator, flags, &t);
  if (ret == -FI_EAGAIN) return false;
  to_receive_.pop_front();
  t.order = ++counted_.posted;
  t.now = state::posted;
  if (ret != 0) fail(t, static_cast<int>(-ret));
  return true;
}

// Tagged receives that no message is for, so they have to end as cancelled.
void round_run::post_decoys() {
  const place at = shared_sums(memory_kind::host);  // nothing is to come there
  for (std::size_t i = 0; i < decoy_count; ++i) {
    ticket& t = decoys_.emplace_back();
    t.number = work_.plan.operations.size() + i;
    t.kind = ticket::purpose::decoy;
    const unsigned from = (work_.self + 1) % static_cast<unsigned>(work_.workers.size());
    const request r{
        .op = operation::tsend, .size = at.size, .near = local(at), .id = id_of(t.number)};
    const long ret = own_.ep().receive(r, from, 0, &t);
    if (ret == -FI_EAGAIN) {
      decoys_.pop_back();
      return;
    }
    common::require(ret, "fi_trecv");
    ++counted_.posted;
    t.now = state::posted;
  }
}

// A message may come for it at the same moment: either it ends as cancelled and is posted again, or
// as if nothing had happened.
void round_run::cancel_some() {
  if (receives_.empty()) return;
  ticket& t = receives_[dice_.below(receives_.size())];
  if (t.now == state::posted) own_.ep().cancel(&t);
}

}  // namespace gaudi::stress
