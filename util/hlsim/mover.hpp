// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <vector>

#include "hbm.hpp"
#include "model.hpp"
#include "shared_state.hpp"

namespace hlsim {

enum class direction { h2d, d2h, d2d };

/// Moves bytes between device addresses, as a DMA engine does: by the page tables as they are at
/// that moment, and without harm when the process has meanwhile unmapped the host memory.
class mover {
 public:
  mover(device_state& state, const model& m, const hbm_store& hbm) noexcept
      : state_(state), model_(m), hbm_(hbm) {}

  /// Each is false on an unmapped device address: a page fault of the device.
  bool copy(uint64_t source, uint64_t destination, uint64_t size) const;
  bool fill(uint64_t destination, uint64_t size, uint32_t pattern) const;
  bool fetch(uint64_t source, void* out, uint64_t size) const;

  /// What a copy from `source` to `destination` loads: the host link in one direction, or HBM only.
  [[nodiscard]] direction direction_of(uint64_t source, uint64_t destination) const noexcept;
  [[nodiscard]] bool is_host(uint64_t va) const noexcept;
  [[nodiscard]] bool is_mapped(uint64_t va) const;

 private:
  /// A piece of a range that lies together: in the HBM store, or in one process.
  struct piece {
    bool host;
    int pid;
    uint64_t at;  ///< offset in the store, or address in the process
    uint64_t size;
  };
  /// The piece at the start of [va, va + size); size 0 when `va` is not mapped.
  [[nodiscard]] piece translate(uint64_t va, uint64_t size) const;
  // False: HBM could not be read or written, as the machine has no memory or descriptor left.
  bool move(const piece& from, const piece& to, uint64_t size) const;
  bool load(const piece& from, uint64_t skip, void* out, uint64_t size) const;
  bool store(const piece& to, uint64_t skip, const void* in, uint64_t size) const;
  [[nodiscard]] bool lost_hbm() const;

  device_state& state_;
  const model& model_;
  const hbm_store& hbm_;
};

}  // namespace hlsim
