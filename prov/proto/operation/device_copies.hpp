// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.hpp"
#include "copy/copy_router.hpp"
#include "proto/operation/buffer_pool.hpp"
#include "proto/operation/latency_sampler.hpp"
#include "proto/operation/memory.hpp"

namespace gaudi::proto {

/// The copies of one endpoint between its buffers and the application's memory: cut at the ends of
/// segments, and made by the copy_router. buffer::copies counts those of a buffer that have not
/// ended, buffer::failed has what the last of them that failed said.
///
/// Not thread safe: the caller holds the domain lock.
class device_copies final : private copy::engine_submissions::observer {
 public:
  class observer {
   public:
    /// All copies of the buffer have ended, found by poll().
    virtual void copied(buffer& b) noexcept = 0;

   protected:
    ~observer() = default;
  };

  /// The sampler and the observer outlive the object.
  device_copies(const copy::copy_router::settings& with, latency_sampler& latencies,
                observer& tell) noexcept
      : latencies_(latencies), observer_(tell), router_(with, *this) {}
  virtual ~device_copies() = default;
  device_copies(const device_copies&) = delete;
  device_copies& operator=(const device_copies&) = delete;

  /// As copy::engine_submissions::engine_for.
  base::result<copy::dma_engine*> engine_for(device::device& on) noexcept {
    return router_.engines().engine_for(on);
  }

  /// Starts the copies between [at, at + length) of a buffer and the bytes from `offset` on of
  /// `memory`. Parts in host memory are copied here and now, and so are those that only the NIC
  /// reaches. 0: buffer::copies tells how many have not ended; -FI_E*: none is under way any more.
  int start(buffer& b, std::size_t at, const local_memory& memory, std::size_t offset,
            std::size_t length, copy::direction dir) noexcept;
  /// Starts one copy within a device, which `stands_for_it`, with no bytes of its own. -FI_EAGAIN:
  /// the engine is full.
  int start_within(device::device& on, buffer& stands_for_it,
                   const copy::copy_part& part) noexcept {
    return router_.submit_within(on, stands_for_it, part);
  }
  /// Brings all `length` bytes at `at` of a buffer to device memory here and now, where that is the
  /// shorter way (copy_router::brings_short). False: not this way, and some of them may have been
  /// written.
  bool bring_short(const buffer& from, std::size_t at, const local_memory& to, std::size_t length);
  /// For copies that are no buffer's.
  copy::copy_router& router() noexcept { return router_; }

  /// Waits for all copies of the buffer; the observer is not told. buffer::failed.
  int wait_for(buffer& b) { return router_.engines().wait_for(b); }
  /// As copy::engine_submissions has them.
  void end_all() noexcept { router_.engines().end_all(); }
  void finish_those_of(const reg::region& r) { router_.engines().finish_those_of(r); }
  void poll() { router_.engines().poll(); }
  [[nodiscard]] bool any() const noexcept { return router_.engines().any(); }
  void prefer_lost() noexcept { router_.engines().prefer_lost(); }

  /// A buffer that copies are under way of and `wanted` says yes to, or null.
  template <class Wanted>
  [[nodiscard]] buffer* find(Wanted&& wanted) const {
    return static_cast<buffer*>(router_.engines().find(
        [&](const copy::copy_job& job) { return wanted(static_cast<const buffer&>(job)); }));
  }

 private:
  int start_all(buffer& b, std::size_t at, const local_memory& memory, std::size_t offset,
                std::size_t length, copy::direction dir);

  void copied(copy::copy_job& job) noexcept override {
    observer_.copied(static_cast<buffer&>(job));
  }
  base::clock::time_point copy_began() noexcept override;
  void copy_took(base::clock::time_point began) noexcept override;

  latency_sampler& latencies_;
  observer& observer_;
  copy::copy_router router_;
};

}  // namespace gaudi::proto
