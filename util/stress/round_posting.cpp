// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What a round posts: operations, receives, receives that nothing is for; and what it cancels.
#include <rdma/fi_errno.h>

#include "common/failure.hpp"
#include "round_run.hpp"

namespace gaudi::stress {
namespace {

constexpr std::size_t decoy_count = 2;
constexpr std::uint64_t cancel_one_in = 8;

}  // namespace

// A send that has no room waits for nobody's receives: those go on being posted.
bool round_run::step() {
  if (settings_.cancel && dice_.one_in(cancel_one_in)) cancel_some();
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
  const planned& p = plan_.operations[number];
  request r{.op = p.op, .size = p.size, .near = local(p.near), .id = id_of(number)};
  if (is_message(p.op)) return r;
  if (p.result.size > 0) r.result = local(p.result);
  if (p.compared.size > 0) r.compared = local(p.compared);
  const remote_memory base = workers_[p.target].memory.at(index_of(p.far.memory));
  r.far = {base.address + p.far.offset, base.key};
  return r;
}

bool round_run::post_next() {
  if (to_post_.empty()) return false;
  ticket& t = operations_[to_post_.front()];
  const planned& p = operation_of(t);
  const long ret = own_.ep().post(request_for(t.number), p.target, &t);
  if (ret == -FI_EAGAIN) return false;
  to_post_.pop_front();
  ++counted_.posted;
  ++open_;
  t.now = state::posted;
  if (ret != 0)
    fail(t, static_cast<int>(-ret));
  else if (!endpoint::completes(p.op))
    end(t, {});
  return true;
}

bool round_run::receive_next() {
  if (to_receive_.empty()) return false;
  ticket& t = receives_[to_receive_.front()];
  const planned& p = operation_of(t);
  if (t.is_abandoned) {
    to_receive_.pop_front();
    return true;
  }
  const request r{
      .op = p.op, .size = place_of(t).size, .near = local(place_of(t)), .id = id_of(t.number)};
  const long ret = own_.ep().receive(r, p.initiator, &t);
  if (ret == -FI_EAGAIN) return false;
  to_receive_.pop_front();
  ++counted_.posted;
  t.order = ++order_;
  t.now = state::posted;
  if (ret != 0) fail(t, static_cast<int>(-ret));
  return true;
}

// Tagged receives that no message is for, so they have to end as cancelled.
void round_run::post_decoys() {
  const place at = shared_sums(memory_kind::host);  // nothing is to come there
  for (std::size_t i = 0; i < decoy_count; ++i) {
    ticket& t = decoys_.emplace_back();
    t.number = plan_.operations.size() + i;
    t.is_receive = true;
    const unsigned from = (self_ + 1) % static_cast<unsigned>(workers_.size());
    const request r{
        .op = operation::tsend, .size = at.size, .near = local(at), .id = id_of(t.number)};
    const long ret = own_.ep().receive(r, from, &t);
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
