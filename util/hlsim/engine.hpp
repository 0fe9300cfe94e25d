// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <atomic>
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

#include "mover.hpp"
#include "pace.hpp"

namespace hlsim {

/// A chunk of a submission: a command buffer in device address space, for one queue.
struct command_buffer {
  uint32_t queue;
  uint64_t va;
  uint32_t size;  ///< bytes
};

/// The queue managers and DMA engines of one context, for the submissions of this process: a thread
/// per queue, started when the queue is first used. In order within a queue; across queues a later
/// submission is made to overtake an earlier one, so that no consumer relies on an order that the
/// device does not give.
class engine {
 public:
  /// `healthy` says whether the device still works; it is asked before each command buffer. The
  /// references outlive the engine.
  engine(device_state& state, const model& m, const hbm_store& hbm, std::function<bool()> healthy,
         std::function<bool()> times_out);
  /// Aborts what has not completed and joins the threads.
  ~engine();
  engine(const engine&) = delete;
  engine& operator=(const engine&) = delete;

  /// Takes submission `seq`, got from begin_cs. Never blocks.
  void submit(uint64_t seq, std::span<const command_buffer> buffers);

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
  };
  struct queue {
    std::deque<job> jobs;  ///< the front one is being run
    std::thread worker;
    /// Of the worker alone: waking those of all queues for each submission costs more than the
    /// copies.
    std::condition_variable has_jobs;
  };

  void work(queue& q);
  void hold_back(const job& j, std::unique_lock<std::mutex>& lock);
  /// True when a submission `than` (earlier or later) this one has not completed on another queue.
  [[nodiscard]] bool waits_elsewhere(const job& j,
                                     const std::function<bool(uint64_t, uint64_t)>& than) const;
  void run(const job& j);
  cs_progress execute(const job& j);
  bool execute_packets(const command_buffer& buffer, uint64_t ready_ns, bool nested);
  bool transfer(const struct packet& p, uint64_t ready_ns);
  void retire(submission& s);

  device_state& state_;
  const uint64_t generation_;
  const mover mover_;
  pace pace_;
  const std::function<bool()> healthy_, times_out_;
  std::atomic<bool> stop_{false};
  std::array<std::atomic<double>, 3> copy_ns_per_byte_{0.25, 0.25, 0.25};  ///< as measured lately

  std::mutex mutex_;
  std::condition_variable completed_;  ///< for submissions that are held back
  std::map<uint32_t, queue> queues_;
  uint64_t newest_done_ = 0;
};

}  // namespace hlsim
