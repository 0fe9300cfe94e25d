// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "copy/engine_submissions.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <boost/container/static_vector.hpp>
#include <iterator>
#include <new>

#include "base/cancellation_deferred.hpp"
#include "base/make_room.hpp"

namespace gaudi::copy {
namespace {

// Copies that are given to the engine together end together, so only short ones are, and no more of
// them than take it some microseconds: what is longer is copied in chunks, each of which is to
// leave as soon as it is there.
constexpr std::size_t max_batched = std::size_t{64} * 1024;
constexpr std::size_t max_batch_bytes = std::size_t{512} * 1024;
constexpr std::size_t max_parts = 16;

}  // namespace

bool engine_submissions::copy_of::waits_for(const reg::region& r) const noexcept {
  const std::uint64_t on_device = dir == direction::host_to_device ? part.dst : part.src;
  return waits() && on_device - r.address < r.length;
}

base::result<dma_engine*> engine_submissions::engine_for(device::device& on) noexcept try {
  for (const auto& engine : engines_) {
    if (engine->owner().get() == &on) return engine.get();
  }
  std::erase_if(engines_, [&](const auto& engine) {
    return engine->owner()->lost() != 0 &&
           std::none_of(copies_.begin(), copies_.end(),
                        [&](const copy_of& c) { return c.engine == engine.get(); });
  });
  auto engine = dma_engine::for_device(on.shared_from_this(), config_);
  if (!engine) return engine.failure();
  engines_.push_back(*engine);
  return engines_.back().get();
} catch (const std::bad_alloc&) {
  return base::error{-FI_ENOMEM};
}

int engine_submissions::submit(dma_engine& on, copy_job& job, const copy_part& part,
                               direction dir) {
  if (!base::make_room(copies_)) return -FI_ENOMEM;
  const copy_of later{&on, {}, &job, {}, part, dir};
  if (can_wait_for_others(later)) {
    add_waiting(later);
    return 0;
  }
  for (;;) {
    const auto submitted = on.submit(part.dst, part.src, part.length, dir);
    if (submitted) {
      on.owner()->counted().staged_bytes.add(part.length);
      add_submitted(on, *submitted, job);
      return 0;
    }
    if (submitted.code() != -FI_EAGAIN) return submitted.code();
    // The engine is full. Its copies end without our help, so waiting for one cannot block for
    // long. Those of other endpoints end when these look at them, which may be after this call.
    if (wait_for_one(on)) continue;
    add_waiting(later);
    return 0;
  }
}

// A short copy behind others of ours: the next poll(), which these need anyway, gives the engine
// all that have come until then, with one call of the driver.
bool engine_submissions::can_wait_for_others(const copy_of& c) const noexcept {
  return c.part.length <= max_batched && c.engine->max_parts() > 1 &&
         std::any_of(copies_.begin(), copies_.end(), [&](const copy_of& other) {
           return other.engine == c.engine && other.ticket.id != 0;
         });
}

void engine_submissions::add_waiting(const copy_of& c) {
  copies_.push_back(c);
  ++c.job->copies;
  ++waiting_;
}

int engine_submissions::submit_within(device::device& on, copy_job& job,
                                      const copy_part& part) noexcept try {
  const base::cancellation_deferred until_it_is_submitted;
  const auto engine = engine_for(on);
  if (!engine) return engine.code();
  if (!base::make_room(copies_)) return -FI_ENOMEM;
  const auto submitted =
      (*engine)->submit(part.dst, part.src, part.length, direction::device_to_device);
  if (!submitted) return submitted.code();
  add_submitted(**engine, *submitted, job);
  return 0;
} catch (const std::bad_alloc&) {
  return -FI_ENOMEM;
}

void engine_submissions::add_submitted(dma_engine& engine, ticket of, copy_job& job) {
  copies_.push_back({&engine, of, &job});
  ++job.copies;
  copies_.back().began = observer_.copy_began();
}

void engine_submissions::ended(const copy_of& c, int ret) noexcept {
  if (c.began != base::clock::time_point{} && ret == 0) observer_.copy_took(c.began);
}

// Neighbours that wait, from this one on, as many as one submission is to have.
std::span<engine_submissions::copy_of> engine_submissions::batch_from(std::size_t first) noexcept {
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
int engine_submissions::begin(std::span<copy_of> batch, bool urgently) {
  boost::container::static_vector<copy_part, max_parts> parts;
  for (const copy_of& c : batch) parts.push_back(c.part);
  const copy_of& head = batch.front();
  const std::span<const copy_part> all(parts.data(), parts.size());
  const auto ticket =
      urgently ? head.engine->submit_urgently(all, head.dir) : head.engine->submit(all, head.dir);
  if (!ticket && ticket.code() == -FI_EAGAIN) return -FI_EAGAIN;
  for (copy_of& c : batch) {
    if (ticket) {
      c.ticket = *ticket;
      c.engine->owner()->counted().staged_bytes.add(c.part.length);
    } else {
      c.job->failed = ticket.code();
    }
    c.part = {};
  }
  waiting_ -= batch.size();
  return 0;
}

void engine_submissions::begin_waiting() {
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
void engine_submissions::begin_now(copy_of& c) {
  while (c.waits() && begin({&c, 1}, true) != 0) {
    if (wait_for_one(*c.engine)) continue;
    c.job->failed = -FI_EAGAIN;
    c.part = {};
    --waiting_;
  }
}

bool engine_submissions::wait_for_one(dma_engine& engine) {
  const auto c = std::find_if(copies_.begin(), copies_.end(), [&](const copy_of& one) {
    return one.engine == &engine && one.ticket.id != 0;
  });
  if (c == copies_.end()) return false;
  wait_for_end(c);
  return true;
}

// It stays for poll() to tell of.
void engine_submissions::wait_for_end(std::vector<copy_of>::iterator c) {
  end_ticket(c, c->engine->wait(c->ticket, -1));
}

// All that it stood for.
void engine_submissions::end_ticket(std::vector<copy_of>::iterator c, int ret) noexcept {
  const copy_of known = *c;
  while (c != copies_.begin() && std::prev(c)->ends_with(known)) --c;
  for (; c != copies_.end() && c->ends_with(known); ++c) {
    ended(*c, ret);
    if (ret) c->job->failed = ret;
    c->ticket = {};
  }
}

int engine_submissions::wait_for(copy_job& job) {
  const base::cancellation_deferred until_it_has_ended;
  for (auto it = copies_.begin(); it != copies_.end();) {
    if (it->job != &job) {
      ++it;
      continue;
    }
    begin_now(*it);
    if (it->ticket.id != 0) wait_for_end(it);
    --job.copies;
    it = copies_.erase(it);
  }
  return job.failed;
}

void engine_submissions::end_all() noexcept {
  for (auto c = copies_.begin(); c != copies_.end(); ++c) {
    if (c->ticket.id) wait_for_end(c);
  }
  copies_.clear();
  waiting_ = 0;
}

void engine_submissions::finish_those_of(const reg::region& r) {
  for (auto c = copies_.begin(); c != copies_.end(); ++c) {
    if (c->engine->owner().get() != r.owner) continue;
    if (c->waits_for(r)) begin_now(*c);
    if (c->ticket.id) wait_for_end(c);
  }
}

// Each look at a copy is an ioctl. The oldest end first, or nearly so: when two of them are not
// done, the younger ones can wait, and the wire cannot.
void engine_submissions::poll() {
  constexpr std::size_t busy_enough = 2;
  if (waiting_ != 0) begin_waiting();
  std::size_t passed = 0;  // that wait
  copy_of busy{};          // the last of those that are not done
  for (std::size_t i = 0; i < std::min(copies_.size(), busy_enough + passed);) {
    copy_of& c = copies_[i];
    if (c.waits()) {
      ++passed;
      ++i;
      continue;
    }
    if (c.ticket.id != 0) {
      const int ret = busy.ends_with(c) ? -FI_EAGAIN : c.engine->poll(c.ticket);
      if (ret == -FI_EAGAIN) {
        busy = c;
        ++i;
        continue;
      }
      end_ticket(copies_.begin() + static_cast<std::ptrdiff_t>(i), ret);
    }
    copy_job& job = *c.job;
    // Keeps the order, so that older copies are looked at first.
    copies_.erase(copies_.begin() + static_cast<std::ptrdiff_t>(i));
    if (--job.copies == 0) observer_.copied(job);
  }
}

void engine_submissions::prefer_lost() noexcept {
  std::stable_partition(copies_.begin(), copies_.end(),
                        [](const copy_of& c) { return c.engine->owner()->lost() != 0; });
}

}  // namespace gaudi::copy
