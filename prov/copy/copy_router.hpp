// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/clock.hpp"
#include "copy/copy_job.hpp"
#include "copy/dma_engine.hpp"
#include "copy/engine_submissions.hpp"
#include "copy/nic_copies.hpp"
#include "copy/nic_copy_threshold.hpp"
#include "copy/places.hpp"
#include "ipc/peer_process.hpp"
#include "reg/write_flush.hpp"

namespace gaudi::copy {

/// All copies of one endpoint between memory of ours and the application's, by whatever reaches
/// both: the CPU, the engine of a device, or the NIC's connection with itself. What the engines
/// have is under way after submit() and ends at a poll(); the CPU and the NIC copy at once.
///
/// Not thread safe: the caller holds the domain lock.
class copy_router {
 public:
  struct settings {
    engine_config engines;
    reg::nic_loopback* loop = nullptr;  ///< the domain's; null: the NIC copies nothing
    /// The domain's; null: the NIC copies no device memory that was not registered for it.
    reg::dmabuf_registrar* dmabufs = nullptr;
    reg::write_flush* flush = nullptr;  ///< null: what the NIC wrote is not flushed
    bool short_by_nic = false;          ///< bring_short() may take it
    base::clock clock{};                ///< that its copies are timed by
  };
  /// What `with` points to, and the observer, outlive the object.
  copy_router(const settings& with, engine_submissions::observer& tell) noexcept
      : engines_(with.engines, tell),
        nic_(with.loop, with.dmabufs),
        flush_(with.flush),
        short_by_nic_(with.short_by_nic),
        clock_(with.clock),
        short_limit_(with.engines.table) {}

  /// Starts a copy: of device memory by the device's engine, or by the NIC where it has none. 0:
  /// copy_job::copies says whether it is under way; else nothing has begun: -FI_EOPNOTSUPP: nothing
  /// reaches both, said once for each device; -FI_ENOMEM; errors of the means. Has it ended, the
  /// device's engines see it. Throws std::bad_alloc.
  int submit(copy_job& job, const host_place& here, const app_place& there, std::size_t length,
             direction dir);
  /// Starts one within a device. -FI_EAGAIN: its engine is full.
  int submit_within(device::device& on, copy_job& job, const copy_part& part) noexcept {
    return engines_.submit_within(on, job, part);
  }

  /// Payloads for devices that the NIC brings sooner than the engine, whose copies take a system
  /// call: up to which length that is so is measured as they are made.
  [[nodiscard]] bool brings_short(std::size_t length) const noexcept {
    return short_by_nic_ && nic_.are_possible() && length <= short_limit_.limit();
  }
  /// Brings one, or a part of one, where brings_short(). `is_whole`: nothing else belongs to it.
  /// False: not this way, and some of it may have been written.
  bool bring_short(const host_place& from, const app_place& to, std::size_t length, bool is_whole);

  /// Between our memory and that of another process on this host, here and now. Errors of
  /// ipc::peer_memory.
  [[nodiscard]] static int read_peer(const ipc::peer_memory& peer, void* to, std::uint64_t from,
                                     std::size_t length) noexcept {
    return peer.read(to, from, length);
  }
  [[nodiscard]] static int write_peer(const ipc::peer_memory& peer, std::uint64_t to,
                                      const void* from, std::size_t length) noexcept {
    return peer.write(to, from, length);
  }

  engine_submissions& engines() noexcept { return engines_; }
  [[nodiscard]] const engine_submissions& engines() const noexcept { return engines_; }
  nic_copies& nic() noexcept { return nic_; }

 private:
  int submit_to_engine(copy_job& job, const host_place& here, const app_place& there,
                       std::size_t length, direction dir);
  int copy_by_nic(const host_place& here, const app_place& there, std::size_t length,
                  direction dir);
  void add_time(device::device& on, std::size_t length, double nic_ns);

  engine_submissions engines_;
  nic_copies nic_;
  reg::write_flush* const flush_;
  const bool short_by_nic_;
  const base::clock clock_;
  nic_copy_threshold short_limit_;  // of all devices: their times are taken to be alike
};

}  // namespace gaudi::copy
