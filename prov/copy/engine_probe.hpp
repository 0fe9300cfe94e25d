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

/// Measures a device by its engine, on memory of its own. These copies are not counted
/// (device::counters). Not thread safe.
class engine_probe final : public copy_probe {
 public:
  /// The engine outlives it. -FI_EOPNOTSUPP: a device whose memory is the application's to
  /// allocate; -FI_ENOMEM; device::lost().
  static base::result<std::unique_ptr<engine_probe>> make(dma_engine& engine);
  ~engine_probe() override;

  double now() override;
  std::optional<double> copies(direction dir, std::uint64_t length, unsigned count) override;
  std::optional<double> pin(std::uint64_t length) override;
  std::optional<double> host_copy(std::uint64_t length) override;

  /// Copies have not ended within a time in which any should: the memory has to stay until the
  /// engine is done with them, or gone.
  [[nodiscard]] bool is_stuck() const noexcept { return !pending_.empty(); }

 private:
  struct passkey {};

 public:
  /// For make, the only maker.
  engine_probe(passkey, dma_engine& engine, std::uint64_t memory, host_pages reached,
               host_pages pages);

 private:
  base::result<void> reach();
  bool start(direction dir, std::uint64_t offset, std::uint64_t length);
  bool finish();

  dma_engine& engine_;
  const std::uint64_t memory_;  // of the device: room for two ranges
  host_pages reached_;
  host_pages pages_;
  std::optional<pinned_region> pinned_;  // reached_: unpinned before that goes
  std::vector<ticket> pending_;
};

}  // namespace gaudi::copy
