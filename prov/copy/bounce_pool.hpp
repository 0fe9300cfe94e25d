// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.hpp"
#include "copy/host_pages.hpp"
#include "copy/pinned_region.hpp"
#include "device/device.hpp"

namespace gaudi::copy {

/// Host memory for data on its way to or from a device, in chunks of one size, cut from slabs that
/// are mapped to the device (and registered with the core by the owner's hook) once. Slabs are
/// added on demand and live as long as the pool. Not thread safe: the caller holds its domain's
/// lock.
class bounce_pool {
 public:
  /// Bytes of a chunk where nothing else is wanted: as the copier has them.
  static constexpr std::uint64_t usual_chunk = std::uint64_t{512} << 10;

  struct chunk {
    std::byte* host;          ///< page aligned if the chunk size is a multiple of the page
    std::uint64_t device_va;  ///< the device's address of host; 0 in a pool without a device
    std::size_t size;         ///< bytes
    void* cookie;             ///< what on_slab gave for the slab
    std::byte* slab;          ///< the slab's first byte
    chunk* next_free;         ///< the pool's while free, the holder's to use while held
  };

  struct options {
    std::size_t chunk_size = usual_chunk;
    std::size_t chunks_per_slab = 16;
    std::size_t limit = 256;  ///< chunks in all; acquire gives null beyond it
  };

  /// What the owner does with each slab. on_slab's value becomes the chunks' cookie; an error
  /// refuses the slab. off_slab undoes it, before the slab is unmapped.
  struct hooks {
    std::function<base::result<void*>(std::byte* slab, std::size_t len)> on_slab;
    std::function<void(void* cookie)> off_slab;
  };

  /// `owner` null: host memory only. Maps nothing yet.
  explicit bounce_pool(std::shared_ptr<device::device> owner);
  bounce_pool(std::shared_ptr<device::device> owner, const options& sizes, hooks slab_hooks = {});
  bounce_pool(const bounce_pool&) = delete;
  bounce_pool& operator=(const bounce_pool&) = delete;
  /// All chunks are back by now.
  ~bounce_pool();

  /// A chunk, or null when the limit is reached or no slab can be had (said once, by a warning);
  /// try again after a release.
  chunk* acquire();
  /// Back to the pool; the one given back last goes out first, while it is in the cache.
  void release(chunk* returned) noexcept;

  [[nodiscard]] std::size_t in_use() const noexcept { return in_use_; }
  [[nodiscard]] std::size_t chunk_size() const noexcept { return options_.chunk_size; }

 private:
  struct slab;
  base::result<void> add_slab();

  const std::shared_ptr<device::device> owner_;
  const options options_;
  const hooks hooks_;
  std::vector<std::unique_ptr<slab>> slabs_;
  chunk* free_ = nullptr;
  std::size_t made_ = 0;
  std::size_t in_use_ = 0;
  bool warned_ = false;
};

}  // namespace gaudi::copy
