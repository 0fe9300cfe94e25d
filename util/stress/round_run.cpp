// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "round_run.hpp"

#include <fmt/format.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <map>

#include "common/failure.hpp"
#include "common/patience.hpp"

namespace gaudi::stress {
namespace {

using common::failure;

constexpr std::uint64_t dice_of_worker = 100;  // and the worker's number
constexpr std::size_t decoy_count = 2;
constexpr std::uint64_t cancel_one_in = 8;
constexpr std::uint64_t number_mask = (1U << 20U) - 1;

/// Shuffles the numbers, but leaves those of untagged messages of one pair of workers in order.
std::deque<std::size_t> arrange(const round_plan& plan, std::vector<std::size_t> numbers,
                                dice& random) {
  random.shuffle(numbers);
  std::map<std::pair<unsigned, unsigned>, std::vector<std::size_t>> positions;
  for (std::size_t at = 0; at < numbers.size(); ++at) {
    const planned& p = plan.operations[numbers[at]];
    if (is_untagged(p.op)) positions[{p.initiator, p.target}].push_back(at);
  }
  for (const auto& [pair, where] : positions) {
    std::vector<std::size_t> sorted;
    for (const std::size_t at : where) sorted.push_back(numbers[at]);
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t i = 0; i < where.size(); ++i) numbers[where[i]] = sorted[i];
  }
  return {numbers.begin(), numbers.end()};
}

bool is_loss_of_peer(int error) {
  return error == FI_ECONNRESET || error == FI_ECONNREFUSED || error == FI_ECONNABORTED ||
         error == FI_ETIMEDOUT;
}

bool is_loss_of_device(int error) {
  return error == FI_EIO || error == FI_ENODEV;
}

}  // namespace

round_run::round_run(station& own, const assignment& a)
    : own_(own),
      settings_(a.common),
      plan_(a.plan),
      workers_(a.workers),
      self_(a.self),
      loss_(a.loss),
      last_loss_(a.last_loss),
      dice_(a.plan.seed, a.plan.round, dice_of_worker + a.self),
      operations_(a.plan.operations.size()),
      receives_(a.plan.operations.size()) {
  std::vector<std::size_t> to_post;
  std::vector<std::size_t> to_receive;
  for (std::size_t number = 0; number < plan_.operations.size(); ++number) {
    const planned& p = plan_.operations[number];
    operations_[number].number = receives_[number].number = number;
    receives_[number].is_receive = true;
    if (p.initiator == self_) to_post.push_back(number);
    if (p.target == self_ && is_message(p.op)) to_receive.push_back(number);
  }
  to_post_ = arrange(plan_, std::move(to_post), dice_);
  to_receive_ = arrange(plan_, std::move(to_receive), dice_);
}

void round_run::prepare() {
  const auto sends = [](const planned& p) { return p.op != operation::read && p.size > 0; };
  const auto first = std::find_if(plan_.operations.begin(), plan_.operations.end(), sends);
  const bool corrupts = plan_.round == settings_.corrupt_round && first != plan_.operations.end() &&
                        first->initiator == self_;
  for (const memory_kind kind : kinds) {
    if (!own_.has(kind)) continue;
    image& bytes = images_.at(index_of(kind)).emplace(plan_, self_, kind);
    if (corrupts) bytes.corrupt(static_cast<std::size_t>(first - plan_.operations.begin()));
    own_.memory(kind).store(bytes.before());
  }
}

void round_run::start() {
  is_started_ = true;
  if (settings_.cancel) post_decoys();
  if (loss_.kind == fault_kind::close && loss_.victim == self_) {
    std::size_t left = dice_.below(to_post_.size() + to_receive_.size() + 1);
    return run_until([&] { return left-- == 0 || (to_post_.empty() && to_receive_.empty()); });
  }
  run_until([this] { return to_post_.empty() && to_receive_.empty() && open_ == 0; });
}

void round_run::wait_for_reset() {
  run_until([this] { return own_.memory(memory_kind::device).is_lost(); });
}

std::vector<std::size_t> round_run::failed() const {
  std::vector<std::size_t> numbers;
  for (const ticket& t : operations_)
    if (t.error != 0) numbers.push_back(t.number);
  return numbers;
}

void round_run::finish(const outcome& elsewhere) {
  elsewhere_ = elsewhere;
  const auto abandon = [this](ticket& t) {
    t.is_abandoned = true;
    if (t.now == state::posted) own_.ep().cancel(&t);
  };
  for (ticket& t : receives_)
    if (operation_of(t).target == self_ && (t.is_in_spare || is_uncertain(t.number))) abandon(t);
  for (ticket& t : decoys_) abandon(t);
  run_until([this] { return all_received(); });
}

bool round_run::all_received() const {
  const auto is_open = [](const ticket& t) { return t.now == state::posted; };
  if (!to_receive_.empty() || std::any_of(receives_.begin(), receives_.end(), is_open) ||
      std::any_of(decoys_.begin(), decoys_.end(), is_open))
    return false;
  for (std::size_t number = 0; number < plan_.operations.size(); ++number) {
    const planned& p = plan_.operations[number];
    if (p.op == operation::writedata && p.target == self_ && !is_uncertain(number) &&
        data_.count(number) == 0)
      return false;
  }
  return true;
}

template <class Predicate>
void round_run::run_until(Predicate done) {
  common::patience waited(settings_.timeout);
  while (!done()) {
    const bool posted = step();
    const bool polled = poll_once();
    if (posted || polled) {
      waited.reward();
      continue;
    }
    try {
      waited.spend("a round");
    } catch (const common::no_progress&) {
      throw failure(fmt::format("HANG: for {} s nothing has ended of: {}",
                                settings_.timeout.count(), pending()));
    }
  }
}

std::string round_run::pending() const {
  std::string text;
  std::size_t count = 0;
  const auto add = [&](const std::string& what) {
    if (++count <= 3) text += (text.empty() ? "" : "; ") + what;
  };
  for (const auto* tickets : {&operations_, &receives_})
    for (const ticket& t : *tickets)
      if (t.now == state::posted) add(name_of(t));
  for (const std::size_t number : to_post_) add("not taken yet: " + describe(plan_, number));
  for (const std::size_t number : to_receive_)
    add("not taken yet: the receive for " + describe(plan_, number));
  for (const ticket& t : decoys_)
    if (t.now == state::posted && t.is_abandoned) add("a receive that was cancelled");
  if (count == 0) return "remote data of writes that completed";
  return count > 3 ? fmt::format("{}; and {} more", text, count - 3) : text;
}

std::string round_run::name_of(const ticket& t) const {
  if (is_decoy(t)) return "a receive that nothing is for";
  return (t.is_receive ? "the receive for " : "") + describe(plan_, t.number);
}

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

void round_run::serve() {
  if (is_started_) step();
  poll_once();
}

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
    // Its sender may wait for a receive still.
    t.now = state::idle;
    t.is_in_spare = true;
    to_receive_.push_back(t.number);
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

bool round_run::is_uncertain(std::size_t number) const {
  return elsewhere_.lost.count(plan_.operations[number].initiator) != 0 ||
         elsewhere_.failed.count(number) != 0;
}

void round_run::verify() {
  if (!counted_.is_balanced())
    throw failure(fmt::format(
        "UNBALANCED: {} posted, but {} completed, {} cancelled, {} failed "
        "(round {})",
        counted_.posted, counted_.completed, counted_.cancelled, counted_.failed, plan_.round));
  for (const memory_kind kind : kinds) {
    auto& bytes = images_.at(index_of(kind));
    const bool lost =
        loss_.kind == fault_kind::reset && loss_.victim == self_ && kind == memory_kind::device;
    if (!bytes || lost) continue;
    expect_all(*bytes);
    compare(kind, *bytes);
  }
}

void round_run::expect_all(image& bytes) {
  for (std::size_t number = 0; number < plan_.operations.size(); ++number) {
    const planned& p = plan_.operations[number];
    if (p.initiator == self_) {
      if (operations_[number].error == 0) {
        bytes.expect_near(number);
      } else {
        if (p.op == operation::read) bytes.ignore(p.near);
        bytes.ignore(p.result);
      }
    }
    if (p.target != self_) continue;
    const ticket& received = receives_[number];
    if (is_message(p.op)) {
      if (received.error != 0)
        bytes.ignore(p.far);
      else if (is_tagged(p.op) && received.now == state::ended)
        bytes.expect_far(number, place_of(received));
    } else if (is_uncertain(number)) {
      bytes.ignore(p.far);
    } else {
      bytes.expect_far(number);
    }
  }
  assign_untagged(bytes);
}

// A peer's untagged messages come into its receives in the order in which those were posted, and
// posted again.
void round_run::assign_untagged(image& bytes) {
  std::map<unsigned, std::vector<const ticket*>> by_peer;
  std::map<unsigned, std::vector<std::size_t>> messages;
  for (const ticket& t : receives_) {
    const planned& p = operation_of(t);
    if (p.target != self_ || !is_untagged(p.op)) continue;
    messages[p.initiator].push_back(t.number);
    if (t.now == state::ended) by_peer[p.initiator].push_back(&t);
  }
  for (auto& [peer, tickets] : by_peer) {
    std::sort(tickets.begin(), tickets.end(),
              [](const ticket* a, const ticket* b) { return a->order < b->order; });
    for (std::size_t i = 0; i < tickets.size(); ++i) {
      if (tickets[i]->error != 0) continue;
      const std::size_t number = messages[peer][i];
      check_received(*tickets[i], number);
      bytes.expect_far(number, operation_of(*tickets[i]).far);
    }
  }
}

void round_run::compare(memory_kind kind, const image& bytes) {
  auto actual = own_.memory(kind).load(bytes.before().size());
  counted_.verified += actual.size();
  if (const auto wrong = bytes.find_difference(actual)) throw failure(*wrong);
}

}  // namespace gaudi::stress
