// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine.hpp"

#include <pthread.h>
#include <sched.h>

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
constexpr uint64_t polled_lately_ns = 100'000;
constexpr uint64_t head_start_ns = 20'000;

/// In some decades.
constexpr uint64_t never_ns = uint64_t{1} << 62;
constexpr uint64_t pause_look_ns = 1'000'000;

/// On the only CPU a worker can but interrupt the thread that polls, and a dry copy needs no other
/// thread: there one of the workers, for all, looks this often whether that goes on with the jobs.
constexpr std::chrono::milliseconds nap{1};
constexpr uint64_t polled_now_and_then_ns = 10'000'000;

std::chrono::microseconds hold_time() {
  return current_settings().order == reorder::always ? hold_always : hold_sometimes;
}

bool only_one_cpu() noexcept {
  cpu_set_t usable;
  return ::sched_getaffinity(0, sizeof usable, &usable) == 0 && CPU_COUNT(&usable) == 1;
}

std::chrono::nanoseconds until(uint64_t at_ns) {
  const uint64_t now = now_ns();
  return std::chrono::nanoseconds(at_ns > now ? at_ns - now : 0);
}

}  // namespace

engine::engine(device_state& state, const model& m, const hbm_store& hbm,
               std::function<bool()> healthy, std::function<bool(fault)> struck_by)
    : state_(state),
      generation_(state.generation),
      model_(m),
      mover_(state, m, hbm),
      pace_(current_settings()),
      workers_disturb_(only_one_cpu() || current_settings().dry),
      healthy_(std::move(healthy)),
      struck_by_(std::move(struck_by)) {}

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
    q.jobs.push_back({owner, b, job::hold::undecided, nullptr, 0});
    // Now: which of several queues takes up its command first is nobody's choice.
    q.jobs.back().buffer.endless |= struck_by_(fault::hang);
    if (!q.worker.joinable()) q.worker = std::thread([this, &q] { work(q); });
    if (q.jobs.size() == 1 && !q.naps) q.has_work.notify_one();
  }
}

bool engine::polled_within(uint64_t ns) const {
  return now_ns() - last_poll_ns_ < ns;
}

void engine::work(queue& q) {
  ::pthread_setname_np(::pthread_self(), "hlsim-engine");
  prepare_to_sleep();
  std::unique_lock lock(mutex_);
  while (true) {
    wait_for_work(q, lock);
    if (q.jobs.empty()) return;
    hold_back(q, lock);
    if (q.taken || q.jobs.empty()) continue;
    const uint64_t wake = step(q, lock);
    if (wake == 0 || stop_) continue;
    doze(q, lock, until(wake) + head_start());
  }
}

/// What the worker leaves to a thread that polls.
std::chrono::nanoseconds engine::head_start() const {
  if (workers_disturb_ && polled_within(polled_now_and_then_ns)) return nap;
  return std::chrono::nanoseconds(polled_within(polled_lately_ns) ? head_start_ns : 0);
}

/// Where it can but interrupt those who tell of work, they do not.
void engine::doze(queue& q, std::unique_lock<std::mutex>& lock, std::chrono::nanoseconds time) {
  q.naps = workers_disturb_;
  q.has_work.wait_for(lock, time);
  q.naps = false;
}

bool engine::is_left_to_polls(const queue& q) const {
  return !stop_ && polled_within(q.jobs.empty() ? polled_now_and_then_ns : polled_lately_ns);
}

/// Until the one who looks says that this queue, or another, is not left to polls any more.
void engine::leave_to_polls(queue& q, std::unique_lock<std::mutex>& lock) {
  q.naps = true;
  if (std::exchange(one_looks_, true)) {
    q.has_work.wait(lock);
  } else {
    q.has_work.wait_for(lock, nap);
    one_looks_ = false;
    const bool all_are = std::all_of(queues_.begin(), queues_.end(), [&](const auto& each) {
      return !each.second.naps || is_left_to_polls(each.second);
    });
    if (!all_are) wake_naps();
  }
  q.naps = false;
}

void engine::wake_naps() {
  for (auto& [index, q] : queues_)
    if (q.naps) q.has_work.notify_one();
}

void engine::wait_for_work(queue& q, std::unique_lock<std::mutex>& lock) {
  if (workers_disturb_ && is_left_to_polls(q)) {
    do leave_to_polls(q, lock);
    while (is_left_to_polls(q));
    if (!one_looks_) wake_naps();  // time has passed since the one who looked did so
  }
  q.asleep = true;
  q.has_work.wait(lock, [&] { return !q.taken && (stop_ || !q.jobs.empty()); });
  q.asleep = false;
}

void engine::lend_cpu(uint64_t seq) {
  const uint64_t now = now_ns();
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;
  last_poll_ns_ = now;
  for (auto& [index, q] : queues_) {
    if (q.taken || q.jobs.empty()) continue;
    job& front = q.jobs.front();
    if (front.owner->seq > seq || !(may_begin(front) || was_held_enough(front, now))) continue;
    const bool begun = front.run || front.hangs_until_ns != 0;
    const uint64_t due = begun ? wake_of(front) : front.owner->submitted_ns + worker_late_ns;
    if (now < due) continue;
    const bool ended = step(q, lock) == 0;
    if (!q.naps && (ended || q.asleep)) q.has_work.notify_one();
  }
}

void engine::expect_no_polls() {
  const std::lock_guard lock(mutex_);
  last_poll_ns_ = 0;
  wake_naps();
}

bool engine::may_begin(const job& j) const {
  if (j.order == job::hold::undecided) return !must_be_held(j);
  return j.order == job::hold::released;
}

/// Of a job that no worker holds back.
bool engine::was_held_enough(const job& j, uint64_t now) const {
  if (j.order != job::hold::undecided) return false;
  const std::chrono::nanoseconds most = hold_time();
  return newest_done_ > j.owner->seq ||
         now > j.owner->submitted_ns + static_cast<uint64_t>(most.count());
}

/// Lets a later submission of another queue go first. That later one is not held itself.
void engine::hold_back(queue& q, std::unique_lock<std::mutex>& lock) {
  job& j = q.jobs.front();
  if (may_begin(j)) return;
  j.order = job::hold::held;
  const uint64_t seq = j.owner->seq;
  completed_.wait_for(lock, hold_time(), [&] { return stop_ || newest_done_ > seq; });
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
  if (!result) return wake_of(j);
  newest_done_ = std::max(newest_done_, j.owner->seq);
  q.jobs.pop_front();
  if (current_settings().order != reorder::never) completed_.notify_all();
  return 0;
}

uint64_t engine::wake_of(const job& j) {
  if (j.run) return j.run->wake_ns();
  return j.hangs_until_ns != 0 ? j.hangs_until_ns : now_ns() + pause_look_ns;
}

std::optional<cs_progress> engine::hang(const job& j) const {
  if (!healthy_()) return cs_progress::aborted;
  if (now_ns() >= j.hangs_until_ns) return cs_progress::timed_out;
  return std::nullopt;
}

std::optional<cs_progress> engine::carry_out(job& j) {
  if (stop_) return cs_progress::aborted;
  if (j.hangs_until_ns != 0) return hang(j);
  if (!j.run) {
    if (healthy_() && struck_by_(fault::pause)) return std::nullopt;
    if (struck_by_(fault::reset)) reset(HL_NOTIFIER_EVENT_GENERAL_HW_ERR);
    if (!healthy_()) return cs_progress::aborted;
    if (struck_by_(fault::cs_timeout)) return cs_progress::timed_out;
    if (j.buffer.endless) {
      const uint64_t limit = current_settings().cs_timeout_ns;
      j.hangs_until_ns = limit != 0 ? j.owner->submitted_ns + limit : never_ns;
      return hang(j);
    }
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

cs_progress engine::fail(const job& j) {
  std::fprintf(
      stderr,
      "hlsim: %s: submission %llu on queue %u touches an address that is not mapped, holds "
      "a packet that is not simulated, or found no memory; the device resets\n",
      model_.description, static_cast<unsigned long long>(j.owner->seq), j.buffer.queue);
  reset(HL_NOTIFIER_EVENT_PAGE_FAULT | HL_NOTIFIER_EVENT_USER_ENGINE_ERR);
  return cs_progress::aborted;
}

void engine::end(job& j, cs_progress result) {
  if (result != cs_progress::completed) j.owner->outcome = result;
  if (j.owner->buffers_left.fetch_sub(1) == 1) retire(*j.owner);
}

void engine::reset(uint64_t events) {
  const state_lock lock(state_);
  if (state_.generation == generation_) begin_reset(state_, events);
}

void engine::retire(submission& s) {
  const cs_progress outcome = s.outcome;
  // A device that is gone is not reset, and tells nobody of one.
  if (outcome != cs_progress::completed && !stop_ && !struck_by_(fault::removal))
    reset(outcome == cs_progress::timed_out ? HL_NOTIFIER_EVENT_CS_TIMEOUT : 0);
  {
    const state_lock lock(state_);
    if (state_.generation != generation_) return;
  }
  finish_cs(state_, s.seq, outcome);
}

void engine::abort_waiting() {
  std::vector<job> aborted;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [index, q] : queues_) {
      while (!q.jobs.empty()) {
        const bool front = q.jobs.size() == 1;
        if (front && (q.taken || q.jobs.front().order == job::hold::held)) break;
        aborted.push_back(std::move(q.jobs.back()));
        q.jobs.pop_back();
      }
    }
  }
  for (job& j : aborted) end(j, cs_progress::aborted);
}

}  // namespace hlsim
