// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What moves everything: completions of the core, ends of device copies, connection events, and
// what had to wait for room.
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/cancellation_deferred.hpp"
#include "base/log.hpp"
#include "base/make_room.hpp"
#include "core/cq_error.hpp"
#include "proto/endpoint.hpp"

namespace gaudi::proto {
namespace {

// Peers that send without end are not to keep a call of the application's.
constexpr std::size_t completions_at_once = 1024;
// More than a peer has credits for: 16 packets a look.
constexpr unsigned looks_at_the_end = 64;

}  // namespace

void endpoint::completed_or_end(posted_op& w, std::size_t length, int error) noexcept {
  on_behalf_of(w.connection, [&] { completed(w, length, error); });
}

void endpoint::progress() noexcept try {
  if (!enabled()) return;
  const base::cancellation_deferred until_it_is_done;
  if (device::device_loss_epoch::count() != losses_seen_) [[unlikely]]
    end_lost();
  if (any_waiting_) [[unlikely]]
    go_on_with_waiting();
  if (shm_connections_.empty() || poll_shm_first()) handle_completions(completions_at_once);
  if (!local_copies_.empty()) end_local_copies();
  if (!pending_assists_.empty()) help_peers();
  if (copies_.any()) copies_.poll();
  if (!stalled_.empty() || !write_backlog_.empty()) retry_stalled();
  if (receive_buffers_->short_of_posted()) [[unlikely]]
    receive_buffers_->post_more();
  if (!receives_waiting_.empty()) [[unlikely]]
    post_waiting_receives();
  if (!withholding_.empty()) [[unlikely]]
    return_withheld();
  if (!control_waiting_.empty() || !ordered_waiting_.empty()) flush_waiting();
  if (!doorbells_.empty()) ring_doorbells();
  if (exported_.any_freed()) tell_of_freed();
  connections_->poll();
} catch (const std::bad_alloc&) {
  memory_is_short();
}

void endpoint::go_on_with_waiting() {
  if (any_postponed_) retry_postponed();
  if (!early_.empty()) go_on_with_early();
  if (closer_.any()) closer_.poll();
  any_waiting_ = any_postponed_ || !early_.empty() || closer_.any();
}

void endpoint::memory_is_short() noexcept {
  if (!std::exchange(told_of_memory_, true))
    GAUDI_WARN(EP_DATA, "memory is short: operations fail or wait\n");
}

// A look at the core can be a system call (tcp), which takes longer than all of a local message: as
// long as those come, it has to wait for some looks at them. Whether it is its turn.
bool endpoint::poll_shm_first() {
  constexpr unsigned quiet = 256;  // looks at links that brought nothing
  constexpr unsigned looks_at_links = 64;
  if (poll_shm()) {
    quiet_looks_ = 0;
  } else if (quiet_looks_ < quiet) {
    ++quiet_looks_;
  }
  if (quiet_looks_ < quiet && ++core_waits_ < looks_at_links) return false;
  core_waits_ = 0;
  return true;
}

bool endpoint::needs_polling() const noexcept {
  return copies_.any() || any_postponed_ || early_wait_unnoticed() || closer_.owes_answer() ||
         receive_buffers_->short_of_posted() || !local_copies_.empty() ||
         !pending_assists_.empty() || !doorbells_.empty() || can_post_receives() ||
         waits_unnoticed();
}

// Whether something waits for what nobody tells of. A peer that is stopped keeps things waiting for
// as long as it likes, and no thread is to be busy meanwhile: where the core has work for that
// peer, the end of it, which is told, comes before any room; and credits come by message.
bool endpoint::waits_unnoticed() const noexcept {
  const auto must = [this](std::uint32_t id) { return must_flush(id); };
  return std::any_of(write_backlog_.begin(), write_backlog_.end(),
                     [](const buffer* b) { return b->owner->connection->posted.empty(); }) ||
         std::any_of(stalled_.begin(), stalled_.end(),
                     [this](const transfer& t) { return must_retry(t); }) ||
         std::any_of(control_waiting_.begin(), control_waiting_.end(), must) ||
         std::any_of(ordered_waiting_.begin(), ordered_waiting_.end(), must);
}

bool endpoint::must_retry(const transfer& t) const noexcept {
  if (t.starved) return chunks_->is_worth_another_try() || tried_in_vain_ < stalled_.size();
  // The engine may be full of what others have it do.
  const bool by_core =
      t.strategy == transfer_strategy::pull ? !t.via_copy_engine : !t.memory.on_device();
  return !by_core || !t.connection || t.connection->posted.empty();
}

// Nobody tells of room in shared memory either.
bool endpoint::must_flush(std::uint32_t id) const noexcept {
  const connection* const c = connections_->find(id);
  if (!c) return true;
  if (!c->usable()) return false;
  const bool has_control = !c->control_queue.empty() || !c->control_buffers.empty();
  const bool has_something =
      !c->ordered.empty() || (has_control && c->control.can_send()) || c->returns_due();
  return has_something && (c->shm || c->posted.empty());
}

int endpoint::try_wait() noexcept try {
  if (!enabled()) return 0;
  const base::cancellation_deferred until_it_is_known;
  progress();
  connections_->poll_now();
  if (needs_polling() || !shm_may_sleep()) return -FI_EAGAIN;
  if (wait_fds_.empty()) return 0;
  std::array<fid*, 2> sources{&core_queue_->fid, connections_->events()};
  return fi_trywait(core_.fabric(), sources.data(), static_cast<int>(sources.size()));
} catch (const std::bad_alloc&) {
  memory_is_short();
  return -FI_EAGAIN;
}

// `most`: completions, one look more or less. How many there were: 0 says that the queue is empty,
// and fewer than `most` does not, as an error comes alone.
std::size_t endpoint::handle_completions(std::size_t most) {
  std::array<fi_cq_msg_entry, 16> entries;
  std::size_t taken = 0;
  while (taken < most) {
    const ssize_t count = fi_cq_read(core_queue_.get(), entries.data(), entries.size());
    if (count == -FI_EAVAIL) {
      handle_core_error();
      ++taken;
      continue;
    }
    if (count <= 0) break;
    taken += static_cast<std::size_t>(count);
    for (ssize_t i = 0; i < count; ++i) {
      if (entries[i].op_context)
        completed_or_end(posted_op::from_context(entries[i].op_context), entries[i].len, 0);
    }
    if (count < static_cast<ssize_t>(entries.size())) break;
  }
  return taken;
}

void endpoint::handle_core_error() {
  // Newer releases write a longer entry than this version declares.
  union {
    fi_cq_err_entry entry;
    std::byte space[256];
  } error{};
  if (fi_cq_readerr(core_queue_.get(), &error.entry, 0) < 1) return;
  // An injected message has no context: the connection's own event tells of its end.
  if (error.entry.op_context)
    completed_or_end(posted_op::from_context(error.entry.op_context), 0,
                     core::cause_of(error.entry, core_));
}

void endpoint::completed(posted_op& w, std::size_t length, int error) {
  if (w.what == posted_op::kind::receive)
    return receive_completed(static_cast<buffer&>(w), length, error);
  --at_core_;
  connection* c = w.connection;
  if (c) {
    c->posted.erase(c->posted.iterator_to(w));
    w.connection = nullptr;
  }
  switch (w.what) {
    case posted_op::kind::message:
      message_sent(static_cast<buffer&>(w), error);
      break;
    case posted_op::kind::chunk:
      chunk_completed(static_cast<buffer&>(w), error);
      break;
    case posted_op::kind::piece:
      piece_completed(static_cast<rma_op&>(w), error);
      break;
    case posted_op::kind::receive:
      break;
  }
}

void endpoint::list_posted(connection& c, posted_op& w) noexcept {
  ++at_core_;
  w.connection = &c;
  c.posted.push_back(w);
}

void endpoint::retry_stalled() {
  if (chunks_->is_worth_another_try()) tried_in_vain_ = 0;
  chunks_->forget_returns();
  std::vector<buffer*> buffers;
  buffers.swap(write_backlog_);
  for (buffer* b : buffers)
    on_behalf_of(b->owner->connection, [&] { chunk_loaded(*b->owner, *b, 0); });
  // Most wait for the same: where several in a row found none of it, the rest has its turn later.
  constexpr unsigned max_in_vain = 16;
  unsigned in_vain = 0;
  for (std::size_t left = stalled_.size(); left > 0 && in_vain < max_in_vain; --left) {
    if (stalled_.empty()) return;
    transfer& t = stalled_.front();
    stalled_.pop_front();
    const std::size_t others = stalled_.size();
    on_behalf_of(t.connection, [&] { progress_transfer(t); });
    in_vain = stalled_.size() > others ? in_vain + 1 : 0;
    tried_in_vain_ = in_vain == 0 ? 0 : tried_in_vain_ + 1;
  }
}

void endpoint::flush_waiting() {
  std::erase_if(ordered_waiting_, [this](std::uint32_t id) {
    connection* c = connections_->find(id);
    if (c) on_behalf_of(c, [&] { flush_ordered(*c); });
    return !c || c->ordered.empty();
  });
  std::erase_if(control_waiting_, [this](std::uint32_t id) {
    connection* c = connections_->find(id);
    if (!c) return true;
    on_behalf_of(c, [&] { flush_control(*c); });
    if (!c->control_queue.empty() || !c->control_buffers.empty() || c->returns_due()) return false;
    c->control_waits = false;
    return true;
  });
}

// Over a stream; elsewhere receives are posted for all.
void endpoint::post_receives(connection& c) {
  if (receive_buffers_->post_more(c) || c.receives_short) return;
  if (!base::make_room(receives_waiting_)) return connections_->fail_soon(c, FI_ENOMEM);
  receives_waiting_.push_back(c.id);
  c.receives_short = true;
}

void endpoint::post_waiting_receives() {
  if (!receive_buffers_->has_room()) return;
  std::erase_if(receives_waiting_, [this](std::uint32_t id) {
    connection* const c = connections_->find(id);
    if (c && !receive_buffers_->post_more(*c)) return false;
    if (c) c->receives_short = false;
    return true;
  });
}

// Each connection may be in each of these lists, and a message that has come on one whose place
// there cannot be made would be lost. Throws std::bad_alloc: the connection is not made then.
void endpoint::make_room_for_connections() {
  const std::size_t count = connections_->count();
  const auto reserve = [count](auto& list) {
    if (list.capacity() < count) list.reserve(2 * count);
  };
  reserve(shm_connections_);
  for (auto* list :
       {&control_waiting_, &ordered_waiting_, &receives_waiting_, &doorbells_, &withholding_})
    reserve(*list);
}

void endpoint::connection_opened(connection& c) {
  make_room_for_connections();
  // The peer may send as soon as it knows of this.
  receive_buffers_->serve(connections_->count());
  post_receives(c);
}

void endpoint::connection_up(connection& c) {
  ++paths_.connections_made;
  if (c.shm) add_shm_channel(c);
  if (c.refused_shm) ring_doorbell(c);
  post_receives(c);
  go_on_with(c);
}

// New operations may begin: those that waited for it are the first.
void endpoint::go_on_with(connection& c) {
  if (c.remote->early != 0 && c.remote->current == &c) post_early(*c.remote);
}

// What is there now was posted before: as many completions as there is work at the core find it,
// however much other peers send meanwhile.
void endpoint::connections_ending() {
  if (any_postponed_) retry_postponed();
  // All that there is now: another connection's errors may stand before this one's last words.
  for (std::size_t left = receive_buffers_->out() + at_core_; left != 0;) {
    const std::size_t taken = handle_completions(left);
    if (taken == 0) break;
    left -= std::min(left, taken);
  }
  for (unsigned looks = 0; looks < looks_at_the_end && poll_shm(); ++looks) {
  }
}

void endpoint::connection_down(connection& c, int error) {
  const bool was_wanted = c.closing.is_wanted();
  ++(was_wanted ? paths_.connections_closed : paths_.connections_lost);
  std::erase(shm_connections_, &c);
  exported_.forget_connection(c.id);
  if (config_.imports) config_.imports->forget_peer(c.remote_instance);
  drop_postponed(c);
  fail_posted(c, error);
  fail_queued(c, error);
  fail_transfers(c, error);
  forget_rendezvous_of(c);
  // They tell the application of the error, so no operation has to. Those that came while both ends
  // closed the connection are for the next one.
  if (!was_wanted && !c.remote->current && early_.fail(*c.remote, error)) c.remote->last_error = 0;
}

// The core endpoint is closed, so the application's memory is its own again, and no registration of
// ours on it stays; the works themselves come back later, as errors that nobody waits for, or not
// at all where the queue closes first.
void endpoint::fail_posted(connection& c, int error) {
  while (!c.posted.empty()) {
    posted_op& w = c.posted.front();
    c.posted.pop_front();
    w.connection = nullptr;
    if (w.what == posted_op::kind::piece) {
      auto& piece = static_cast<rma_op&>(w);
      piece.owner = nullptr;
      piece.local = {};
    } else {
      auto& b = static_cast<buffer&>(w);
      b.owner = nullptr;
      b.on_sent.end({.error = error});
      b.on_sent = {};
    }
  }
}

void endpoint::fail_queued(connection& c, int error) {
  for (auto* queue : {&c.ordered, &c.control_buffers}) {
    for (buffer* b : *queue) {
      if (b->copies) copies_.wait_for(*b);
      b->on_sent.end({.error = error});
      recycle(*b);
    }
    queue->clear();
  }
  c.control_queue.clear();
}

void endpoint::fail_transfers(connection& c, int error) {
  // A device may still be writing to or reading from the application's memory: that ends by itself,
  // soon.
  const auto is_its = [&](const buffer& b) { return b.owner && b.owner->connection == &c; };
  while (buffer* const b = copies_.find(is_its)) {
    copies_.wait_for(*b);
    const auto kind = b->owner->strategy;
    if (kind == transfer_strategy::copy_out) {
      // All of it was here before the peer went.
      copied(*b);
      continue;
    }
    b->owner = nullptr;
    if (kind != transfer_strategy::recv_staged) release_staging(*b);
  }
  std::erase_if(write_backlog_, [&](buffer* b) {
    if (b->owner->connection != &c) return false;
    release_staging(*b);
    return true;
  });
  while (!c.transfers.empty()) {
    transfer& t = c.transfers.front();
    t.in_flight = 0;
    if (t.cooperative && !helper_is_through(t)) outlive_connection(t);
    // One that only waits for its `fin` to leave has all that it was for.
    t.flushing ? try_retire(t) : complete(t, error);
  }
}

// A message that is all here can still be received; one whose data is at the peer cannot.
void endpoint::forget_rendezvous_of(connection& c) {
  receives_->for_each_arrived([&](match_queue& queue, unexpected& m) {
    if (m.connection != &c) return;
    m.connection = nullptr;
    if (!m.info.rendezvous) return;
    queue.remove(m);
    forget(m);
  });
  for (auto& [context, m] : receives_->claimed_) {
    if (m->connection == &c) m->connection = nullptr;
  }
}

void endpoint::added(fi_addr_t index, const net_address& address) {
  peer& p = connections_->peer_named(address);
  if (index >= peers_by_address_.size()) peers_by_address_.resize(index + 1);
  peers_by_address_[index] = &p;
  p.address = std::min(p.address, index);
}

void endpoint::removed(fi_addr_t index, const net_address& address) {
  peer* p = peer_at(index);
  if (!p) return;
  peers_by_address_[index] = nullptr;
  p->address = addresses_->index_of(address);
  if (p->address != FI_ADDR_NOTAVAIL) return;
  closer_.not_needed(*p);
  any_waiting_ = true;
}

peer* endpoint::peer_at(fi_addr_t address) {
  return address < peers_by_address_.size() ? peers_by_address_[address] : nullptr;
}

}  // namespace gaudi::proto
