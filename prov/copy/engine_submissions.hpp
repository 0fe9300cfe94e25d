// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "copy/copy_job.hpp"
#include "copy/dma_engine.hpp"
#include "reg/region.hpp"

namespace gaudi::copy {

/// The copies of one endpoint that devices' engines make: submitted here, under way there, ended
/// here. A copy that the engine has no room for waits its turn, since other endpoints use the
/// engine as well.
///
/// Not thread safe: the caller holds the domain lock.
class engine_submissions {
 public:
  class observer {
   public:
    /// All copies of the job have ended, found by poll().
    virtual void copied(copy_job& job) noexcept = 0;
    /// A copy begins: since when, if its time is wanted.
    virtual base::clock::time_point copy_began() noexcept = 0;
    /// One whose time is wanted has succeeded.
    virtual void copy_took(base::clock::time_point began) noexcept = 0;

   protected:
    ~observer() = default;
  };

  /// The observer outlives the object.
  engine_submissions(const engine_config& config, observer& tell) noexcept
      : config_(config), observer_(tell) {}
  engine_submissions(const engine_submissions&) = delete;
  engine_submissions& operator=(const engine_submissions&) = delete;

  /// The device's engine, for as long as this object has a copy on it. As dma_engine::for_device;
  /// -FI_ENOMEM.
  base::result<dma_engine*> engine_for(device::device& on) noexcept;

  /// Starts one copy on the engine, which waits where there is no room. -FI_ENOMEM, errors of
  /// dma_engine::submit. Throws std::bad_alloc.
  int submit(dma_engine& on, copy_job& job, const copy_part& part, direction dir);
  /// Starts one within a device, which waits for nothing. -FI_EAGAIN: the engine is full.
  int submit_within(device::device& on, copy_job& job, const copy_part& part) noexcept;

  /// Waits for all copies of the job; the observer is not told. copy_job::failed.
  int wait_for(copy_job& job);
  /// Waits for all that is under way and drops what is not, without a word to anybody.
  void end_all() noexcept;
  /// Waits for what is under way on the region's device, and for what waits to begin and is of the
  /// region. The ends are still to be told by poll().
  void finish_those_of(const reg::region& r);

  /// Looks for ends, and tells of them.
  void poll();
  /// Something has to be polled for.
  [[nodiscard]] bool any() const noexcept { return !copies_.empty(); }
  /// Copies of devices that are lost fail at the next look: it takes them first, since those of
  /// other devices must not keep them from being taken.
  void prefer_lost() noexcept;

  /// A job that copies are under way of and `wanted` says yes to, or null.
  template <class Wanted>
  [[nodiscard]] copy_job* find(Wanted&& wanted) const {
    const auto it = std::find_if(copies_.begin(), copies_.end(),
                                 [&](const copy_of& c) { return wanted(*c.job); });
    return it == copies_.end() ? nullptr : it->job;
  }

 private:
  struct copy_of {
    dma_engine* engine;
    copy::ticket ticket;
    copy_job* job;
    base::clock::time_point began{};  // of one that is timed
    // Of one that waits for room, or for others to go with.
    copy_part part{};  // empty: it does not
    direction dir = direction::host_to_device;

    [[nodiscard]] bool waits() const noexcept { return part.length != 0; }
    /// Whether the engine may have it together with another one that waits.
    [[nodiscard]] bool goes_with(const copy_of& other) const noexcept {
      return waits() && engine == other.engine && dir == other.dir;
    }
    /// Whether it ends with another one that is under way.
    [[nodiscard]] bool ends_with(const copy_of& other) const noexcept {
      return ticket.id == other.ticket.id && engine == other.engine;
    }
    [[nodiscard]] bool waits_for(const reg::region& r) const noexcept;
  };

  [[nodiscard]] bool can_wait_for_others(const copy_of& c) const noexcept;
  void add_waiting(const copy_of& c);
  [[nodiscard]] std::span<copy_of> batch_from(std::size_t first) noexcept;
  int begin(std::span<copy_of> batch, bool urgently);
  void begin_waiting();
  void begin_now(copy_of& c);
  bool wait_for_one(dma_engine& engine);
  void wait_for_end(std::vector<copy_of>::iterator c);
  void end_ticket(std::vector<copy_of>::iterator c, int ret) noexcept;
  void add_submitted(dma_engine& engine, ticket of, copy_job& job);
  /// What its engine said of it is `ret`.
  void ended(const copy_of& c, int ret) noexcept;

  const engine_config config_;
  observer& observer_;
  std::vector<copy_of> copies_;  // those that end together are neighbours
  std::size_t waiting_ = 0;      // of them
  std::vector<std::shared_ptr<dma_engine>> engines_;
};

}  // namespace gaudi::copy
