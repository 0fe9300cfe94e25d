// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/transfer/rail_keys.hpp"

#include <rdma/fi_domain.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/make_room.hpp"
#include "proto/channel/parse.hpp"

namespace gaudi::proto {
namespace {

using purpose = reg::other_nic::purpose;

// Null: there is no memory.
transfer_rails* rails_of(transfer& t) noexcept {
  if (!t.reach.at_other_nics) t.reach.at_other_nics.reset(new (std::nothrow) transfer_rails);
  return t.reach.at_other_nics.get();
}

std::size_t offset_of(const posted_op& w) noexcept {
  return w.what == posted_op::kind::piece ? static_cast<const rma_op&>(w).offset
                                          : static_cast<const buffer&>(w).offset;
}

// Of the peer's that holds byte `offset`.
std::size_t segment_at(const transfer& t, std::size_t offset) noexcept {
  std::size_t i = 0;
  while (i + 1 < t.remote.size() && offset >= t.remote[i].length) offset -= t.remote[i++].length;
  return i;
}

// Device memory goes by the registration of its region, or through a chunk.
bool can_be_told(const local_segment& s) noexcept {
  return s.is_host() || (s.registered && !s.registered->imported);
}

// The peer may read what it is sent, and write where it was told to.
bool may_be_told(const transfer& t, std::uint64_t access) noexcept {
  const auto role = access == FI_REMOTE_READ ? transfer_role::source : transfer_role::sink;
  return t.role == role && t.strategy == transfer_strategy::none;
}

// What a slot is called at the peer's NIC, by its key at the first one.
const std::uint64_t* key_there(const rail_set& set, std::uint8_t peer_nic,
                               std::uint64_t key) noexcept {
  const auto& known = set.slots_at[peer_nic];
  const auto found = std::find_if(known.begin(), known.end(),
                                  [key](const auto& each) { return each.first == key; });
  return found == known.end() ? nullptr : &found->second;
}

void note_written(transfer& t, const reg::other_nic& nic) noexcept {
  t.flush.by_other_nics = static_cast<std::uint16_t>(t.flush.by_other_nics | 1U << nic.number());
}

}  // namespace

std::uint8_t rail_keys::usable(transfer& t, const way& by) {
  const auto& rails = t.connection->at_core.rails->rails;
  std::uint8_t all = 0;
  for (std::size_t place = 0; place < rails.size(); ++place)
    if (may_carry(t, rails[place], by)) all = static_cast<std::uint8_t>(all | 1U << place);
  return all;
}

rail_keys::verdict rail_keys::refused(const transfer& t, const way& by) const noexcept {
  const rail& first = t.connection->at_core.rails->rails.front();
  const transfer_rails* const known = t.reach.at_other_nics.get();
  const bool is_known = known && first.nic && (known->refused_here >> first.nic->number() & 1) != 0;
  return {.ours = is_known ||
                  (first.nic && !by.by_chunk && !can_be_told(*t.memory.at(by.offset).segment)),
          .peers = known && known->at_peer[first.peer_nic].is_refused};
}

// What a rail has written is remembered where the session may go on over another NIC before the
// peer is told of it.
bool rail_keys::may_carry(transfer& t, const rail& r, const way& by) {
  if (r.now != rail::state::up) return false;
  const bool is_fenced = parts_.fences.is_due(*t.connection, r);
  if (is_fenced && t.connection->at_core.rails->fence_at(r.peer_nic).length == 0) return false;
  const bool is_remembered = t.connection->session.may_move || is_fenced;
  if (is_remembered && r.number != 0 && !rails_of(t)) return false;
  if (!r.nic && r.peer_nic == 0) return true;
  const transfer_rails* const known = t.reach.at_other_nics.get();
  if (r.nic && !by.by_chunk && !can_be_told(*t.memory.at(by.offset).segment)) return false;
  if (r.nic && known && (known->refused_here >> r.nic->number() & 1) != 0) return false;
  if (r.peer_nic == 0) return true;
  if (known && known->at_peer[r.peer_nic].is_refused) return false;
  if (!t.slots.in_use) return knows_keys(t, r.peer_nic);
  return by.slot && knows_slot(t, r.peer_nic, *by.slot);
}

bool rail_keys::knows_keys(transfer& t, std::uint8_t peer_nic) {
  transfer_rails* const known = rails_of(t);
  if (!known) return false;
  auto& at = known->at_peer[peer_nic];
  if (at.count != 0) return true;
  if (std::exchange(at.is_asked, true)) return false;
  ask(t, peer_nic,
      t.peer_operation != 0
          ? wire::segment{}
          : wire::segment{t.remote.front().address, t.remote.front().key, t.length});
  return false;
}

bool rail_keys::knows_slot(transfer& t, std::uint8_t peer_nic, const wire::segment& slot) {
  if (key_there(*t.connection->at_core.rails, peer_nic, slot.key)) return true;
  transfer_rails* const known = rails_of(t);
  if (!known || std::exchange(known->at_peer[peer_nic].is_asked, true)) return false;
  known->at_peer[peer_nic].asked_slot = slot.key;
  ask(t, peer_nic, slot);
  return false;
}

void rail_keys::ask(const transfer& t, std::uint8_t peer_nic, const wire::segment& what) {
  wire::rail_ask_fields fields{};
  fields.operation = t.id;
  fields.of = t.peer_operation;
  fields.nic = peer_nic;
  fields.writes = t.strategy == transfer_strategy::push ? 1 : 0;
  fields.address = what.address;
  fields.key = what.key;
  fields.length = what.length;
  parts_.channel.send_control(*t.connection, wire::kind::ask_rail_keys, 0, fields, sizeof fields);
}

bool rail_keys::adapt(transfer& t, posted_op& w, std::size_t place,
                      rma_request& operation) noexcept {
  const rail_set& set = *t.connection->at_core.rails;
  const rail& on = set.rails[place];
  if (on.peer_nic != 0)
    operation.remote.key =
        t.slots.in_use
            ? *key_there(set, on.peer_nic, operation.remote.key)
            : t.reach.at_other_nics->at_peer[on.peer_nic].keys[segment_at(t, offset_of(w))];
  if (!on.nic || !on.nic->core().needs_local_mr()) return true;
  try {
    operation.descriptor = w.what == posted_op::kind::chunk
                               ? static_cast<const buffer&>(w).descriptor_at(*on.nic)
                               : descriptor_at(*on.nic, t, static_cast<rma_op&>(w), operation);
  } catch (const std::bad_alloc&) {
    operation.descriptor = nullptr;
  }
  if (operation.descriptor) return true;
  if (transfer_rails* const known = rails_of(t))
    known->refused_here = static_cast<std::uint16_t>(known->refused_here | 1U << on.nic->number());
  return false;
}

void* rail_keys::descriptor_at(reg::other_nic& nic, transfer& t, rma_op& piece,
                               const rma_request& operation) {
  const local_segment& s = *t.memory.at(piece.offset).segment;
  if (s.registered) {
    const core::inner_mr* const known = nic.registration_of(*s.registered, purpose::transfers);
    if (!known) return nullptr;
    if (!s.is_host() && operation.read) note_written(t, nic);
    return known->descriptor();
  }
  auto mr = nic.core().register_memory(operation.bytes, operation.length,
                                       operation.read ? FI_READ : FI_WRITE);
  if (!mr) return nullptr;
  piece.local = *std::move(mr);
  piece.local_at = &nic;
  return piece.local.descriptor();
}

void rail_keys::asked(connection& c, const buffer& b, std::size_t length) {
  wire::rail_ask_fields request;
  if (!parse(b, length, request)) return parts_.connections.malformed(c, "question (rails)");
  wire::rail_keys_fields answer{};
  answer.operation = request.operation;
  answer.nic = request.nic;
  reg::other_nic* const nic = nic_of(request.nic);
  const std::uint64_t access = request.writes ? FI_REMOTE_WRITE : FI_REMOTE_READ;
  transfer* const of = request.of != 0 ? parts_.table.find_active(c, request.of) : nullptr;
  if (nic && of && may_be_told(*of, access)) {
    keys_of_transfer(*nic, *of, access, answer);
  } else if (nic && of && request.writes && of->strategy == transfer_strategy::recv_staged) {
    key_of_slot(*nic, *of, request.key, answer);
  } else if (nic && request.of == 0) {
    key_of_region(*nic, request, access, answer);
  }
  parts_.channel.send_control(
      c, wire::kind::rail_keys, 0, answer,
      offsetof(wire::rail_keys_fields, keys) + answer.count * sizeof answer.keys[0]);
}

reg::other_nic* rail_keys::nic_of(std::uint32_t number) const noexcept {
  const auto found =
      std::find_if(settings_.others.begin(), settings_.others.end(),
                   [&](const auto& one) { return one.nic && one.nic->number() == number; });
  return found == settings_.others.end() ? nullptr : found->nic;
}

// The same for whoever asks again.
void rail_keys::keys_of_transfer(reg::other_nic& nic, transfer& t, std::uint64_t access,
                                 wire::rail_keys_fields& answer) {
  transfer_rails* const known = rails_of(t);
  if (!known) return;
  auto& told = known->told;
  auto found = std::find_if(told.begin(), told.end(),
                            [&](const auto& one) { return one.nic == nic.number(); });
  if (found == told.end()) {
    found = told.insert(told.end(), transfer_rails::told_keys{.nic = nic.number(), .keys = {}});
    for (std::size_t i = 0; i < t.memory.count(); ++i) {
      if (t.memory[i].length == 0) continue;
      const core::inner_mr* const mr = offered(nic, t, t.memory[i], access);
      if (!mr) {
        found->count = 0;
        break;
      }
      found->keys[found->count++] = mr->key();
    }
  }
  if (found->count != 0 && access == FI_REMOTE_WRITE) note_written(t, nic);
  answer.count = found->count;
  std::copy_n(found->keys.begin(), found->count, answer.keys);
}

// As expose() has it for its own NIC.
const core::inner_mr* rail_keys::offered(reg::other_nic& nic, transfer& t, const local_segment& s,
                                         std::uint64_t access) {
  if (s.registered && s.registered->core_for(access))
    return nic.registration_of(*s.registered, purpose::transfers);
  if (!s.is_host()) return nullptr;
  auto mr = nic.core().register_memory(s.host(), s.length, access);
  if (!mr) return nullptr;
  return &t.reach.at_other_nics->exposed.emplace_back(*std::move(mr));
}

// The peer has been given it, and may write there.
void rail_keys::key_of_slot(reg::other_nic& nic, const transfer& t, std::uint64_t key,
                            wire::rail_keys_fields& answer) {
  const buffer* const slot = t.slots.granted.find(
      [key](const buffer& each) { return !each.home.slots && each.key() == key; });
  const core::inner_mr* const mr = slot ? slot->slab.registration_at(nic) : nullptr;
  if (!mr) return;
  answer.count = 1;
  answer.keys[0] = mr->key();
}

void rail_keys::key_of_region(reg::other_nic& nic, const wire::rail_ask_fields& request,
                              std::uint64_t access, wire::rail_keys_fields& answer) const {
  if ((request.key & reg::key_table::software_bit) != 0) return;
  const auto region = parts_.keys.find(request.key, request.address, request.length, access);
  const core::inner_mr* const mr = region ? nic.registration_of(**region, purpose::key) : nullptr;
  if (!mr) return;
  if (request.writes && (**region).on_device()) parts_.flush.note_writer(nic);
  answer.count = 1;
  answer.keys[0] = mr->key();
}

// A peer that makes new slots all the time is not remembered for all of them.
void rail_keys::learn(transfer_rails::at& at, rail_set& set, const wire::rail_keys_fields& answer) {
  constexpr std::size_t max_known = 64;
  auto& slots = set.slots_at[answer.nic];
  at.is_asked = false;
  at.is_refused = answer.count != 1 || !base::make_room(slots);
  if (at.is_refused) return;
  if (slots.size() >= max_known) slots.clear();
  slots.emplace_back(at.asked_slot, answer.keys[0]);
}

transfer* rail_keys::answered(connection& c, const buffer& b, std::size_t length) {
  wire::rail_keys_fields answer{};
  constexpr std::size_t fixed = offsetof(wire::rail_keys_fields, keys);
  std::memcpy(&answer, b.bytes, std::min(length, sizeof answer));
  if (length < fixed || answer.count > wire::max_segments ||
      length < fixed + answer.count * sizeof answer.keys[0]) {
    parts_.connections.malformed(c, "answer (keys)");
    return nullptr;
  }
  transfer* const t = parts_.table.find_active(c, answer.operation);
  if (!t || !t->reach.at_other_nics || !c.at_core.rails || answer.nic >= wire::max_rails)
    return nullptr;
  auto& at = t->reach.at_other_nics->at_peer[answer.nic];
  if (!at.is_asked || at.count != 0) return nullptr;
  if (t->slots.in_use) {
    learn(at, *c.at_core.rails, answer);
    return t;
  }
  at.is_refused = answer.count != t->remote.size();
  if (at.is_refused) return t;
  at.count = static_cast<std::uint8_t>(answer.count);
  std::copy_n(answer.keys, answer.count, at.keys.begin());
  return t;
}

}  // namespace gaudi::proto
