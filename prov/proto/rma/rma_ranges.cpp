// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/rma/rma_ranges.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <exception>

namespace gaudi::proto {

int rma_ranges::start(direction way, connection& c, const local_memory& memory,
                      const rma_access& access, std::span<const fi_rma_iov> ranges) {
  if (unposted_.size() >= max_unposted) return -FI_EAGAIN;
  operation* const o = pool_.create(*this);
  if (!o) return -FI_ENOMEM;
  fill(*o, way, c, memory, access, ranges);
  int ret = 0;
  if (access.inject) {
    // What waits must not need the caller's buffer.
    const auto copy = parts_.initiator.copy_injected(c, memory);
    o->injected = copy ? *copy : nullptr;
    if (copy) o->memory = parts_.initiator.memory_in(**copy);
    ret = copy.code();
  }
  if (ret == 0) ret = post_some(*o);
  if (o->next == 0) {
    if (o->injected) release_staging(*o->injected);
    pool_.destroy(o);
    return ret;
  }
  settle(*o);
  return 0;
}

void rma_ranges::fill(operation& o, direction way, const connection& c, const local_memory& memory,
                      const rma_access& access, std::span<const fi_rma_iov> ranges) noexcept {
  o.way = way;
  o.target = c.remote;
  o.connection = c.id;
  o.memory = memory;
  o.access = access;
  const auto behind = std::copy_if(ranges.begin(), ranges.end(), o.ranges.begin(),
                                   [](const fi_rma_iov& r) { return r.len != 0; });
  o.count = static_cast<std::size_t>(behind - o.ranges.begin());
}

// A part may end while it is posted.
int rma_ranges::post_some(operation& o) {
  int ret = 0;
  o.is_being_posted = true;
  while (ret == 0 && !o.is_posted() && !o.is_held()) {
    ++o.under_way;
    ret = post_next(o);
    if (ret != 0) --o.under_way;
  }
  o.is_being_posted = false;
  if (ret != 0 && ret != -FI_EAGAIN) o.failure.error = -ret;
  return ret;
}

int rma_ranges::post_next(operation& o) {
  const fi_rma_iov& to = o.ranges[o.next];
  const bool is_last = o.next + 1 == o.count;
  rma_access part = o.access;
  part.address = to.addr;
  part.key = to.key;
  part.has_data = o.access.has_data && is_last;
  // Only what is in the peer's memory may be followed by the data that tells of it.
  part.delivery = o.access.delivery || o.access.has_data;
  part.completion = {.hook = &o};
  const local_memory memory = o.memory.part(o.offset, to.len);
  ++o.next;
  o.offset += to.len;
  const int ret = post_on_connection(o, memory, part);
  if (ret != 0) {
    --o.next;
    o.offset -= to.len;
  }
  return ret;
}

// Where memory is short the operation fails: who posts it is in the middle of its books.
int rma_ranges::post_on_connection(const operation& o, const local_memory& memory,
                                   const rma_access& access) noexcept try {
  if (!connection_of(o)) return -FI_ECONNABORTED;
  const auto c = parts_.connections.get_connection(*o.target);
  if (!c) return c.code();
  if (!(*c)->data.can_send() || others_come_first(o, **c)) return -FI_EAGAIN;
  return o.way == direction::write ? parts_.initiator.write(**c, memory, access)
                                   : parts_.initiator.read(**c, memory, access);
} catch (const std::exception&) {
  return -FI_ENOMEM;
}

// Ends of their own parts, credits and connections come by events.
bool rma_ranges::waits_unnoticed() const noexcept {
  return std::any_of(unposted_.begin(), unposted_.end(), [this](const operation& o) {
    const connection* const c = connection_of(o);
    if (!c) return true;
    return c->state == connection_state::connected && c->data.can_send() && !o.is_held() &&
           !others_come_first(o, *c);
  });
}

// Others may end, and leave the list, while a part of one is posted.
void rma_ranges::progress() {
  for (std::size_t left = unposted_.size(); left != 0 && !unposted_.empty(); --left) {
    operation& o = unposted_.front();
    unposted_.splice(unposted_.end(), unposted_, unposted_.begin());
    post_some(o);
    settle(o);
  }
}

void rma_ranges::fail_unposted(int error) noexcept {
  for (std::size_t left = unposted_.size(); left != 0 && !unposted_.empty(); --left) {
    operation& o = unposted_.front();
    o.failure.error = error;
    settle(o);
  }
}

// Where it belongs now: among those that are not all posted, nowhere, or to its end.
void rma_ranges::settle(operation& o) noexcept {
  if (!o.is_posted()) {
    if (!o.is_linked()) list(o);
    return;
  }
  if (o.is_linked()) unlist(o);
  if (o.under_way == 0) finish(o);
}

void rma_ranges::list(operation& o) noexcept {
  unposted_.push_back(o);
  ++o.target->unposted;
  if (connection* const c = is_ordered_ ? connection_of(o) : nullptr) ++c->rma_order.pending;
}

void rma_ranges::unlist(operation& o) noexcept {
  unposted_.erase(operations::s_iterator_to(o));
  --o.target->unposted;
  if (connection* const c = is_ordered_ ? connection_of(o) : nullptr) --c->rma_order.pending;
}

// Early sends that wait were posted behind it.
bool rma_ranges::others_come_first(const operation& o, const connection& c) const noexcept {
  const std::uint32_t own = is_ordered_ && o.is_linked() ? 1 : 0;
  return c.rma_order.pending != own + (c.rma_order.holds_early ? 1 : 0);
}

// Null: it has ended.
connection* rma_ranges::connection_of(const operation& o) noexcept {
  connection* const now = o.target->current;
  return now && now->id == o.connection ? now : nullptr;
}

void rma_ranges::finish(operation& o) noexcept {
  const completion_spec told = o.access.completion;
  const cq_entry entry = o.failure;
  if (o.injected) release_staging(*o.injected);
  pool_.destroy(&o);
  told.end(entry);
}

bool rma_ranges::operation::operation_ended(cq_entry& entry) noexcept {
  if (entry.error != 0 && failure.error == 0) failure = entry;
  --under_way;
  if (!is_being_posted) owner.settle(*this);
  return false;
}

}  // namespace gaudi::proto
