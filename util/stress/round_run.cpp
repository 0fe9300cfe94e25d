// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "round_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "common/failure.hpp"
#include "common/patience.hpp"

namespace gaudi::stress {
namespace {

using common::failure;

constexpr std::uint64_t dice_of_worker = 100;  // and the worker's number

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
  is_finishing_ = true;
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
    // What is cancelled and posted again for ever is no progress.
    const std::uint64_t before = ended();
    step();
    poll_once();
    if (ended() != before) {
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
  for (const auto* some : {&operations_, &receives_})
    for (const ticket& t : *some)
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

void round_run::serve() {
  if (is_started_) step();
  poll_once();
}

}  // namespace gaudi::stress
