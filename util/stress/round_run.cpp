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
      work_(a),
      rules_(a.plan, a.loss),
      dice_(a.plan.seed, a.plan.round, dice_of_worker + a.self),
      operations_(a.plan.operations.size()),
      receives_(a.plan.operations.size()),
      buffers_(own, a.plan, a.self, rules_),
      books_(own.ep().read_counters()) {
  std::vector<std::size_t> to_post;
  std::vector<std::size_t> to_receive;
  for (std::size_t number = 0; number < work_.plan.operations.size(); ++number) {
    const planned& p = work_.plan.operations[number];
    operations_[number].number = receives_[number].number = number;
    operations_[number].kind = ticket::purpose::operation;
    if (p.initiator == work_.self) to_post.push_back(number);
    if (p.target != work_.self || !is_message(p.op)) continue;
    if (is_peeked(p.mode))
      to_find_.push_back(number);
    else if (p.mode == receive_mode::plain)
      to_receive.push_back(number);
  }
  to_post_ = arrange(work_.plan, std::move(to_post), dice_);
  to_receive_ = arrange(work_.plan, std::move(to_receive), dice_);
}

void round_run::prepare() {
  const auto sends = [](const planned& p) {
    return p.op != operation::read && p.size > 0 && !is_discarded(p.mode);
  };
  const auto first =
      std::find_if(work_.plan.operations.begin(), work_.plan.operations.end(), sends);
  const bool corrupts = work_.plan.round == work_.common.corrupt_round &&
                        first != work_.plan.operations.end() && first->initiator == work_.self;
  for (const memory_kind kind : kinds) {
    if (!own_.has(kind)) continue;
    image& bytes = images_.at(index_of(kind)).emplace(work_.plan, work_.self, kind);
    if (corrupts) bytes.corrupt(static_cast<std::size_t>(first - work_.plan.operations.begin()));
    own_.memory(kind).store(bytes.before());
  }
  buffers_.prepare();
}

void round_run::start() {
  phase_ = phase::started;
  if (work_.common.cancel) post_decoys();
  if (work_.loss.kind == fault_kind::close && work_.loss.victim == work_.self) {
    std::size_t left = dice_.below(to_post_.size() + to_receive_.size() + 1);
    return run_until([&] { return left-- == 0 || (to_post_.empty() && to_receive_.empty()); });
  }
  run_until([this] {
    return to_post_.empty() && to_receive_.empty() && buffers_.is_posted() && open_ == 0;
  });
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
  phase_ = phase::finishing;
  const auto abandon = [this](ticket& t) {
    t.is_abandoned = true;
    if (t.now == state::posted) own_.ep().cancel(&t);
  };
  for (ticket& t : receives_)
    if (operation_of(t).target == work_.self && (t.is_in_spare || is_uncertain(t.number)))
      abandon(t);
  for (ticket& t : decoys_) abandon(t);
  run_until([this] {
    buffers_.cancel_done([this](std::size_t number) { return is_uncertain(number); });
    return all_received();
  });
  if (work_.common.counters) run_until([this] { return are_counters_balanced(); });
}

// A counter may be late, but it must not count what has not ended.
bool round_run::are_counters_balanced() {
  const counter_values now = own_.ep().read_counters();
  const auto found = books_.compare(now, rules_.has_loss());
  if (found == counter_books::verdict::wrong)
    throw failure(fmt::format("UNBALANCED: {} (round {})",
                              books_.find_imbalance(now, rules_.has_loss()).value_or(""),
                              work_.plan.round));
  if (found == counter_books::verdict::balanced) counted_.counted = books_.total();
  return found == counter_books::verdict::balanced;
}

bool round_run::all_received() const {
  const auto is_open = [](const ticket& t) {
    return t.now == state::posted || t.now == state::sought;
  };
  if (!to_receive_.empty() || !to_find_.empty() || !buffers_.are_released() ||
      std::any_of(receives_.begin(), receives_.end(), is_open) ||
      std::any_of(decoys_.begin(), decoys_.end(), is_open))
    return false;
  for (std::size_t number = 0; number < work_.plan.operations.size(); ++number) {
    const planned& p = work_.plan.operations[number];
    if (p.op == operation::writedata && p.target == work_.self && !is_uncertain(number) &&
        data_.count(number) == 0)
      return false;
  }
  return true;
}

template <class Predicate>
void round_run::run_until(Predicate done) {
  common::patience waited(work_.common.timeout);
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
                                work_.common.timeout.count(), pending()));
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
  for (const std::size_t number : to_post_) add("not taken yet: " + describe(work_.plan, number));
  for (const std::size_t number : to_receive_)
    add("not taken yet: the receive for " + describe(work_.plan, number));
  for (const std::size_t number : to_find_)
    add("not found by a peek: " + describe(work_.plan, number));
  for (const ticket& t : decoys_)
    if (t.now == state::posted && t.is_abandoned) add("a receive that was cancelled");
  if (const std::string buffers = buffers_.pending(); !buffers.empty()) add(buffers);
  if (count == 0 && work_.common.counters)
    if (const auto wrong = books_.find_imbalance(own_.ep().read_counters(), rules_.has_loss()))
      return *wrong;
  if (count == 0) return "remote data of writes that completed";
  return count > 3 ? fmt::format("{}; and {} more", text, count - 3) : text;
}

std::string round_run::name_of(const ticket& t) const {
  if (is_decoy(t)) return "a receive that nothing is for";
  return (is_receive(t) ? "the receive for " : "") + describe(work_.plan, t.number);
}

void round_run::serve() {
  if (phase_ != phase::preparing) step();
  poll_once();
}

}  // namespace gaudi::stress
