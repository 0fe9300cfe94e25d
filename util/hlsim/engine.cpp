// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "cs_table.hpp"
#include "packets.hpp"

namespace hlsim {
namespace {

/// One submission in this many is held back when only some are.
constexpr uint64_t hold_every = 8;
constexpr std::chrono::microseconds hold_sometimes{50};
constexpr std::chrono::microseconds hold_always{2000};

/// Bytes whose time is booked and copied at once, so that a stop is noticed.
constexpr uint64_t slice_bytes = 16 << 20;

}  // namespace

engine::engine(device_state& state, const model& m, const hbm_store& hbm,
               std::function<bool()> healthy, std::function<bool()> times_out)
    : state_(state),
      generation_(state.generation),
      mover_(state, m, hbm),
      pace_(current_settings()),
      healthy_(std::move(healthy)),
      times_out_(std::move(times_out)) {}

engine::~engine() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  completed_.notify_all();
  for (auto& [index, q] : queues_) q.has_jobs.notify_one();
  for (auto& [index, q] : queues_) q.worker.join();
}

void engine::submit(uint64_t seq, std::span<const command_buffer> buffers) {
  auto owner = std::make_shared<submission>();
  owner->seq = seq;
  owner->submitted_ns = now_ns();
  owner->buffers_left = static_cast<uint32_t>(buffers.size());
  {
    const std::lock_guard lock(mutex_);
    for (const command_buffer& b : buffers) {
      queue& q = queues_[b.queue];
      q.jobs.push_back({owner, b});
      if (!q.worker.joinable()) q.worker = std::thread([this, &q] { work(q); });
      q.has_jobs.notify_one();
    }
  }
}

void engine::work(queue& q) {
  prepare_to_sleep();
  std::unique_lock lock(mutex_);
  while (true) {
    q.has_jobs.wait(lock, [&] { return stop_ || !q.jobs.empty(); });
    if (q.jobs.empty()) return;
    const job j = q.jobs.front();
    hold_back(j, lock);
    lock.unlock();
    run(j);
    lock.lock();
    q.jobs.pop_front();
    newest_done_ = std::max(newest_done_, j.owner->seq);
    completed_.notify_all();
  }
}

/// Lets a later submission of another queue go first. That later one is not held itself.
void engine::hold_back(const job& j, std::unique_lock<std::mutex>& lock) {
  const reorder order = current_settings().order;
  if (order == reorder::never) return;
  const bool always = order == reorder::always;
  const bool overtakes = always && waits_elsewhere(j, std::less<>());
  const bool in_turn = j.owner->seq % hold_every == 0 && waits_elsewhere(j, std::greater<>());
  if (overtakes || (!always && !in_turn)) return;
  completed_.wait_for(lock, always ? hold_always : hold_sometimes,
                      [&] { return stop_ || newest_done_ > j.owner->seq; });
}

bool engine::waits_elsewhere(const job& j,
                             const std::function<bool(uint64_t, uint64_t)>& than) const {
  return std::any_of(queues_.begin(), queues_.end(), [&](const auto& q) {
    if (q.first == j.buffer.queue || q.second.jobs.empty()) return false;
    return than(q.second.jobs.front().owner->seq, j.owner->seq) ||
           than(q.second.jobs.back().owner->seq, j.owner->seq);
  });
}

void engine::run(const job& j) {
  const cs_progress result = execute(j);
  if (result != cs_progress::completed) j.owner->outcome = result;
  if (j.owner->buffers_left.fetch_sub(1) == 1) retire(*j.owner);
}

void engine::retire(submission& s) {
  const cs_progress outcome = s.outcome;
  {
    const state_lock lock(state_);
    if (state_.generation != generation_) return;
    if (outcome != cs_progress::completed && !stop_ && !state_.in_reset) {
      state_.in_reset = 1;
      ++state_.hard_resets;
    }
  }
  finish_cs(state_, s.seq, outcome);
}

cs_progress engine::execute(const job& j) {
  if (stop_ || !healthy_()) return cs_progress::aborted;
  if (times_out_()) return cs_progress::timed_out;
  const uint64_t ready = j.owner->submitted_ns + current_settings().latency_ns;
  if (!execute_packets(j.buffer, ready, false)) {
    std::fprintf(stderr,
                 "hlsim: simulated Gaudi2: submission %llu on queue %u touches an address that is "
                 "not mapped or holds an unknown packet; the device resets\n",
                 static_cast<unsigned long long>(j.owner->seq), j.buffer.queue);
    return cs_progress::aborted;
  }
  // A reset takes along what had not completed when it began.
  return stop_ || !healthy_() ? cs_progress::aborted : cs_progress::completed;
}

/// The buffer is read here, not at submission: the hardware fetches it when it gets there.
bool engine::execute_packets(const command_buffer& buffer, uint64_t ready_ns, bool nested) {
  std::vector<char> bytes(buffer.size);
  if (!mover_.fetch(buffer.va, bytes.data(), bytes.size())) return false;
  sleep_until(ready_ns, stop_);
  for (std::span<const char> rest(bytes); !rest.empty() && !stop_;) {
    const std::optional<packet> p = decode(rest);
    if (!p) return false;
    rest = rest.subspan(p->bytes);
    if (p->op == opcode::lin_dma && !transfer(*p, ready_ns)) return false;
    if (p->op != opcode::cp_dma) continue;
    if (nested || !execute_packets({buffer.queue, p->source, p->size}, ready_ns, true))
      return false;
  }
  return true;
}

/// Sleeps first and copies last, so that nothing of the data is seen before its time.
bool engine::transfer(const packet& p, uint64_t ready_ns) {
  const direction link = p.memset ? direction::d2d : mover_.direction_of(p.source, p.destination);
  auto& cost = copy_ns_per_byte_[static_cast<size_t>(link)];
  for (uint64_t done = 0; done < p.size && !stop_;) {
    const uint64_t n = std::min<uint64_t>(p.size - done, slice_bytes);
    const uint64_t due = pace_.book(link, n, ready_ns);
    const double bytes = static_cast<double>(n);
    sleep_until(due - std::min(due, static_cast<uint64_t>(cost * bytes)), stop_);
    const uint64_t begin = now_ns();
    const bool ok = p.memset ? mover_.fill(p.destination + done, n, static_cast<uint32_t>(p.source))
                             : mover_.copy(p.source + done, p.destination + done, n);
    if (!ok) return false;
    const double taken = static_cast<double>(now_ns() - begin) / bytes;
    cost = cost * 0.75 + std::min(taken, 2.0) * 0.25;
    sleep_until(due, stop_);
    done += n;
  }
  return true;
}

}  // namespace hlsim
