// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Peers on this host: packets through shared memory, and host memory from process to process in one
// copy. Credits and matching are those of all connections.
#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/log.hpp"
#include "base/make_room.hpp"
#include "device/device_registry.hpp"
#include "proto/endpoint.hpp"

namespace gaudi::proto {

// The shortest way: header and payload are written where the peer reads them.
int endpoint::shm_send(connection& c, const local_memory& memory, const send_params& message) {
  const std::size_t start = wire::eager_size(message.wire_flags);
  std::byte* const packet = c.shm->out().reserve(start + memory.length());
  if (!packet) return -FI_EAGAIN;
  auto& fields = *reinterpret_cast<wire::eager_fields*>(packet);
  fill_header(c, fields.head, wire::kind::eager, message.wire_flags);
  fields.tag = message.tag;
  if (message.wire_flags & wire::cq_data) fields.data = message.data;
  if (memory.length() != 0) memory.read(0, packet + start, memory.length());
  commit(c);
  c.data.sent();
  message.completion.end({});
  return 0;
}

int endpoint::shm_post(connection& c, buffer& b) {
  std::byte* const packet = c.shm->out().reserve(b.length);
  if (!packet) return -FI_EAGAIN;
  auto& head = *reinterpret_cast<wire::header*>(b.bytes);
  fill_header(c, head, head.what, head.flags);
  std::memcpy(packet, b.bytes, b.length);
  commit(c);
  message_sent(b, 0);
  return 0;
}

bool endpoint::shm_control(connection& c, const std::byte* bytes, std::size_t length) {
  std::byte* const packet = c.shm->out().reserve(length);
  if (!packet) return false;
  std::memcpy(packet, bytes, length);
  auto& head = *reinterpret_cast<wire::header*>(packet);
  fill_header(c, head, head.what, head.flags);
  commit(c);
  c.control.sent();
  return true;
}

int endpoint::shm_uncounted(connection& c, const wire::header& packet, std::size_t length) {
  std::byte* const bytes = c.shm->out().reserve(length);
  if (!bytes) return -FI_EAGAIN;
  std::memcpy(bytes, &packet, length);
  fill_header(c, *reinterpret_cast<wire::header*>(bytes), packet.what, packet.flags);
  commit(c);
  return 0;
}

// The first doorbell is for a peer that waits for our answer about shared memory, and sleeps.
void endpoint::add_shm_channel(connection& c) {
  if (!base::make_room(shm_connections_)) return connections_->fail_soon(c, FI_ENOMEM);
  shm_connections_.push_back(&c);
  if (c.shm->peer_sleeps()) ring_doorbell(c);
}

void endpoint::commit(connection& c) {
  if (c.shm->out().commit(c.shm->peer_sleeps())) ring_doorbell(c);
}

// A peer that sleeps waits for the core: any packet there wakes it.
void endpoint::ring_doorbell(connection& c) {
  if (!send_header_by_core(c, wire::kind::credit) || c.doorbell_due) return;
  if (!base::make_room(doorbells_)) return connections_->fail_soon(c, FI_ENOMEM);
  doorbells_.push_back(c.id);
  c.doorbell_due = true;
}

void endpoint::ring_doorbells() {
  std::erase_if(doorbells_, [this](std::uint32_t id) {
    connection* c = connections_->find(id);
    if (c && send_header_by_core(*c, wire::kind::credit) == -FI_EAGAIN) return false;
    if (c) c->doorbell_due = false;
    return true;
  });
}

// Whether there was anything.
bool endpoint::poll_shm() {
  constexpr int at_once = 16;  // from one peer, before the others have their turn
  bool any = false;
  for (std::size_t i = 0; i < shm_connections_.size();) {
    connection& c = *shm_connections_[i];
    for (int n = 0; n < at_once && take_packet(c); ++n) any = true;
    // Not where it failed meanwhile.
    if (i < shm_connections_.size() && shm_connections_[i] == &c) ++i;
  }
  return any;
}

// False: there is none, or the connection has failed.
bool endpoint::take_packet(connection& c) {
  ipc::ring_reader& ring = c.shm->in();
  const auto packet = ring.front();
  if (packet.empty()) {
    if (ring.damaged()) malformed(c, "ring of packets");
    return false;
  }
  wire::header head;
  if (packet.size() < sizeof head || packet.size() > message_limit_) {
    malformed(c, "packet (length)");
    return false;
  }
  buffer* b = receive_buffers_->take_local();
  if (!b) return false;
  std::memcpy(b->bytes, packet.data(), packet.size());
  const std::size_t length = packet.size();
  ring.pop();
  std::memcpy(&head, b->bytes, sizeof head);
  if (head.connection != c.id) {
    malformed(c, "packet (of another connection)");
    receive_buffers_->give_back(*b);
    return false;
  }
  packet_arrived(c, *b, length);
  return c.state != connection_state::failed;
}

bool endpoint::shm_may_sleep() const noexcept {
  return std::all_of(shm_connections_.begin(), shm_connections_.end(),
                     [](connection* c) { return c->shm->in().sleep(); });
}

// A packet in shared memory would take device memory through the copy engine; the NIC, which both
// ends have, reads it itself.
bool endpoint::nic_is_shorter(const connection& c, const local_memory& memory) const noexcept {
  return c.shm && memory.on_device() && memory.length() != 0 && !wants_cts(memory) &&
         memory.core_reaches(FI_REMOTE_READ);
}

// Whether this process can copy between the two addresses, the second of them the peer's. What may
// be a Gaudi1's memory goes the way that is right for that.
bool endpoint::reaches(const transfer& t, std::uint64_t local,
                       std::uint64_t remote) const noexcept {
  return t.connection->shm && t.connection->shm->cma() && !device::may_be_device_address(local) &&
         !device::may_be_device_address(remote);
}

// Whether source and sink are memory of one device, in one process.
bool endpoint::is_copied_by_engine(const connection& c, const wire::rts_fields& source,
                                   bool by_allocation, const local_memory& sink) const noexcept {
  if (config_.rendezvous == base::rendezvous_choice::staged || !c.is_here() ||
      !sink.only_on_device())
    return false;
  for (std::size_t i = 0; i < sink.count(); ++i) {
    if (sink[i].owner != sink[0].owner) return false;
  }
  return std::all_of(
      source.segments, source.segments + source.segment_count, [&](const wire::segment& s) {
        const auto where = sink[0].owner->find(s.address, s.length);
        if (by_allocation) return where && where->allocation_id == s.key;
        // A Gaudi1's address alone does not tell, nor does any that several devices
        // have.
        return where && device::is_device_address(s.address) &&
               device::device_registry::instance().find_owner(s.address).owner == sink[0].owner;
      });
}

// What is under way goes by the core then, whose keys both ends have; what begins later, through
// slots.
void endpoint::disable_cma(connection& c, int why) noexcept {
  c.shm->disable_cma(why);
  GAUDI_INFO(EP_DATA,
             "the kernel keeps the memory of %s from us by now: %s (has the process given up "
             "privileges, or forbidden system calls?); long messages are copied twice\n",
             c.remote->name.to_string().c_str(), fi_strerror(-why));
}

// Takes its time now; its end is told at the next progress, as that of the core's operations is.
// -FI_EAGAIN: the peer is not reached any more.
// A peer that closes says so here before its application has its memory back. The core tells of
// the end of the connection later.
int endpoint::copy_once(const transfer& t, void* bytes, std::size_t length,
                        std::uint64_t remote) noexcept {
  ipc::shm_channel& on = *t.connection->shm;
  if (on.peer_is_gone()) return -FI_ECONNRESET;
  const int ret = t.strategy == transfer_strategy::pull ? on.cma()->read(bytes, remote, length)
                                                        : on.cma()->write(remote, bytes, length);
  // What was read may be something else's already.
  return on.peer_is_gone() ? -FI_ECONNRESET : ret;
}

int endpoint::shm_copy(transfer& t, posted_op& w, void* bytes, std::size_t length,
                       std::uint64_t remote) {
  if (!base::make_room(local_copies_)) return -FI_ENOMEM;
  const int ret = copy_once(t, bytes, length, remote);
  if (ipc::peer_process::is_denial(ret)) [[unlikely]] {
    disable_cma(*t.connection, ret);
    return -FI_EAGAIN;
  }
  list_posted(*t.connection, w);
  local_copies_.push_back({&w, length, -ret});
  return 0;
}

void endpoint::end_local_copies() {
  std::vector<local_copy> ended;
  ended.swap(local_copies_);
  for (const local_copy& e : ended) completed_or_end(*e.done, e.length, e.error);
}

}  // namespace gaudi::proto
