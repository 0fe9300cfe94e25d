// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "cs_table.hpp"

namespace hlsim {
namespace {

/// One submission in this many is held back when only some are.
constexpr uint64_t hold_every = 8;
constexpr std::chrono::microseconds hold_sometimes{50};
constexpr std::chrono::microseconds hold_always{2000};

/// How long a new job waits for its worker before a polling thread begins it. An idle CPU wakes the
/// worker sooner.
constexpr uint64_t worker_late_ns = 10'000;

/// A thread that polled this lately will be there in time to go on with a job that has begun, so
/// the worker need not wake for it and gives it a start.
constexpr uint64_t polled_lately_ns = 50'000;
constexpr uint64_t head_start_ns = 20'000;

std::chrono::nanoseconds until(uint64_t at_ns) {
  const uint64_t now = now_ns();
  return std::chrono::nanoseconds(at_ns > now ? at_ns - now : 0);
}

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
  for (auto& [index, q] : queues_) q.has_work.notify_one();
  for (auto& [index, q] : queues_) q.worker.join();
}

void engine::submit(uint64_t seq, std::span<const command_buffer> buffers) {
  auto owner = std::make_shared<submission>();
  owner->seq = seq;
  owner->submitted_ns = now_ns();
  owner->buffers_left = static_cast<uint32_t>(buffers.size());
  const std::lock_guard lock(mutex_);
  for (const command_buffer& b : buffers) {
    queue& q = queues_[b.queue];
    q.jobs.push_back({owner, b, job::hold::undecided, nullptr});
    if (!q.worker.joinable()) q.worker = std::thread([this, &q] { work(q); });
    if (q.jobs.size() == 1) q.has_work.notify_one();
  }
}

void engine::work(queue& q) {
  prepare_to_sleep();
  std::unique_lock lock(mutex_);
  while (true) {
    q.asleep = true;
    q.has_work.wait(lock, [&] { return !q.taken && (stop_ || !q.jobs.empty()); });
    q.asleep = false;
    if (q.jobs.empty()) return;
    hold_back(q, lock);
    if (q.taken || q.jobs.empty()) continue;
    const uint64_t wake = step(q, lock);
    if (wake == 0 || stop_) continue;
    const bool polled = now_ns() - last_poll_ns_ < polled_lately_ns;
    q.has_work.wait_for(lock, until(wake + (polled ? head_start_ns : 0)));
  }
}

void engine::lend_cpu(uint64_t seq) {
  const uint64_t now = now_ns();
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;
  last_poll_ns_ = now;
  for (auto& [index, q] : queues_) {
    if (q.taken || q.jobs.empty()) continue;
    job& front = q.jobs.front();
    if (front.owner->seq > seq || !may_begin(front)) continue;
    const uint64_t due =
        front.run ? front.run->wake_ns() : front.owner->submitted_ns + worker_late_ns;
    if (now < due) continue;
    const bool ended = step(q, lock) == 0;
    if (ended || q.asleep) q.has_work.notify_one();
  }
}

bool engine::may_begin(const job& j) const {
  if (j.order == job::hold::undecided) return !must_be_held(j);
  return j.order == job::hold::released;
}

/// Lets a later submission of another queue go first. That later one is not held itself.
void engine::hold_back(queue& q, std::unique_lock<std::mutex>& lock) {
  job& j = q.jobs.front();
  if (may_begin(j)) return;
  j.order = job::hold::held;
  const uint64_t seq = j.owner->seq;
  const bool always = current_settings().order == reorder::always;
  completed_.wait_for(lock, always ? hold_always : hold_sometimes,
                      [&] { return stop_ || newest_done_ > seq; });
  // Nobody else takes up a job that is held, so it is still there.
  j.order = job::hold::released;
}

bool engine::must_be_held(const job& j) const {
  switch (current_settings().order) {
    case reorder::never:
      return false;
    case reorder::always:
      return !waits_elsewhere(j, std::less<>());
    case reorder::sometimes:
      break;
  }
  return j.owner->seq % hold_every == 0 && waits_elsewhere(j, std::greater<>());
}

bool engine::waits_elsewhere(const job& j,
                             const std::function<bool(uint64_t, uint64_t)>& than) const {
  return std::any_of(queues_.begin(), queues_.end(), [&](const auto& q) {
    if (q.first == j.buffer.queue || q.second.jobs.empty()) return false;
    return than(q.second.jobs.front().owner->seq, j.owner->seq) ||
           than(q.second.jobs.back().owner->seq, j.owner->seq);
  });
}

uint64_t engine::step(queue& q, std::unique_lock<std::mutex>& lock) {
  job& j = q.jobs.front();  // stays where it is while others push behind it
  j.order = job::hold::released;
  q.taken = true;
  lock.unlock();
  const std::optional<cs_progress> result = carry_out(j);
  if (result) end(j, *result);
  lock.lock();
  q.taken = false;
  if (!result) return j.run->wake_ns();
  newest_done_ = std::max(newest_done_, j.owner->seq);
  q.jobs.pop_front();
  if (current_settings().order != reorder::never) completed_.notify_all();
  return 0;
}

std::optional<cs_progress> engine::carry_out(job& j) {
  if (stop_) return cs_progress::aborted;
  if (!j.run) {
    if (!healthy_()) return cs_progress::aborted;
    if (times_out_()) return cs_progress::timed_out;
    const uint64_t ready = j.owner->submitted_ns + current_settings().latency_ns;
    j.run = std::make_unique<buffer_run>(tools_, j.buffer, ready);
  }
  switch (j.run->advance()) {
    case buffer_run::state::waiting:
      return std::nullopt;
    case buffer_run::state::failed:
      return fail(j);
    case buffer_run::state::done:
      break;
  }
  // A reset takes along what had not completed when it began.
  return stop_ || !healthy_() ? cs_progress::aborted : cs_progress::completed;
}

cs_progress engine::fail(const job& j) const {
  std::fprintf(stderr,
               "hlsim: simulated Gaudi2: submission %llu on queue %u touches an address that is "
               "not mapped or holds an unknown packet; the device resets\n",
               static_cast<unsigned long long>(j.owner->seq), j.buffer.queue);
  return cs_progress::aborted;
}

void engine::end(job& j, cs_progress result) {
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

}  // namespace hlsim
