// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What memory has to hold after a round.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "common/failure.hpp"
#include "round_run.hpp"
#include "untagged.hpp"

namespace gaudi::stress {
namespace {

using common::failure;

}  // namespace

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
  std::map<unsigned, tickets> by_peer;
  std::map<unsigned, std::vector<std::size_t>> messages;
  for (const ticket& t : receives_) {
    const planned& p = operation_of(t);
    if (p.target != self_ || !is_untagged(p.op)) continue;
    messages[p.initiator].push_back(t.number);
    if (t.now == state::ended) by_peer[p.initiator].push_back(&t);
  }
  for (auto& [peer, receives] : by_peer) {
    std::sort(receives.begin(), receives.end(),
              [](const ticket* a, const ticket* b) { return a->order < b->order; });
    if (loses_worker() && peer == loss_.victim)
      assign_any(receives, messages[peer], bytes);
    else
      assign_in_order(receives, messages[peer], bytes);
  }
}

void round_run::assign_in_order(const tickets& receives, const std::vector<std::size_t>& messages,
                                image& bytes) const {
  for (std::size_t i = 0; i < receives.size(); ++i) {
    if (receives[i]->error != 0) continue;
    check_received(*receives[i], messages[i]);
    bytes.expect_far(messages[i], operation_of(*receives[i]).far);
  }
}

// Which of them have come shows only in their lengths, so their bytes may be those of another.
void round_run::assign_any(const tickets& receives, const std::vector<std::size_t>& messages,
                           image& bytes) const {
  std::vector<arrival> come;
  for (const ticket* t : receives) {
    if (t->error != 0) continue;
    come.push_back({.length = t->length, .data = t->data});
    bytes.ignore(operation_of(*t).far);
  }
  if (const auto unsent = find_unsent(plan_, messages, come))
    throw failure(
        fmt::format("WRONG DATA: {} bytes have come that worker {} did not send then (round {})",
                    come[*unsent].length, loss_.victim, plan_.round));
}

void round_run::compare(memory_kind kind, const image& bytes) {
  auto actual = own_.memory(kind).load(bytes.before().size());
  counted_.verified += actual.size();
  if (const auto wrong = bytes.find_difference(actual)) throw failure(*wrong);
}

}  // namespace gaudi::stress
