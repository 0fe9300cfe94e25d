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
  return elsewhere_.lost.count(work_.plan.operations[number].initiator) != 0 ||
         elsewhere_.failed.count(number) != 0;
}

void round_run::verify() {
  if (!counted_.is_balanced())
    throw failure(fmt::format(
        "UNBALANCED: {} posted, but {} completed, {} cancelled, {} unmatched, {} failed "
        "(round {})",
        counted_.posted, counted_.completed, counted_.cancelled, counted_.unmatched,
        counted_.failed, work_.plan.round));
  for (const memory_kind kind : kinds) {
    auto& bytes = images_.at(index_of(kind));
    const bool lost = work_.loss.kind == fault_kind::reset && work_.loss.victim == work_.self &&
                      kind == memory_kind::device;
    if (!bytes || lost) continue;
    expect_all(*bytes);
    compare(kind, *bytes);
  }
}

void round_run::expect_all(image& bytes) {
  for (std::size_t number = 0; number < work_.plan.operations.size(); ++number) {
    const planned& p = work_.plan.operations[number];
    if (p.initiator == work_.self) {
      if (operations_[number].error == 0) {
        bytes.expect_near(number);
      } else {
        if (p.op == operation::read) bytes.ignore(p.near);
        bytes.ignore(p.result);
      }
    }
    if (p.target != work_.self) continue;
    const ticket& received = receives_[number];
    if (is_message(p.op)) {
      if (received.error != 0)
        bytes.ignore(p.far);
      else if (is_tagged(p.op) && received.now == state::ended && !is_discarded(p.mode))
        bytes.expect_far(number, place_of(received));
    } else if (is_uncertain(number)) {
      bytes.ignore(p.far);
    } else {
      bytes.expect_far(number);
    }
  }
  assign_untagged(bytes);
  buffers_.expect(bytes);
}

// A peer's untagged messages come into its receives in the order in which those were posted, and
// posted again.
void round_run::assign_untagged(image& bytes) {
  std::map<unsigned, tickets> by_peer;
  std::map<unsigned, std::vector<std::size_t>> messages;
  for (const ticket& t : receives_) {
    const planned& p = operation_of(t);
    if (p.target != work_.self || !is_untagged(p.op) || p.mode == receive_mode::multi) continue;
    messages[p.initiator].push_back(t.number);
    if (t.now == state::ended) by_peer[p.initiator].push_back(&t);
  }
  for (auto& [peer, receives] : by_peer) {
    std::sort(receives.begin(), receives.end(),
              [](const ticket* a, const ticket* b) { return a->order < b->order; });
    if (rules_.loses_worker(peer))
      assign_any(receives, messages[peer], bytes);
    else
      assign_in_order(receives, messages[peer], bytes);
  }
}

void round_run::assign_in_order(const tickets& receives, const std::vector<std::size_t>& messages,
                                image& bytes) const {
  for (std::size_t i = 0; i < receives.size(); ++i) {
    if (receives[i]->error != 0) continue;
    require_received(work_.plan, messages[i], receives[i]->length, receives[i]->data);
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
  require_sent(work_.plan, messages, come, work_.loss.victim);
}

void round_run::compare(memory_kind kind, const image& bytes) {
  auto actual = own_.memory(kind).load(bytes.before().size());
  counted_.verified += actual.size();
  if (const auto wrong = bytes.find_difference(actual)) throw failure(*wrong);
}

}  // namespace gaudi::stress
