// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "copy/calibration.hpp"
#include "copy/dma_engine.hpp"
#include "copy/host_pages.hpp"
#include "copy/pinned_region.hpp"

namespace gaudi::copy {

/// Measures a device by its engine: on device memory of its own, which for the time is taken from
/// whoever has the device, or, where that is Synapse, by reading from its pool, to which nothing is
/// written. These copies are not counted (device::counters). Not thread safe.
class engine_probe final : public copy_probe {
 public:
  /// The engine outlives it. -FI_EOPNOTSUPP: a Gaudi1 that is the application's, whose memory only
  /// that knows; -FI_ENOMEM, also of an application's device that is nearly full; device::lost().
  static base::result<std::unique_ptr<engine_probe>> make(dma_engine& engine);
  ~engine_probe() override;

  double now() override;
  double spent() override;
  [[nodiscard]] bool allows(direction dir) const noexcept override;
  std::optional<double> copies(direction dir, std::uint64_t length, unsigned count) override;
  /// Nothing for Synapse's device, for which callers' memory is never pinned.
  std::optional<double> pin(std::uint64_t length) override;
  std::optional<double> host_copy(std::uint64_t length) override;

  /// Copies have not ended within a time in which any should: the memory has to stay until the
  /// engine is done with them, or gone.
  [[nodiscard]] bool is_stuck() const noexcept { return !pending_.empty(); }

 private:
  struct passkey {};

 public:
  /// For make, the only maker.
  engine_probe(passkey, dma_engine& engine, host_pages reached, host_pages pages);

 private:
  base::result<void> reach();
  bool start(direction dir, std::uint64_t offset, std::uint64_t length);
  bool finish();

  dma_engine& engine_;
  const bool is_synapses_;
  std::optional<std::uint64_t> memory_;  // of the device: two ranges, or one of Synapse's
  host_pages reached_;
  host_pages pages_;
  std::optional<pinned_region> pinned_;  // reached_: unpinned before that goes
  std::vector<ticket> pending_;
};

}  // namespace gaudi::copy
