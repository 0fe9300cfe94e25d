// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/transfer/rendezvous_source.hpp"

#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>

#include <utility>

#include "base/log.hpp"
#include "proto/connection/connection.hpp"
#include "proto/operation/rts.hpp"
#include "proto/transfer/implicit_registration.hpp"
#include "proto/transfer/path_choice.hpp"

namespace gaudi::proto {
namespace {

// Bytes of device memory from which on the messages of a rendezvous in shared memory take less time
// than the two copies of a packet.
constexpr std::size_t max_by_packet = 16384;

}  // namespace

// Whether the peer shall say where our data is to go, because it cannot or shall not read it here.
bool rendezvous_source::wants_cts(const local_memory& memory) const noexcept {
  return asks_to_write(config_.rendezvous, memory.on_device(), memory.core_reaches(FI_REMOTE_READ));
}

int rendezvous_source::offer(transfer& t, wire::rts_fields& rts, std::uint8_t& flags) noexcept try {
  t.reach.zero_copy = config_.rendezvous != base::rendezvous_choice::staged;
  register_implicitly(t, config_, FI_REMOTE_READ);
  if (!wants_cts(t.memory)) return expose(core_, t, rts, FI_REMOTE_READ);
  rts.operation = t.id;
  rts.length = t.length;
  rts.segment_count = 0;
  const bool named =
      t.reach.zero_copy &&
      (t.connection->is_here() ? name_allocations(t.memory, rts)
                               : exporter_.name_for_peer(*t.connection, t.memory, rts));
  flags |= named ? wire::alloc_ids : wire::needs_cts;
  if (!named) rts.segment_count = 0;
  return 0;
} catch (const std::bad_alloc&) {
  return -FI_ENOMEM;
}

bool rendezvous_source::is_shorter(const connection& c, const local_memory& memory) const noexcept {
  if (!c.shm) return false;
  if (!memory.on_device()) return memory.length() > config_.max_by_ring && is_read_by_peer(c);
  return memory.length() > max_by_packet || nic_reads(memory);
}

// Host memory, without a copy between.
bool rendezvous_source::is_read_by_peer(const connection& c) const noexcept {
  return config_.rendezvous == base::rendezvous_choice::automatic &&
         (c.is_here() || c.shm->peer_cma_state() == ipc::cma_state::yes);
}

bool rendezvous_source::nic_reads(const local_memory& memory) const noexcept {
  return memory.length() != 0 && !wants_cts(memory) && memory.core_reaches(FI_REMOTE_READ);
}

int expose(core::inner_domain& core, transfer& t, wire::rts_fields& rts, std::uint64_t access) {
  rts.operation = t.id;
  rts.length = t.length;
  rts.segment_count = 0;
  for (std::size_t i = 0; i < t.memory.count(); ++i) {
    const local_segment& s = t.memory[i];
    if (s.length == 0) continue;
    auto& named = rts.segments[rts.segment_count];
    named.address = s.address;
    named.length = s.length;
    const core::inner_mr* known = s.registered ? s.registered->core_for(access) : nullptr;
    if (known) {
      named.key = known->key();
    } else {
      auto mr = core.register_memory(s.host(), s.length, access);
      if (!mr) {
        GAUDI_WARN(MR, "the core cannot register %zu bytes at 0x%lx: %s (see RLIMIT_MEMLOCK)\n",
                   s.length, s.address, fi_strerror(-mr.code()));
        return mr.code();
      }
      named.key = mr->key();
      t.reach.exposed.push_back(std::move(*mr));
    }
    ++rts.segment_count;
  }
  return 0;
}

}  // namespace gaudi::proto
