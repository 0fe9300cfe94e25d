// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/operation/device_copies.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <boost/container/static_vector.hpp>
#include <cstring>
#include <iterator>
#include <new>

#include "base/cancellation_deferred.hpp"
#include "base/make_room.hpp"
#include "proto/operation/buffer_pool.hpp"

namespace gaudi::proto {
namespace {

// Copies that are given to the engine together end together, so only short ones are, and no more of
// them than take it some microseconds: what is longer is copied in chunks, each of which is to
// leave as soon as it is there.
constexpr std::size_t max_batched = std::size_t{64} * 1024;
constexpr std::size_t max_batch_bytes = std::size_t{512} * 1024;
constexpr std::size_t max_parts = 16;

}  // namespace

bool device_copies::copy_of::waits_for(const reg::region& r) const noexcept {
  const std::uint64_t on_device = dir == copy::direction::host_to_device ? part.dst : part.src;
  return waits() && on_device - r.address < r.length;
}

base::result<copy::dma_engine*> device_copies::engine_for(device::device& on) noexcept try {
  for (const auto& engine : engines_) {
    if (engine->owner().get() == &on) return engine.get();
  }
  std::erase_if(engines_, [&](const auto& engine) {
    return engine->owner()->lost() != 0 &&
           std::none_of(copies_.begin(), copies_.end(),
                        [&](const copy_of& c) { return c.engine == engine.get(); });
  });
  auto engine = copy::dma_engine::for_device(on.shared_from_this(), config_);
  if (!engine) return engine.failure();
  engines_.push_back(*engine);
  return engines_.back().get();
} catch (const std::bad_alloc&) {
  return base::error{-FI_ENOMEM};
}

int device_copies::start(buffer& b, std::size_t at, const local_memory& memory, std::size_t offset,
                         std::size_t length, copy::direction dir) noexcept {
  int ret = -FI_ENOMEM;
  try {
    ret = start_all(b, at, memory, offset, length, dir);
  } catch (const std::bad_alloc&) {
    // As a failure that is told.
  }
  if (ret && b.copies) wait_for(b);
  return ret;
}

int device_copies::start_all(buffer& b, std::size_t at, const local_memory& memory,
                             std::size_t offset, std::size_t length, copy::direction dir) {
  while (length) {
    const auto place = memory.at(offset);
    const std::size_t part = std::min(length, place.left());
    if (const int ret = start_part(b, at, place, part, dir)) return ret;
    at += part;
    offset += part;
    length -= part;
  }
  return 0;
}

int device_copies::start_part(buffer& b, std::size_t at, const local_memory::place& place,
                              std::size_t length, copy::direction dir) {
  const local_segment& segment = *place.segment;
  if (segment.owner) return start_on(*segment.owner, b, at, place.address(), length, dir);
  const bool to_device = dir == copy::direction::host_to_device;
  if (!segment.is_host()) return copy_imported(b, at, place, length, to_device);
  if (to_device) {
    std::memcpy(reinterpret_cast<void*>(place.address()), b.bytes + at, length);
  } else {
    std::memcpy(b.bytes + at, reinterpret_cast<const void*>(place.address()), length);
  }
  return 0;
}

// Memory that no device of ours has: the NIC reads it, or sends it our buffer, here and now.
int device_copies::copy_imported(const buffer& b, std::size_t at, const local_memory::place& place,
                                 std::size_t length, bool to_device) {
  const base::cancellation_deferred until_it_is_copied;
  const core::inner_mr* const known =
      place.segment->registered->core_for(to_device ? 0 : FI_REMOTE_READ);
  // The core does not know what is shared with a peer.
  if (!known || !loop_ || b.home.slots) return -FI_EOPNOTSUPP;
  std::byte* const here = b.bytes + at;
  const std::uint64_t there = place.address();
  const auto done = to_device
                        ? loop_->copy({reinterpret_cast<std::byte*>(there), known->descriptor()},
                                      {here, b.descriptor()}, length)
                        : loop_->read(here, b.descriptor(), length, there, known->key());
  return done.code();
}

int device_copies::start_on(device::device& on, buffer& b, std::size_t at, std::uint64_t address,
                            std::size_t length, copy::direction dir) {
  const base::cancellation_deferred until_it_is_submitted;
  const auto engine = engine_for(on);
  if (!engine) return engine.code();
  const auto host = b.device_address(on);
  if (!host) return host.code();
  const bool to_device = dir == copy::direction::host_to_device;
  const std::uint64_t dst = to_device ? address : *host + at;
  const std::uint64_t src = to_device ? *host + at : address;
  if (!base::make_room(copies_)) return -FI_ENOMEM;
  const copy_of later{*engine, {}, &b, {}, {dst, src, length}, dir};
  if (can_wait_for_others(later)) {
    add_waiting(later);
    return 0;
  }
  for (;;) {
    const auto ticket = (*engine)->submit(dst, src, length, dir);
    if (ticket) {
      on.counted().staged_bytes.add(length);
      add_submitted(**engine, *ticket, b);
      return 0;
    }
    if (ticket.code() != -FI_EAGAIN) return ticket.code();
    // The engine is full. Its copies end without our help, so waiting for one cannot block for
    // long. Those of other endpoints end when these look at them, which may be after this call.
    if (wait_for_one(**engine)) continue;
    add_waiting(later);
    return 0;
  }
}

// A short copy behind others of ours: the next poll(), which these need anyway, gives the engine
// all that have come until then, with one call of the driver.
bool device_copies::can_wait_for_others(const copy_of& c) const noexcept {
  return c.part.length <= max_batched && c.engine->max_parts() > 1 &&
         std::any_of(copies_.begin(), copies_.end(), [&](const copy_of& other) {
           return other.engine == c.engine && other.ticket.id != 0;
         });
}

void device_copies::add_waiting(const copy_of& c) {
  copies_.push_back(c);
  ++c.chunk->copies;
  ++waiting_;
}

int device_copies::start_within(device::device& on, buffer& stands_for_it, std::uint64_t to,
                                std::uint64_t from, std::size_t length) noexcept try {
  const base::cancellation_deferred until_it_is_submitted;
  const auto engine = engine_for(on);
  if (!engine) return engine.code();
  if (!base::make_room(copies_)) return -FI_ENOMEM;
  const auto ticket = (*engine)->submit(to, from, length, copy::direction::device_to_device);
  if (!ticket) return ticket.code();
  add_submitted(**engine, *ticket, stands_for_it);
  return 0;
} catch (const std::bad_alloc&) {
  return -FI_ENOMEM;
}

void device_copies::add_submitted(copy::dma_engine& engine, copy::ticket ticket, buffer& b) {
  using stream = latency_sampler::stream;
  copies_.push_back({&engine, ticket, &b});
  ++b.copies;
  if (latencies_.is_due(stream::copy)) copies_.back().began = latencies_.begin(stream::copy);
}

void device_copies::ended(const copy_of& c, int ret) noexcept {
  if (c.began != base::clock::time_point{} && ret == 0)
    latencies_.end(latency_sampler::kind::device_copy, c.began);
}

// Neighbours that wait, from this one on, as many as one submission is to have.
std::span<device_copies::copy_of> device_copies::batch_from(std::size_t first) noexcept {
  const copy_of& head = copies_[first];
  const std::size_t limit = std::min(head.engine->max_parts(), max_parts);
  std::size_t count = 1;
  for (std::size_t bytes = head.part.length; count < limit && first + count < copies_.size();
       ++count) {
    const copy_of& next = copies_[first + count];
    bytes += next.part.length;
    if (!next.goes_with(head) || bytes > max_batch_bytes) break;
  }
  return std::span(copies_).subspan(first, count);
}

// 0: they are under way, or have ended in error already; -FI_EAGAIN: the engine has no room.
int device_copies::begin(std::span<copy_of> batch, bool urgently) {
  boost::container::static_vector<copy::copy_part, max_parts> parts;
  for (const copy_of& c : batch) parts.push_back(c.part);
  const copy_of& head = batch.front();
  const std::span<const copy::copy_part> all(parts.data(), parts.size());
  const auto ticket =
      urgently ? head.engine->submit_urgently(all, head.dir) : head.engine->submit(all, head.dir);
  if (!ticket && ticket.code() == -FI_EAGAIN) return -FI_EAGAIN;
  for (copy_of& c : batch) {
    if (ticket) {
      c.ticket = *ticket;
      c.engine->owner()->counted().staged_bytes.add(c.part.length);
    } else {
      c.chunk->failed = ticket.code();
    }
    c.part = {};
  }
  waiting_ -= batch.size();
  return 0;
}

void device_copies::begin_waiting() {
  for (std::size_t i = 0; i < copies_.size();) {
    if (!copies_[i].waits()) {
      ++i;
      continue;
    }
    const std::span<copy_of> batch = batch_from(i);
    static_cast<void>(begin(batch, false));
    i += batch.size();
  }
}

// For who cannot come back later.
void device_copies::begin_now(copy_of& c) {
  while (c.waits() && begin({&c, 1}, true) != 0) {
    if (wait_for_one(*c.engine)) continue;
    c.chunk->failed = -FI_EAGAIN;
    c.part = {};
    --waiting_;
  }
}

bool device_copies::wait_for_one(copy::dma_engine& engine) {
  const auto c = std::find_if(copies_.begin(), copies_.end(), [&](const copy_of& one) {
    return one.engine == &engine && one.ticket.id != 0;
  });
  if (c == copies_.end()) return false;
  wait_for_end(c);
  return true;
}

// It stays for poll() to tell of.
void device_copies::wait_for_end(std::vector<copy_of>::iterator c) {
  end_ticket(c, c->engine->wait(c->ticket, -1));
}

// All that it stood for.
void device_copies::end_ticket(std::vector<copy_of>::iterator c, int ret) noexcept {
  const copy_of known = *c;
  while (c != copies_.begin() && std::prev(c)->ends_with(known)) --c;
  for (; c != copies_.end() && c->ends_with(known); ++c) {
    ended(*c, ret);
    if (ret) c->chunk->failed = ret;
    c->ticket = {};
  }
}

int device_copies::wait_for(buffer& b) {
  const base::cancellation_deferred until_it_has_ended;
  for (auto it = copies_.begin(); it != copies_.end();) {
    if (it->chunk != &b) {
      ++it;
      continue;
    }
    begin_now(*it);
    if (it->ticket.id != 0) wait_for_end(it);
    --b.copies;
    it = copies_.erase(it);
  }
  return b.failed;
}

void device_copies::end_all() noexcept {
  for (auto c = copies_.begin(); c != copies_.end(); ++c) {
    if (c->ticket.id) wait_for_end(c);
  }
  copies_.clear();
  waiting_ = 0;
}

void device_copies::finish_those_of(const reg::region& r) {
  for (auto c = copies_.begin(); c != copies_.end(); ++c) {
    if (c->engine->owner().get() != r.owner) continue;
    if (c->waits_for(r)) begin_now(*c);
    if (c->ticket.id) wait_for_end(c);
  }
}

// Each look at a copy is an ioctl. The oldest end first, or nearly so: when two of them are not
// done, the younger ones can wait, and the wire cannot.
void device_copies::poll() {
  constexpr std::size_t busy_enough = 2;
  if (waiting_ != 0) begin_waiting();
  std::size_t passed = 0;  // that wait
  const copy_of* busy = nullptr;
  for (std::size_t i = 0; i < std::min(copies_.size(), busy_enough + passed);) {
    copy_of& c = copies_[i];
    if (c.waits()) {
      ++passed;
      ++i;
      continue;
    }
    if (c.ticket.id != 0) {
      const int ret = busy && busy->ends_with(c) ? -FI_EAGAIN : c.engine->poll(c.ticket);
      if (ret == -FI_EAGAIN) {
        busy = &c;
        ++i;
        continue;
      }
      end_ticket(copies_.begin() + static_cast<std::ptrdiff_t>(i), ret);
    }
    buffer& chunk = *c.chunk;
    // Keeps the order, so that older copies are looked at first.
    copies_.erase(copies_.begin() + static_cast<std::ptrdiff_t>(i));
    busy = nullptr;
    if (--chunk.copies == 0) observer_.copied(chunk);
  }
}

void device_copies::prefer_lost() noexcept {
  std::stable_partition(copies_.begin(), copies_.end(),
                        [](const copy_of& c) { return c.engine->owner()->lost() != 0; });
}

}  // namespace gaudi::proto
