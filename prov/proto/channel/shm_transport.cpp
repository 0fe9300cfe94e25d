// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/channel/shm_transport.hpp"

#include <rdma/fi_errno.h>

#include <cstring>

#include "base/make_room.hpp"

namespace gaudi::proto {

void shm_transport::reserve(std::size_t connections) {
  watched_.reserve(connections);
  base::reserve_ahead(doorbells_, connections);
}

// The first doorbell is for a peer that waits for our answer about shared memory, and sleeps.
void shm_transport::add(connection& c) {
  if (!watched_.add(c, c.shm->in())) return connections_.fail_soon(c, FI_ENOMEM);
  if (c.shm->peer_sleeps()) ring_doorbell(c);
}

void shm_transport::remove(const connection& c) noexcept {
  watched_.remove(c);
}

bool shm_transport::send(connection& c, const std::byte* packet, std::size_t length) {
  std::byte* const to = reserve_packet(c, length);
  if (!to) return false;
  std::memcpy(to, packet, length);
  auto& head = *reinterpret_cast<wire::header*>(to);
  c.fill_header(head, head.what, head.flags);
  commit(c);
  return true;
}

// A peer that sleeps waits for the core: any packet there wakes it.
void shm_transport::ring_doorbell(connection& c) {
  if (!core_.send_header(c, wire::kind::credit) || c.local.doorbell_due) return;
  if (!base::make_room(doorbells_)) return connections_.fail_soon(c, FI_ENOMEM);
  doorbells_.push_back(c.id);
  c.local.doorbell_due = true;
}

void shm_transport::ring_doorbells() {
  std::erase_if(doorbells_, [this](std::uint32_t id) {
    connection* c = connections_.find(id);
    if (c && core_.send_header(*c, wire::kind::credit) == -FI_EAGAIN) return false;
    if (c) c->local.doorbell_due = false;
    return true;
  });
}

// Empty: there is none, or the connection has failed.
std::span<const std::byte> shm_transport::front(connection& c) {
  const ipc::ring_reader& ring = c.shm->in();
  const std::span<const std::byte> packet = c.shm->in().front();
  if (packet.empty()) {
    if (ring.damaged()) connections_.malformed(c, "ring of packets");
    return {};
  }
  if (fits(packet)) return packet;
  connections_.malformed(c, "packet (length)");
  return {};
}

// A look at the core can be a system call (tcp), which takes longer than all of a local message.
bool shm_transport::is_turn_of_core(bool any) noexcept {
  constexpr unsigned quiet = 256;  // looks that brought nothing
  constexpr unsigned looks_here = 64;
  if (any) {
    quiet_looks_ = 0;
  } else if (quiet_looks_ < quiet) {
    ++quiet_looks_;
  }
  if (quiet_looks_ < quiet && ++core_waits_ < looks_here) return false;
  core_waits_ = 0;
  return true;
}

bool shm_transport::may_sleep() const noexcept {
  return watched_.all_of([](connection& c) { return c.shm->in().sleep(); });
}

}  // namespace gaudi::proto
