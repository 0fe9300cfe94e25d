// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// One-sided operations: by the core alone where the key is its own, else by messages that the
// target's provider answers (device memory, and keys that the application chose).
#include <rdma/fi_errno.h>

#include <cstring>

#include "proto/endpoint.hpp"
#include "proto/rts.hpp"

namespace gaudi::proto {
namespace {

// One-sided operations that wait for room in the core or for a chunk: what an application posts
// beyond these it has to post again, so that what is outstanding takes a bounded amount of memory.
constexpr std::size_t max_stalled = 1024;

}  // namespace

int endpoint::write(const local_memory& memory, const rma_access& access) {
  const auto c = data_connection(access.target);
  if (!c) return c.code();
  const int ret = is_direct(**c, access.key)
                      ? access_directly(**c, memory, access, transfer_strategy::push)
                      : write_by_message(**c, memory, access);
  // As in send(): the application may only repeat the call.
  if (ret == -FI_EAGAIN) progress();
  return ret;
}

int endpoint::read(const local_memory& memory, const rma_access& access) {
  const auto c = data_connection(access.target);
  if (!c) return c.code();
  const int ret = is_direct(**c, access.key)
                      ? access_directly(**c, memory, access, transfer_strategy::pull)
                      : read_by_message(**c, memory, access);
  if (ret == -FI_EAGAIN) progress();
  return ret;
}

// To a peer on this host all goes the one way that messages go, and the peer looks at the key.
bool endpoint::is_direct(const connection& c, std::uint64_t key) const noexcept {
  return config_.provider_keys && !(key & reg::key_table::software_bit) && !c.shm;
}

// By message a long operation takes several, and a later one could come between them.
void endpoint::keep_order(transfer& t) noexcept {
  if (!config_.rma_order || !t.connection->shm) return;
  t.blocks_later = true;
  ++t.connection->ordered_rma_pending;
}

int endpoint::access_directly(connection& c, const local_memory& memory, const rma_access& access,
                              transfer_strategy way) {
  if (!core_has_room() || stalled_.size() >= max_stalled) return -FI_EAGAIN;
  if (access.inject) return inject_write(c, memory, access);
  transfer* t = new_transfer(&c, memory, access.completion);
  if (!t) return why_nothing_left();
  t->strategy = way;
  t->remote.push_back({access.address, access.key, memory.length()});
  t->delivery = access.delivery;
  t->has_event = access.has_data;
  t->event_data = access.data;
  if (t->length == 0) {
    complete(*t, 0);
  } else {
    on_behalf_of(&c, [&] { progress_transfer(*t); });
  }
  return 0;
}

// The buffer is the caller's again on return, so the data leaves from one of ours.
int endpoint::inject_write(connection& c, const local_memory& memory, const rma_access& access) {
  buffer* b = injected_->acquire(c.remote->injected, connections_->count());
  transfer* t = b ? new_transfer(&c, memory, access.completion) : nullptr;
  if (!t) {
    if (b) release_staging(*b);
    return why_nothing_left();
  }
  t->strategy = transfer_strategy::push;
  t->remote.push_back({access.address, access.key, memory.length()});
  t->has_event = access.has_data;
  t->event_data = access.data;
  if (t->length == 0) {
    release_staging(*b);
    complete(*t, 0);
    return 0;
  }
  b->owner = t;
  b->offset = 0;
  b->length = memory.length();
  b->copies = 0;
  b->failed = 0;
  int ret = copies_.start(*b, 0, memory, 0, memory.length(), copy::direction::device_to_host);
  if (ret == 0 && b->copies) ret = copies_.wait_for(*b);
  if (ret == 0) ret = post_rma(*t, *b, b->bytes, b->length, b->descriptor(), 0, 0);
  if (ret) {
    release_staging(*b);
    free_transfer(*t);
    return ret;
  }
  t->issued = t->length;
  ++t->in_flight;
  return 0;
}

int endpoint::write_by_message(connection& c, const local_memory& memory,
                               const rma_access& access) {
  buffer* b = send_buffers_->acquire();
  transfer* t = b ? new_transfer(&c, memory, access.completion) : nullptr;
  if (!t) {
    if (b) send_buffers_->release(*b);
    return why_nothing_left();
  }
  t->role = transfer_role::source;
  wire::rma_fields fields{};
  fields.operation = t->id;
  fields.address = access.address;
  fields.key = access.key;
  fields.length = memory.length();
  fields.data = access.data;
  std::uint8_t flags = access.has_data ? wire::cq_data : 0;
  b->on_sent = {};
  b->awaits = t->id;
  b->failed = 0;

  int ret = 0;
  const bool short_enough = sizeof fields + memory.length() <= c.eager_limit &&
                            (access.inject || !nic_is_shorter(c, memory));
  if (short_enough) {
    fields.head = {wire::kind::write, flags, 0, 0, c.remote_id};
    b->length = sizeof fields + memory.length();
    ret = load_payload(*b, sizeof fields, memory, 0, memory.length());
    if (ret == 0 && access.inject) ret = copies_.wait_for(*b);
  } else {
    wire::rts_fields rts{};
    ret = offer(*t, rts, flags);
    fields.head = {wire::kind::write_rts, flags, 0, 0, c.remote_id};
    const std::size_t size = rts_size(rts);
    std::memcpy(b->bytes + sizeof fields, &rts, size);
    b->length = sizeof fields + size;
  }
  if (ret == 0) {
    std::memcpy(b->bytes, &fields, sizeof fields);
    ret = submit_ordered(c, *b);
  }
  if (ret) {
    free_transfer(*t);
    recycle(*b);
  } else if (short_enough) {
    count_eager(c, memory.length());
  } else {
    keep_order(*t);
  }
  return ret;
}

int endpoint::read_by_message(connection& c, const local_memory& memory, const rma_access& access) {
  buffer* b = send_buffers_->acquire();
  transfer* t = b ? new_transfer(&c, memory, access.completion) : nullptr;
  if (!t) {
    if (b) send_buffers_->release(*b);
    return why_nothing_left();
  }
  t->role = transfer_role::reader;
  wire::rma_fields fields{};
  fields.head = {wire::kind::read, 0, 0, 0, c.remote_id};
  fields.operation = t->id;
  fields.address = access.address;
  fields.key = access.key;
  fields.length = memory.length();
  std::memcpy(b->bytes, &fields, sizeof fields);
  b->length = sizeof fields;
  b->on_sent = {};
  b->awaits = t->id;
  b->failed = 0;
  if (const int ret = submit_ordered(c, *b)) {
    free_transfer(*t);
    recycle(*b);
    return ret;
  }
  if (sizeof(wire::fin_fields) + memory.length() > c.eager_limit) keep_order(*t);
  return 0;
}

// At the target: the answer goes out in one message, or as a rendezvous of which we are the source.
// Whether the request's credit waits for that.
bool endpoint::serve_read(connection& c, const wire::rma_fields& request,
                          const reg::region& source) {
  const auto refuse = [&](int error) {
    send_fin(c, request.operation, error);
    return false;
  };
  const auto memory = local_memory::inside(source, request.address, request.length);
  buffer* b = send_buffers_->acquire_beyond_limit();
  if (!b) return refuse(FI_ENOMEM);
  wire::fin_fields fields{};
  fields.operation = request.operation;
  completion_spec served;
  served.counter = peers_read_;
  served.mr_counter = source.peers_read;
  b->on_sent = served;
  b->awaits = 0;
  b->failed = 0;
  const std::size_t whole = sizeof fields + memory.length();
  if (whole <= c.eager_limit && !nic_is_shorter(c, memory)) {
    fields.head = {wire::kind::read_reply, 0, 0, 0, c.remote_id};
    std::memcpy(b->bytes, &fields, sizeof fields);
    b->length = whole;
    if (const int ret = load_payload(*b, sizeof fields, memory, 0, memory.length())) {
      recycle(*b);
      return refuse(-ret);
    }
    queue_answer(c, *b);
    return true;
  }
  b->on_sent = {};
  transfer* t = new_transfer(&c, memory, served);
  wire::rts_fields rts{};
  std::uint8_t flags = 0;
  const int ret = t ? offer(*t, rts, flags) : -FI_ENOMEM;
  if (ret) {
    if (t) free_transfer(*t);
    recycle(*b);
    return refuse(-ret);
  }
  t->role = transfer_role::source;
  for_peers_.push_back(*t);
  t->peer_operation = request.operation;
  fields.head = {wire::kind::read_rts, flags, 0, 0, c.remote_id};
  std::memcpy(b->bytes, &fields, sizeof fields);
  const std::size_t size = rts_size(rts);
  std::memcpy(b->bytes + sizeof fields, &rts, size);
  b->length = sizeof fields + size;
  queue_answer(c, *b);
  return true;
}

}  // namespace gaudi::proto
