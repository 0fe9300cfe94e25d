// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Posting receives, and matching them with messages that came before.
#include "proto/match/receive_context.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>

namespace gaudi::proto {

// The pools free memory, not objects.
receive_context::~receive_context() {
  for (match_queue* queue : {&tagged_, &untagged_}) {
    queue->for_each_posted([&](posted_hook& r) {
      queue->remove(r);
      receive_pool_.destroy(static_cast<posted_receive*>(&r));
    });
  }
}

void receive_context::remove(const message_owner& e) noexcept {
  std::erase(members_, &e);
  for_each_arrived([&](match_queue& queue, unexpected& m) {
    if (m.owner != &e) return;
    queue.remove(m);
    unexpected_pool_.destroy(&m);
  });
  std::erase_if(claimed_, [&](const auto& claim) {
    if (claim.second->owner != &e) return false;
    unexpected_pool_.destroy(claim.second);
    return true;
  });
}

std::uint32_t receive_context::number_of(const net_address& name) {
  const auto [found, is_new] = numbers_.try_emplace(name, next_number_);
  if (is_new) ++next_number_;
  return found->second;
}

void receive_context::forget_number_of(const net_address& name) noexcept {
  if (members_.size() == 1) numbers_.erase(name);
}

inline base::result<std::uint32_t> receive_context::source_of(const recv_params& params) const {
  if (!directed_ || params.from == FI_ADDR_UNSPEC || members_.empty()) return any_source;
  return members_.front()->source_of(params);
}

// What concerns no message has no endpoint of its own to report to.
completion_spec receive_context::reported_somewhere(const completion_spec& completion) const {
  return members_.empty() ? completion : members_.front()->reported_here(completion);
}

int receive_context::receive(const local_memory& memory, const recv_params& params) {
  const auto source = source_of(params);
  if (!source) return source.code();
  match_queue& queue = queue_for(params.tagged);
  if (arrived_hook* found = queue.find_arrival(*source, params.tag, params.ignore)) {
    auto& message = static_cast<unexpected&>(*found);
    queue.remove(message);
    message_owner& owner = *message.owner;
    owner.deliver_unexpected(message, owner.reported_here(params.completion), memory);
    return 0;
  }
  posted_receive* r = receive_pool_.create(params, *source, memory);
  if (!r) return -FI_ENOMEM;
  queue.post(*r);
  return 0;
}

int receive_context::peek(const recv_params& params, bool claim, bool discard) {
  if (claim && claimed_.contains(params.completion.context)) return -FI_EINVAL;
  const auto source = source_of(params);
  if (!source) return source.code();
  match_queue& queue = queue_for(params.tagged);
  arrived_hook* found = queue.find_arrival(*source, params.tag, params.ignore);
  completion_spec told = reported_somewhere(params.completion);
  told.report = true;
  told.counter = nullptr;  // nothing has been received
  if (!found) {
    told.end({.tag = params.tag, .error = FI_ENOMSG});
    return 0;
  }
  auto& message = static_cast<unexpected&>(*found);
  told.end(describe(message.info));
  if (claim) {
    queue.remove(message);
    claimed_.emplace(params.completion.context, &message);
  } else if (discard) {
    queue.remove(message);
    message.owner->discard_message(message);
  }
  return 0;
}

int receive_context::receive_claimed(const local_memory& memory, const recv_params& params,
                                     bool discard) {
  const auto found = claimed_.find(params.completion.context);
  if (found == claimed_.end()) return -FI_EINVAL;
  unexpected& message = *found->second;
  claimed_.erase(found);
  message_owner& owner = *message.owner;
  const completion_spec completion = owner.reported_here(params.completion);
  if (discard) {
    const cq_entry entry = describe(message.info);
    owner.discard_message(message);
    completion.end(entry);
  } else {
    owner.deliver_unexpected(message, completion, memory);
  }
  return 0;
}

int receive_context::cancel(void* context) {
  for (match_queue* queue : {&tagged_, &untagged_}) {
    posted_hook* found = queue->find_posted([&](const posted_hook& r) {
      return static_cast<const posted_receive&>(r).completion.context == context;
    });
    if (!found) continue;
    queue->remove(*found);
    auto& receive = static_cast<posted_receive&>(*found);
    const completion_spec completion = reported_somewhere(receive.completion);
    if (receive.many) {
      cancel_many(receive, completion);
    } else {
      completion.end({.tag = receive.tag, .error = FI_ECANCELED});
    }
    receive_pool_.destroy(&receive);
    return 0;
  }
  return -FI_ENOENT;
}

void receive_context::fail_lost() {
  for (match_queue* queue : {&tagged_, &untagged_}) {
    queue->for_each_posted([&](posted_hook& hook) {
      auto& r = static_cast<posted_receive&>(hook);
      const int status = r.memory.loss();
      if (r.many || status == 0) return;
      queue->remove(r);
      reported_somewhere(r.completion).end({.tag = r.tag, .error = status});
      receive_pool_.destroy(&r);
    });
  }
}

}  // namespace gaudi::proto
