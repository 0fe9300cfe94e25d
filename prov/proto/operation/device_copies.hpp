// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "copy/dma_engine.hpp"
#include "proto/operation/latency_sampler.hpp"
#include "proto/operation/memory.hpp"
#include "reg/nic_loopback.hpp"

namespace gaudi::proto {

struct buffer;

/// The copies of one endpoint between its buffers and device memory, and within a device: started
/// here, under way in the device's engine, ended here. A copy that the engine has no room for waits
/// its turn, since other endpoints use the engine as well. buffer::copies counts those of a buffer
/// that have not ended, buffer::failed has what the last of them that failed said.
///
/// Not thread safe: the caller holds the domain lock.
class device_copies {
 public:
  class observer {
   public:
    /// All copies of the buffer have ended, found by poll().
    virtual void copied(buffer& b) noexcept = 0;

   protected:
    ~observer() = default;
  };

  /// `loop`: the domain's; null: memory of devices that are not ours cannot be copied. It, the
  /// sampler and the observer outlive the object.
  device_copies(const copy::engine_config& config, reg::nic_loopback* loop,
                latency_sampler& latencies, observer& tell) noexcept
      : config_(config), loop_(loop), latencies_(latencies), observer_(tell) {}
  device_copies(const device_copies&) = delete;
  device_copies& operator=(const device_copies&) = delete;

  /// The device's engine, for as long as this object has a copy on it. As dma_engine::for_device;
  /// -FI_ENOMEM.
  base::result<copy::dma_engine*> engine_for(device::device& on) noexcept;

  /// Starts the copies between [at, at + length) of a buffer and the bytes from `offset` on of
  /// `memory`. Parts in host memory are copied here and now, and so are those that only the NIC
  /// reaches. 0: buffer::copies tells how many have not ended; -FI_E*: none is under way any more.
  int start(buffer& b, std::size_t at, const local_memory& memory, std::size_t offset,
            std::size_t length, copy::direction dir) noexcept;
  /// Starts one copy within a device, which `stands_for_it`, with no bytes of its own. -FI_EAGAIN:
  /// the engine is full.
  int start_within(device::device& on, buffer& stands_for_it, std::uint64_t to, std::uint64_t from,
                   std::size_t length) noexcept;

  /// Waits for all copies of the buffer; the observer is not told. buffer::failed.
  int wait_for(buffer& b);
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

  /// A buffer that copies are under way of and `wanted` says yes to, or null.
  template <class Wanted>
  [[nodiscard]] buffer* find(Wanted&& wanted) const {
    const auto it = std::find_if(copies_.begin(), copies_.end(),
                                 [&](const copy_of& c) { return wanted(*c.chunk); });
    return it == copies_.end() ? nullptr : it->chunk;
  }

 private:
  struct copy_of {
    copy::dma_engine* engine;
    copy::ticket ticket;
    buffer* chunk;
    base::clock::time_point began{};  // of one that is timed
    // Of one that waits for room, or for others to go with.
    copy::copy_part part{};  // empty: it does not
    copy::direction dir = copy::direction::host_to_device;

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

  int start_all(buffer& b, std::size_t at, const local_memory& memory, std::size_t offset,
                std::size_t length, copy::direction dir);
  int start_part(buffer& b, std::size_t at, const local_memory::place& place, std::size_t length,
                 copy::direction dir);
  int copy_imported(const buffer& b, std::size_t at, const local_memory::place& place,
                    std::size_t length, bool to_device);
  int start_on(device::device& on, buffer& b, std::size_t at, std::uint64_t address,
               std::size_t length, copy::direction dir);
  [[nodiscard]] bool can_wait_for_others(const copy_of& c) const noexcept;
  void add_waiting(const copy_of& c);
  [[nodiscard]] std::span<copy_of> batch_from(std::size_t first) noexcept;
  int begin(std::span<copy_of> batch, bool urgently);
  void begin_waiting();
  void begin_now(copy_of& c);
  bool wait_for_one(copy::dma_engine& engine);
  void wait_for_end(std::vector<copy_of>::iterator c);
  void end_ticket(std::vector<copy_of>::iterator c, int ret) noexcept;
  void add_submitted(copy::dma_engine& engine, copy::ticket ticket, buffer& b);
  /// What its engine said of it is `ret`.
  void ended(const copy_of& c, int ret) noexcept;

  const copy::engine_config config_;
  reg::nic_loopback* const loop_;
  latency_sampler& latencies_;
  observer& observer_;
  std::vector<copy_of> copies_;  // those that end together are neighbours
  std::size_t waiting_ = 0;      // of them
  std::vector<std::shared_ptr<copy::dma_engine>> engines_;
};

}  // namespace gaudi::proto
