// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/transfer/write_fence.hpp"

#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>

#include <new>
#include <utility>

#include "proto/operation/buffer_pool.hpp"
#include "proto/operation/shared_slots.hpp"

namespace gaudi::proto {

write_fence::cell* write_fence::cell_at(reg::other_nic* nic) try {
  const std::size_t number = nic ? nic->number() : 0;
  if (cells_.size() <= number) cells_.resize(number + 1);
  if (cells_[number]) return cells_[number].get();
  auto made = std::make_unique<cell>();
  core::inner_domain& core = nic ? nic->core() : core_;
  auto mr = core.register_memory(&made->bytes, sizeof made->bytes, FI_READ | FI_REMOTE_READ);
  if (!mr) return nullptr;
  made->mr = *std::move(mr);
  cells_[number] = std::move(made);
  return cells_[number].get();
} catch (const std::bad_alloc&) {
  return nullptr;
}

void write_fence::wrote(transfer& t, std::size_t place) const noexcept {
  if (!core_.over_rdma() || !t.reach.at_other_nics) return;
  t.reach.at_other_nics->written[place] = t.connection->at_core.rails->rails[place].number;
}

// A transfer of which the peer has asked for keys has places for what rails write, too, and any
// peer may ask: also one with which there are no rails.
bool write_fence::begin_on_rails(transfer& t) {
  rail_set* const set = t.connection->at_core.rails.get();
  const std::size_t count = set ? set->rails.size() : 0;
  for (std::size_t place = 0; place < count; ++place) {
    rail& r = set->rails[place];
    const std::uint32_t number = std::exchange(t.reach.at_other_nics->written[place], 0);
    if (number == 0 || r.number != number || r.now == rail::state::down) continue;
    if (!is_due(*t.connection, r)) continue;
    fence_op* const w = operations_.create(t, place, nullptr);
    if (!w) {
      if (t.outcome.status == 0) t.outcome.status = FI_ENOMEM;
      continue;
    }
    ++t.moved.in_flight;
    r.fences.push_back(*w);
    post_waiting(*t.connection, r);
  }
  return t.moved.in_flight != 0;
}

bool write_fence::is_due_behind_chunk(const transfer& t, std::size_t place) const noexcept {
  if (!t.connection || !t.connection->goes_on()) return false;
  const rail& r = t.connection->at_core.rails->rails[place];
  return is_due(*t.connection, r) && r.now != rail::state::down;
}

bool write_fence::begin_behind(buffer& chunk, std::size_t place) {
  connection& c = *chunk.owner->connection;
  rail& r = c.at_core.rails->rails[place];
  fence_op* const w = operations_.create(*chunk.owner, place, &chunk);
  if (!w) return false;
  chunk.rail = posted_op::behind_fence;
  r.fences.push_back(*w);
  post_waiting(c, r);
  return true;
}

void write_fence::post_waiting(connection& c, rail& r) {
  while (r.now == rail::state::up && !r.fences.empty()) {
    auto& w = static_cast<fence_op&>(r.fences.front());
    r.fences.pop_front();
    const int ret = post(c, r, w);
    if (ret == 0) continue;
    r.fences.push_front(w);
    if (ret == -FI_EAGAIN) break;
    rails_.fail(c, r);
  }
  if (r.now == rail::state::up && !r.fences.empty()) rails_.look_at(c);
}

int write_fence::post(connection& c, rail& r, fence_op& w) {
  cell* const into = cell_at(r.nic);
  if (!into) return -FI_ENOMEM;
  const rma_request operation{.read = true,
                              .bytes = &into->bytes,
                              .descriptor = into->mr.descriptor(),
                              .length = sizeof into->bytes,
                              .remote = c.at_core.rails->fence_at(r.peer_nic)};
  const int ret = transport_.post(c, r, w, operation);
  if (ret == 0) w.rail = static_cast<std::uint8_t>(w.place + 1);
  return ret;
}

transfer* write_fence::finish(fence_op& w) noexcept {
  transfer* const t = w.owner;
  operations_.destroy(&w);
  return t;
}

void write_fence::give_up(rail& r) noexcept {
  while (!r.fences.empty()) {
    auto& w = static_cast<fence_op&>(r.fences.front());
    r.fences.pop_front();
    if (w.chunk) {
      w.chunk->rail = 0;  // the next one to have it begins without
      release_staging(*w.chunk);
    }
    operations_.destroy(&w);
  }
}

}  // namespace gaudi::proto
