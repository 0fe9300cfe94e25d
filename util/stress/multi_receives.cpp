// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "multi_receives.hpp"

#include <fmt/format.h>
#include <rdma/fi_errno.h>

#include <algorithm>

#include "common/failure.hpp"
#include "untagged.hpp"

namespace gaudi::stress {
namespace {

using common::failure;

}  // namespace

multi_receives::multi_receives(station& own, const round_plan& plan, unsigned self,
                               const loss_rules& rules)
    : own_(own), plan_(plan), rules_(rules) {
  for (std::size_t number = 0; number < plan.operations.size(); ++number) {
    const planned& p = plan.operations[number];
    if (p.target != self || p.mode != receive_mode::multi) continue;
    sender& from = senders_[p.initiator];
    from.messages.push_back(number);
    from.all = p.far;
  }
  for (const auto& [peer, from] : senders_) {
    for (const place& at : multi_buffers(from.all)) {
      buffer& b = buffers_.emplace_back();
      b.own.number = buffers_.size() - 1;
      b.own.kind = ticket::purpose::buffer;
      b.peer = peer;
      b.at = at;
    }
    buffers_.back().is_last = true;
  }
}

void multi_receives::prepare() {
  if (!buffers_.empty()) own_.ep().set_min_multi_receive(min_multi_receive(plan_.operations));
}

bool multi_receives::post_next(counts& counted, bool cancels, dice& random) {
  if (is_posted()) return false;
  buffer& b = buffers_[next_];
  const request r{
      .op = operation::send, .size = b.at.size, .near = own_.memory(b.at.memory).local(b.at)};
  const long ret = own_.ep().receive(r, b.peer, FI_MULTI_RECV, &b.own);
  if (ret == -FI_EAGAIN) return false;
  common::require(ret, "fi_recvmsg with FI_MULTI_RECV");
  ++next_;
  ++counted.posted;
  b.own.now = ticket::state::posted;
  b.is_to_be_cancelled = cancels && !b.is_last && random.one_in(2);
  return true;
}

void multi_receives::take(const ticket& t, const completion& c, counts& counted, traffic& moved,
                          counter_books& books) {
  buffer& b = buffers_.at(t.number);
  const std::string name = fmt::format("a buffer for messages from worker {}", b.peer);
  if (b.own.now != ticket::state::posted) throw failure("UNBALANCED: ended twice: " + name);
  books.add(counted_kind::receive, c.error == 0);
  if (c.error == FI_ECANCELED) {
    if (!b.own.is_abandoned) rules_.refuse(c.error, name);
    return release(b, true, counted);
  }
  sender& from = senders_.at(b.peer);
  ++from.ended;
  ++arrived_;
  if (c.error != 0) {
    rules_.require_receive(from.messages.front(), c.error, name);
  } else {
    const auto* base = static_cast<const std::byte*>(own_.memory(b.at.memory).local(b.at).address);
    b.come.push_back({.offset = static_cast<std::size_t>(static_cast<std::byte*>(c.buffer) - base),
                      .message = {.length = c.length, .data = c.data}});
    ++moved.from[b.peer];
    ++counted.multi;
  }
  if ((c.flags & FI_MULTI_RECV) != 0) return release(b, false, counted);
  if (b.is_to_be_cancelled) cancel(b);
}

void multi_receives::release(buffer& b, bool cancelled, counts& counted) {
  b.own.now = ticket::state::ended;
  ++(cancelled ? counted.cancelled : counted.completed);
}

void multi_receives::cancel(buffer& b) {
  if (b.own.is_abandoned || b.own.now != ticket::state::posted) return;
  b.own.is_abandoned = true;
  own_.ep().cancel(&b.own);
}

void multi_receives::cancel_done(const std::function<bool(std::size_t number)>& is_uncertain) {
  for (buffer& b : buffers_) {
    const sender& from = senders_.at(b.peer);
    if (from.ended >= from.messages.size() || is_uncertain(from.messages.front())) cancel(b);
  }
}

bool multi_receives::are_released() const {
  return std::all_of(buffers_.begin(), buffers_.end(),
                     [](const buffer& b) { return b.own.now == ticket::state::ended; });
}

std::vector<placed_message> multi_receives::messages_from(unsigned peer) const {
  std::vector<placed_message> all;
  for (const buffer& b : buffers_) {
    if (b.peer != peer) continue;
    auto come = b.come;
    if (!order_by_place(come, b.at.size))
      throw failure(
          fmt::format("WRONG DATA: messages from worker {} overlap, or leave their buffer "
                      "(round {})",
                      peer, plan_.round));
    for (placed_message& m : come) {
      m.offset += b.at.offset;
      all.push_back(m);
    }
  }
  return all;
}

void multi_receives::expect(image& bytes) const {
  for (const auto& [peer, from] : senders_) {
    const auto come = messages_from(peer);
    if (rules_.loses_worker(peer)) {
      std::vector<arrival> messages;
      messages.reserve(come.size());
      for (const placed_message& m : come) messages.push_back(m.message);
      require_sent(plan_, from.messages, messages, peer);
      bytes.ignore(from.all);
      continue;
    }
    if (come.size() != from.messages.size())
      throw failure(fmt::format("UNBALANCED: {} messages of {} from worker {} have come (round {})",
                                come.size(), from.messages.size(), peer, plan_.round));
    for (std::size_t i = 0; i < come.size(); ++i) {
      const std::size_t number = from.messages[i];
      require_received(plan_, number, come[i].message.length, come[i].message.data);
      bytes.expect_far(number, {from.all.memory, come[i].offset, come[i].message.length});
    }
  }
}

std::string multi_receives::pending() const {
  for (const auto& [peer, from] : senders_)
    if (from.ended < from.messages.size())
      return fmt::format("{} of {} messages from worker {} into buffers that take many",
                         from.messages.size() - from.ended, from.messages.size(), peer);
  return are_released() ? "" : "a buffer that takes many messages";
}

}  // namespace gaudi::stress
