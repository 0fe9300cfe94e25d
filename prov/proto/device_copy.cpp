// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Copies between a message buffer or chunk and an operation's memory, part of which is a device's:
// by the device's engine, which tells later that it is done, or by the NIC.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/log.hpp"
#include "proto/endpoint.hpp"

namespace gaudi::proto {

base::result<copy::dma_engine*> endpoint::engine_for(device::device& on) {
  for (const auto& engine : engines_) {
    if (engine->owner().get() == &on) return engine.get();
  }
  std::erase_if(engines_, [&](const auto& engine) {
    return engine->owner()->lost() != 0 &&
           std::none_of(copies_.begin(), copies_.end(),
                        [&](const device_copy& c) { return c.engine == engine.get(); });
  });
  auto engine = copy::dma_engine::for_device(on.shared_from_this(), how_.copies);
  if (!engine) return engine.failure();
  engines_.push_back(*engine);
  return engines_.back().get();
}

// Starts the copies between a buffer and a part of local memory; parts in host memory are copied
// here and now. b.copies tells how many are under way.
int endpoint::copy_with_device(buffer& b, std::size_t at, const local_memory& memory,
                               std::size_t offset, std::size_t length, copy::direction dir) {
  while (length) {
    const auto place = memory.at(offset);
    const std::size_t part = std::min(length, place.left());
    if (const int ret = copy_part(b, at, place, part, dir)) {
      if (b.copies) wait_for_copies(b);
      return ret;
    }
    at += part;
    offset += part;
    length -= part;
  }
  return 0;
}

int endpoint::copy_part(buffer& b, std::size_t at, const local_memory::place& place,
                        std::size_t length, copy::direction dir) {
  const local_segment& segment = *place.segment;
  if (segment.on) return start_copy(b, at, *segment.on, place.address(), length, dir);
  const bool to_device = dir == copy::direction::host_to_device;
  if (!segment.is_host()) return copy_foreign(b, at, place, length, to_device);
  if (to_device) {
    std::memcpy(reinterpret_cast<void*>(place.address()), b.bytes + at, length);
  } else {
    std::memcpy(b.bytes + at, reinterpret_cast<const void*>(place.address()), length);
  }
  return 0;
}

// Memory that no device of ours has: the NIC reads it, or reads our buffer for it, here and now.
int endpoint::copy_foreign(const buffer& b, std::size_t at, const local_memory::place& place,
                           std::size_t length, bool to_device) {
  const core::inner_mr* const known =
      place.segment->registered->core_for(to_device ? 0 : FI_REMOTE_READ);
  // The core does not know what is shared with a peer.
  if (!known || !how_.loop || b.shared) return -FI_EOPNOTSUPP;
  std::byte* const here = b.bytes + at;
  const std::uint64_t there = place.address();
  const auto done = to_device
                        ? how_.loop->read(reinterpret_cast<void*>(there), known->descriptor(),
                                          length, reinterpret_cast<std::uint64_t>(here), b.key())
                        : how_.loop->read(here, b.descriptor(), length, there, known->key());
  return done.code();
}

int endpoint::start_copy(buffer& b, std::size_t at, device::device& on, std::uint64_t address,
                         std::size_t length, copy::direction dir) {
  const auto engine = engine_for(on);
  if (!engine) return engine.code();
  const auto host = b.device_address(on);
  if (!host) return host.code();
  const bool to_device = dir == copy::direction::host_to_device;
  for (;;) {
    const auto ticket = (*engine)->submit(to_device ? address : *host + at,
                                          to_device ? *host + at : address, length, dir);
    if (ticket) {
      on.counted().staged_bytes.add(length);
      copies_.push_back({*engine, *ticket, &b});
      ++b.copies;
      return 0;
    }
    if (ticket.code() != -FI_EAGAIN) return ticket.code();
    // The engine is full. Its copies end without our help, so waiting for one cannot block for
    // long. Those of other endpoints end when these look at them, which may be after this call.
    if (wait_for_a_copy(**engine)) continue;
    copies_.push_back({.engine = *engine,
                       .ticket = {},
                       .chunk = &b,
                       .dst = to_device ? address : *host + at,
                       .src = to_device ? *host + at : address,
                       .length = length,
                       .dir = dir});
    ++b.copies;
    return 0;
  }
}

// Gives it to the engine that had no room for it. 0: it is under way, or has ended in error
// already; -FI_EAGAIN: there still is none.
int endpoint::start_waiting(device_copy& c, bool urgently) {
  const auto ticket = urgently ? c.engine->submit_urgently(c.dst, c.src, c.length, c.dir)
                               : c.engine->submit(c.dst, c.src, c.length, c.dir);
  if (!ticket && ticket.code() == -FI_EAGAIN) return -FI_EAGAIN;
  if (ticket) {
    c.ticket = *ticket;
    c.engine->owner()->counted().staged_bytes.add(c.length);
  } else {
    c.chunk->failed = ticket.code();
  }
  c.length = 0;
  return 0;
}

// For who cannot come back later.
void endpoint::start_now(device_copy& c) {
  while (c.waits() && start_waiting(c, true) != 0) {
    if (wait_for_a_copy(*c.engine)) continue;
    c.chunk->failed = -FI_EAGAIN;
    c.length = 0;
  }
}

bool endpoint::wait_for_a_copy(copy::dma_engine& engine) {
  for (device_copy& c : copies_) {
    if (c.engine != &engine || c.ticket.id == 0) continue;
    if (const int ret = engine.wait(c.ticket, -1)) c.chunk->failed = ret;
    c.ticket = {};
    return true;
  }
  return false;
}

// Devices have been lost, for this endpoint or for others. What is under way on them ends here;
// what a peer does not know of yet ends there when its word comes.
void endpoint::end_lost() {
  losses_seen_ = device::losses::count();
  // Their copies fail at the next look, which those of other devices must not keep from being
  // taken.
  std::stable_partition(copies_.begin(), copies_.end(),
                        [](const device_copy& c) { return c.engine->owner()->lost() != 0; });
  if (how_.flush) how_.flush->forget_lost();
  receives_->fail_lost();
  // By name: the end of one can be that of its connection, and so of others.
  std::vector<base::slot_table<transfer>::id> ended;
  transfers_.for_each([&](transfer& t) {
    if (!t.ending && t.status == 0 && t.memory.loss() != 0) ended.push_back(t.id);
  });
  for (const auto id : ended) {
    if (transfer* t = transfers_.find(id)) end_by_loss(*t);
  }
}

// The application hears of it now, unless the core still has some host memory of its own. The
// transfer stays for what the core, or the peer, will say.
void endpoint::end_by_loss(transfer& t) {
  const bool peer_has_a_say =
      t.is == transfer::role::reader || (t.is == transfer::role::source && t.peer_operation == 0);
  t.status = t.memory.loss();
  if (peer_has_a_say || t.memory.only_on_device()) {
    completion entry = t.result;
    entry.error = t.status;
    std::exchange(t.asked, {}).end(entry);
  }
  if (!peer_has_a_say) finish(t, t.status);
}

// For a short payload the NIC's way from one memory of ours to the other is shorter than the
// device's engine, which takes a system call. Whether it was done.
bool endpoint::copy_by_nic(transfer& t, const buffer& from, std::size_t at) {
  if (!how_.loop || t.length > nic_limit_.most() ||
      how_.rendezvous == base::rendezvous_choice::staged || !t.memory.core_reaches(0))
    return false;
  device::device* const on = t.memory[0].on;
  const bool is_timed = t.memory.count() == 1 && on && nic_limit_.wants_time(t.length);
  using std::chrono::steady_clock;
  const auto began = is_timed ? steady_clock::now() : steady_clock::time_point{};
  if (!read_by_loop(t, from, at)) return false;
  t.nic_wrote = true;
  if (is_timed) {
    const std::chrono::duration<double, std::nano> took = steady_clock::now() - began;
    compare_nic(*on, t.length, took.count());
  }
  return true;
}

// A device without an engine leaves it to the NIC.
void endpoint::compare_nic(device::device& on, std::size_t length, double nic_ns) {
  if (!nic_limit_.took(length, nic_ns) || !on.generation().copies) return;
  const auto engine = engine_for(on);
  const bool flushes = how_.flush && how_.flush->reads_back(on);
  if (engine &&
      nic_limit_.judge(length, (*engine)->table()[copy::direction::host_to_device], flushes))
    GAUDI_INFO(EP_DATA, "short messages to %s: by the NIC up to %s, else by the engine\n",
               on.attributes().bus_id.c_str(), copy::limit_text(nic_limit_.most()).c_str());
}

bool endpoint::read_by_loop(const transfer& t, const buffer& from, std::size_t at) {
  std::size_t done = 0;
  while (done < t.length) {
    const auto place = t.memory.at(done);
    const std::size_t part = std::min(t.length - done, place.left());
    const std::byte* const bytes = from.bytes + at + done;
    if (place.segment->is_host()) {
      std::memcpy(reinterpret_cast<void*>(place.address()), bytes, part);
    } else if (!how_.loop->read(reinterpret_cast<void*>(place.address()),
                                place.segment->core_descriptor(), part,
                                reinterpret_cast<std::uint64_t>(bytes), from.key())) {
      return false;
    } else if (place.segment->on) {
      place.segment->on->counted().staged_bytes.add(part);
    }
    done += part;
  }
  return true;
}

}  // namespace gaudi::proto
