// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/mutex.hpp"
#include "base/result.hpp"
#include "device/address_map.hpp"
#include "device/counters.hpp"
#include "device/generation.hpp"
#include "device/location.hpp"
#include "device/mapping.hpp"
#include "device/observers.hpp"
#include "device/pin_count.hpp"
#include "device/suballocator.hpp"
#include "hl/thunk.hpp"

namespace gaudi::device {

/// What is fixed about an open device; compare struct fi_gaudi_device_attr.
struct device_attributes {
  int generation = 0;  ///< enum fi_gaudi_generation
  std::string name;    ///< "Gaudi2", or the stand-in's "simulated Gaudi2"
  std::string bus_id;  ///< "0000:19:00.0"
  int index = -1;      ///< as FI_GAUDI_DEVICE takes it; -1 when not known
  std::uint32_t module_id = 0;
  bool simulated = false;
  bool owned = false;          ///< opened here; false: the application's, or its Synapse's
  std::uint64_t hbm_size = 0;  ///< bytes for user allocations
};

/// Whose memory is allocated.
enum class purpose : std::uint8_t {
  user,      ///< the user frees it: a device that is lost waits for that before it is reopened
  internal,  ///< the provider's own: nobody knows its address
};

/// Holds an allocation, or nothing: while it does, free and release_range say -FI_EBUSY. The device
/// outlives it.
class unowned_pin {
 public:
  unowned_pin() = default;
  unowned_pin(unowned_pin&& other) noexcept : pins_(std::exchange(other.pins_, nullptr)) {}
  unowned_pin& operator=(unowned_pin&& other) noexcept {
    std::swap(pins_, other.pins_);
    return *this;
  }
  ~unowned_pin() { reset(); }

  void reset() noexcept {
    if (pin_count* const held = std::exchange(pins_, nullptr)) held->drop();
  }

 private:
  friend class device_memory;
  pin_count* pins_ = nullptr;
};

/// The memory of an open device: what the driver gives, cut into allocations; ranges that the
/// application allocated; pins that keep both; and their dma-bufs. Knows nothing of the device's
/// loss: the device asks first, and says what an error means. All members may be called from any
/// thread; find() and pin_in() take no lock.
class device_memory {
 public:
  /// What does not change. The references outlive this.
  struct facts {
    std::shared_ptr<const hl::thunk> thunk;
    const hl::device_fd& fd;
    const generation_traits& generation;
    const device_attributes& attributes;
    bool is_synapses;  ///< nothing is allocated here
    std::uint64_t dram_base;
    std::uint64_t page_size;  ///< bytes, of the driver's mappings
  };

  device_memory(facts f, counters& counted);
  device_memory(const device_memory&) = delete;
  device_memory& operator=(const device_memory&) = delete;

  /// As device::allocate, but for loss and for what is larger than HBM.
  base::result<std::uint64_t> allocate(std::uint64_t len, purpose what_for) GAUDI_EXCLUDES(mutex_);
  /// As device::free.
  base::result<void> free(std::uint64_t addr) GAUDI_EXCLUDES(mutex_);

  /// Makes known a range of the application's, inside a mapping that begins at `map_base`.
  /// (On a Gaudi1 nothing is mapped: a part of HBM in whole 4 KiB pages.) -FI_EINVAL: not device
  /// addresses, or outside the mapping; -EEXIST: overlaps a known range, as all of a Gaudi1 that
  /// was opened here does.
  base::result<void> adopt_range(std::uint64_t addr, std::uint64_t len, std::uint64_t map_base,
                                 std::uint64_t map_len);
  /// The same of a range with a mapping that is here.
  base::result<void> make_known(const location& added, mapping whole) GAUDI_EXCLUDES(mutex_);
  /// Forgets an adopted range by its first address, after its observers. -FI_EINVAL: not one;
  /// -FI_EBUSY: pinned.
  base::result<void> release_range(std::uint64_t addr);

  /// As device::find.
  [[nodiscard]] base::result<location> find(std::uint64_t addr, std::uint64_t len) const noexcept {
    return map_.find(addr, len);
  }
  /// As device::pin_in.
  base::result<location> pin_in(unowned_pin& held, std::uint64_t addr, std::uint64_t len) noexcept;

  /// Whom to tell of each allocation and range that goes, until remove_observer(). It keeps the
  /// device for that long. Throws std::bad_alloc.
  void add_observer(free_observer& w) { static_cast<void>(free_observers_.add(w)); }
  /// On return the observer is not being told, nor will be.
  void remove_observer(free_observer& w) noexcept { free_observers_.remove(w); }

  /// As device::export_dmabuf.
  base::result<dmabuf> export_dmabuf(std::uint64_t addr, std::uint64_t len) GAUDI_EXCLUDES(mutex_);
  /// Closes the descriptors kept of mappings that were exported, where the process is short of
  /// them: what NICs know of the memory stays. Such mappings are exported again when they are
  /// wanted next. False: there were none.
  bool close_dmabufs() noexcept;

  /// The device is lost, or rests: the driver has no more to do with what is mapped. An export
  /// would keep the device open for it.
  void abandon() noexcept GAUDI_EXCLUDES(mutex_);

  /// Allocations and ranges, but for what is purpose::internal.
  [[nodiscard]] std::size_t user_records() const GAUDI_EXCLUDES(mutex_);
  /// Bytes that are here and not allocated; what the driver has besides is not among them.
  [[nodiscard]] std::uint64_t free_bytes() const GAUDI_EXCLUDES(mutex_);
  /// Whether HBM is cut into allocations here, all of it, without the driver (Gaudi1).
  [[nodiscard]] bool manages_hbm() const noexcept {
    return facts_.generation.physical_addresses && facts_.attributes.owned;
  }
  /// Whether these can be addresses of the device's memory.
  [[nodiscard]] bool is_own_memory(std::uint64_t base, std::uint64_t len) const noexcept;

 private:
  struct record {
    std::uint64_t len;
    std::uint64_t map_base;
    std::uint64_t allocation_id;
    bool adopted;
    pin_count* pins;
    bool being_freed = false;  // being freed: not to be pinned any more
    purpose what_for = purpose::user;
  };
  struct adopted_mapping {
    mapping map;
    unsigned ranges = 0;
  };
  using regions = std::map<std::uint64_t, mapping>;
  base::error no_allocator(const char* why) GAUDI_REQUIRES(mutex_);
  base::result<void> grow(std::uint64_t len) GAUDI_REQUIRES(mutex_);
  base::result<mapping> take(std::uint64_t len) GAUDI_REQUIRES(mutex_);
  base::result<mapping> take_physical(std::uint64_t len) GAUDI_REQUIRES(mutex_);
  base::result<void> add_region(base::result<mapping> got) GAUDI_REQUIRES(mutex_);
  base::result<void> publish(location added) GAUDI_REQUIRES(mutex_);
  base::result<std::uint64_t> close_to_pins(std::uint64_t addr, bool adopted) noexcept
      GAUDI_REQUIRES(mutex_);
  void forget(std::uint64_t addr) noexcept GAUDI_REQUIRES(mutex_);
  regions::iterator smallest_empty_region() noexcept GAUDI_REQUIRES(mutex_);
  bool release_empty_regions(regions::iterator spare) noexcept GAUDI_REQUIRES(mutex_);
  [[nodiscard]] bool overlaps_region(std::uint64_t base, std::uint64_t len) const noexcept
      GAUDI_REQUIRES(mutex_);
  mapping& mapping_at(std::uint64_t map_base) noexcept GAUDI_REQUIRES(mutex_);
  pin_count& spare_pins() GAUDI_REQUIRES(mutex_);

  base::result<void> part_with(std::uint64_t addr, bool adopted) noexcept GAUDI_EXCLUDES(mutex_);

  const facts facts_;
  counters& counters_;
  observer_list<free_observer> free_observers_;

  mutable base::mutex mutex_;
  regions regions_ GAUDI_GUARDED_BY(mutex_);  // driver allocations, by base
  // Mappings of adopted ranges, by base.
  std::map<std::uint64_t, adopted_mapping> borrowed_ GAUDI_GUARDED_BY(mutex_);
  suballocator dram_
      GAUDI_GUARDED_BY(mutex_);  // of a Gaudi1 opened here: what regions_ are cut from
  suballocator blocks_ GAUDI_GUARDED_BY(mutex_);
  // Allocations and ranges, by base.
  std::map<std::uint64_t, record> records_ GAUDI_GUARDED_BY(mutex_);
  std::size_t internal_records_ GAUDI_GUARDED_BY(mutex_) = 0;
  std::deque<pin_count> pins_ GAUDI_GUARDED_BY(mutex_);  // of each record, and spare ones
  pin_count* spare_pins_ GAUDI_GUARDED_BY(mutex_) = nullptr;
  bool warned_no_export_ GAUDI_GUARDED_BY(mutex_) = false;
  bool warned_no_allocator_ GAUDI_GUARDED_BY(mutex_) = false;
  address_map map_;  // changed under the mutex, read without it
};

}  // namespace gaudi::device
