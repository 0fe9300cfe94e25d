// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <map>

namespace synsim {

/// Cuts a range of addresses into pieces: first fit. Not thread safe.
class arena {
 public:
  /// Bytes; pieces begin at multiples of it, as Synapse's do, and so several are on one page.
  static constexpr uint64_t granule = 128;

  /// `first` and `size` are multiples of the granule.
  arena(uint64_t first, uint64_t size) : first_(first), size_(size), free_bytes_(size) {}

  /// `size` bytes, at `wanted` if that is not 0. The address; 0: no room there, or no bytes.
  uint64_t take(uint64_t size, uint64_t wanted = 0);
  /// False: no piece begins there.
  bool give(uint64_t address);
  [[nodiscard]] uint64_t free_bytes() const noexcept { return free_bytes_; }

 private:
  [[nodiscard]] uint64_t gap_for(uint64_t size) const;
  [[nodiscard]] bool is_free(uint64_t address, uint64_t size) const;

  uint64_t first_, size_, free_bytes_;
  std::map<uint64_t, uint64_t> pieces_;  ///< sizes, by address
};

}  // namespace synsim
