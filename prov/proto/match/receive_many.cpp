// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Receives that take many messages (FI_MULTI_RECV).
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "proto/match/receive_context.hpp"

namespace gaudi::proto {

// The receive stays first in its queue while it takes messages, so that those posted behind it get
// none of them.
int receive_context::receive_many(const local_memory& memory, const recv_params& params) {
  if (memory.count() != 1) return -FI_EINVAL;
  const auto source = source_of(params);
  if (!source) return source.code();
  posted_receive* r = receive_pool_.create();
  if (!r) return -FI_ENOMEM;
  r->many = multi_receive_pool_.create(multi_receive_pool_, min_multi_recv_);
  if (!r->many) {
    receive_pool_.destroy(r);
    return -FI_ENOMEM;
  }
  r->source = *source;
  r->completion = params.completion;
  r->completion.hook = r->many;
  r->memory = memory;
  for (bool room = true; room;) {
    arrived_hook* found = untagged_.find_arrival(r->source, 0, 0);
    if (!found) {
      untagged_.post(*r);
      return 0;
    }
    auto& message = static_cast<unexpected&>(*found);
    untagged_.remove(message);
    message_owner& owner = *message.owner;
    const completion_spec completion = owner.reported_here(r->completion);
    const local_memory place = r->memory;
    room = reserve(*r, message.info.length);
    if (!room) receive_pool_.destroy(r);
    owner.deliver_unexpected(message, completion, place);
  }
  return 0;
}

// Takes the next message's place out of the buffer. Whether it takes more after that.
bool receive_context::reserve(posted_receive& r, std::size_t length) noexcept {
  r.memory.skip(length);
  return !r.many->take(r.memory.length());
}

// Its messages so far end as they would have; the buffer goes back with the last of them.
void receive_context::cancel_many(posted_receive& r, const completion_spec& completion) {
  if (!r.many->close()) return;
  r.many->give_back();
  completion_spec told = completion;
  told.hook = nullptr;
  told.end({.flags = FI_MULTI_RECV, .error = FI_ECANCELED});
}

}  // namespace gaudi::proto
