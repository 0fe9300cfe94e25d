// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "buffer_run.hpp"
#include "fault.hpp"

namespace hlsim {

/// The queue managers and DMA engines of one context, for the submissions of this process: a thread
/// per queue, started when the queue is first used. In order within a queue; across queues a later
/// submission is made to overtake an earlier one, so that no consumer relies on an order that the
/// device does not give.
///
/// A real engine does not need the CPUs. Where they are all busy a worker may not get one for
/// milliseconds, so a thread that polls for the end of a submission lends its own.
class engine {
 public:
  /// `healthy` says whether the device still works, `struck_by` whether a fault strikes the next
  /// command buffer; both are asked before each, of hangs when it is submitted. The references
  /// outlive the engine.
  engine(device_state& state, const model& m, const hbm_store& hbm, std::function<bool()> healthy,
         std::function<bool(fault)> struck_by);
  /// Aborts what has not completed and joins the threads.
  ~engine();
  engine(const engine&) = delete;
  engine& operator=(const engine&) = delete;

  /// Takes submission `seq`, got from begin_cs. Never blocks.
  void submit(uint64_t seq, std::span<const command_buffer> buffers);

  /// Does what is due of the submissions up to `seq` that no worker has taken up in time. Never
  /// sleeps.
  void lend_cpu(uint64_t seq);

  /// The device has failed: ends all submissions but those that are being copied at this moment,
  /// which end by themselves.
  void abort_waiting();

  /// Called by a thread that is about to sleep: the workers are on their own.
  void expect_no_polls();

 private:
  struct submission {
    uint64_t seq;
    uint64_t submitted_ns;
    std::atomic<uint32_t> buffers_left;
    std::atomic<cs_progress> outcome{cs_progress::completed};
  };
  struct job {
    std::shared_ptr<submission> owner;
    command_buffer buffer;
    enum class hold { undecided, held, released } order = hold::undecided;
    std::unique_ptr<buffer_run> run;  ///< once begun
    uint64_t hangs_until_ns = 0;      ///< 0: it does not
  };
  struct queue {
    std::deque<job> jobs;  ///< in order; the front one is being carried out
    bool taken = false;    ///< the front one, by a thread that works on it without the mutex
    bool asleep = false;   ///< the worker, until there is work or the front job is given back
    bool naps = false;     ///< the worker, without being told of work
    std::thread worker;
    /// Of the worker alone: waking those of all queues for each submission costs more than the
    /// copies.
    std::condition_variable has_work;
  };

  void work(queue& q);
  void wait_for_work(queue& q, std::unique_lock<std::mutex>& lock);
  /// Whether a thread that polls sees to the queue's jobs, or to those that it will have.
  [[nodiscard]] bool is_left_to_polls(const queue& q) const;
  void leave_to_polls(queue& q, std::unique_lock<std::mutex>& lock);
  void wake_naps();
  void doze(queue& q, std::unique_lock<std::mutex>& lock, std::chrono::nanoseconds time);
  [[nodiscard]] std::chrono::nanoseconds head_start() const;
  /// Whether a thread has lent its CPU lately.
  [[nodiscard]] bool polled_within(uint64_t ns) const;
  void hold_back(queue& q, std::unique_lock<std::mutex>& lock);
  /// True when a submission `than` (earlier or later) this one has not completed on another queue.
  [[nodiscard]] bool waits_elsewhere(const job& j,
                                     const std::function<bool(uint64_t, uint64_t)>& than) const;
  [[nodiscard]] bool must_be_held(const job& j) const;
  [[nodiscard]] bool may_begin(const job& j) const;
  [[nodiscard]] bool was_held_enough(const job& j, uint64_t now) const;
  /// Works on the front job. The time at which to go on with it; 0 when it has ended.
  uint64_t step(queue& q, std::unique_lock<std::mutex>& lock);
  /// nothing: it goes on later.
  std::optional<cs_progress> carry_out(job& j);
  /// The same for a job that the engine never gets done with.
  [[nodiscard]] std::optional<cs_progress> hang(const job& j) const;
  /// When to go on with a job that has begun, or is paused.
  [[nodiscard]] static uint64_t wake_of(const job& j);
  cs_progress fail(const job& j);
  void end(job& j, cs_progress result);
  void retire(submission& s);
  void reset(uint64_t events);

  device_state& state_;
  const uint64_t generation_;
  const model& model_;
  const mover mover_;
  pace pace_;
  const bool workers_disturb_;
  run_tools tools_{model_, mover_, pace_};
  const std::function<bool()> healthy_;
  const std::function<bool(fault)> struck_by_;
  std::atomic<bool> stop_{false};

  std::mutex mutex_;
  std::condition_variable completed_;  ///< for submissions that are held back
  std::map<uint32_t, queue> queues_;
  uint64_t newest_done_ = 0;
  uint64_t last_poll_ns_ = 0;  ///< by a thread that lends its CPU
  bool one_looks_ = false;     ///< a worker that naps, whether all that nap may go on with it
};

}  // namespace hlsim
