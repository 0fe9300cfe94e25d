// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.hpp"
#include "base/per_process.hpp"
#include "base/result.hpp"
#include "device/device.hpp"
#include "device/device_list.hpp"

namespace gaudi::device {

/// The process's devices. A device's number is its place in FI_GAUDI_DEVICE's list, from 0, where
/// the default device is; those that the application brings follow. Gaudi2 resets at each last
/// close, so each is opened on demand, once, and kept until clear(). All members may be called from
/// any thread; those that look up what is open take no lock.
///
/// Gaudi2s hand out the same addresses, each having an MMU of its own. So an address alone means a
/// device only while no other open one has it in known memory, too; whoever has more to go by
/// (a number, a region's owner) uses that. One device open is the common case, and costs one load
/// before the lookup in its address map; otherwise each open device's map is asked.
class device_registry {
 public:
  static constexpr unsigned max_devices = 64;

  /// The process's own: the child of a fork has none of its parent's devices.
  static device_registry& instance() { return base::per_process<device_registry>::get(); }

  /// What opening needs to know: the values of FI_GAUDI_HLTHUNK, FI_GAUDI_DEVICE and of the reset
  /// time-out.
  struct settings {
    std::string library;
    std::string device;
    std::chrono::milliseconds reset_timeout = device::default_reset_timeout;
  };

  /// The library, loaded at the first call. -FI_ENOSYS: there is none, said by one warning only.
  base::result<std::shared_ptr<const hl::thunk>> library(const std::string& path);

  /// How many devices there are to number; opens none. `settings` matter only to the first call
  /// here, of at() or of adopt(). -FI_EINVAL: FI_GAUDI_DEVICE does not parse or lists more than
  /// max_devices; for "all" also errors of thunk::load and device::indices.
  base::result<unsigned> count(const settings& config);
  /// The same without a lock; 0 before the first call of the other.
  [[nodiscard]] unsigned count() const noexcept { return count_.load(std::memory_order_acquire); }

  /// A device by its number, opened if it is not yet, or if it is lost and nothing is left on it:
  /// while something is, device::lost(). One of the application's or Synapse's that is lost is
  /// theirs to acquire anew; until then likewise device::lost(). Errors of count(), thunk::load and
  /// device::open; -FI_EINVAL: no such number; -FI_ENODEV: "all", but the machine has none. In a
  /// process that uses Synapse none is opened: number 0 is the device that Synapse has, if it has
  /// one (errors of hl::synapse::find and device::attach_synapse), and -FI_ENODEV is for all
  /// others.
  base::result<std::shared_ptr<device>> at(unsigned number, const settings& config);
  /// The default device.
  base::result<std::shared_ptr<device>> current(const settings& config) { return at(0, config); }
  /// A device by its number, it may be lost, or null; opens nothing. Not while clear() runs.
  [[nodiscard]] std::shared_ptr<device> opened(unsigned number = 0) const noexcept;
  /// The same, valid until clear().
  [[nodiscard]] device* known(unsigned number) const noexcept {
    return number < max_devices ? by_number_[number].load(std::memory_order_acquire) : nullptr;
  }

  /// Uses the application's device, and gives its number: the next one, but where FI_GAUDI_DEVICE
  /// names one device or none and that is not open yet, it takes its place, and where one is lost
  /// that of this; of one that was found among the process's open files meanwhile the number that
  /// it has. -FI_EBUSY: that device is open here already; -FI_ENOSPC: max_devices are listed;
  /// device::lost() of the one that it would follow, on which something is left; else errors of
  /// count() and device::adopt.
  base::result<unsigned> adopt(const settings& config, int fd);

  /// Lists one that is open already, by whatever library, as the next number, of which there must
  /// be one. For tests that have a library of their own.
  void add(std::shared_ptr<device> open);

  /// While it lives, devices are used: without any, those that are Synapse's rest. `how` is what
  /// find_or_attach() opens with, until another user comes.
  class user {
   public:
    user(device_registry& all, const settings& config) : all_(all) { all_.enter(config); }
    ~user() { all_.leave(); }
    user(const user&) = delete;
    user& operator=(const user&) = delete;

   private:
    device_registry& all_;
  };

  /// Whose memory an address is in.
  struct owner_lookup {
    device* owner = nullptr;  ///< valid until clear(); null: nobody's that is open, or several's
    bool several = false;
  };
  [[nodiscard]] owner_lookup find_owner(std::uint64_t addr) const noexcept {
    device* const only = only_.load(std::memory_order_acquire);
    if (!only) return find_among_several(addr);
    return {only->find(addr, 1) ? only : nullptr, false};
  }

  /// The same of a Gaudi2's or Gaudi3's address. In a process that uses Synapse, device 0 is
  /// attached first if nobody is known to hold the address: an application that passes addresses
  /// without registering them has no other call that would do so. Only such an address costs more
  /// than find_owner().
  [[nodiscard]] owner_lookup find_or_attach(std::uint64_t addr) noexcept {
    const owner_lookup found = find_owner(addr);
    return found.owner || found.several || !attach_guest() ? found : find_owner(addr);
  }

  [[nodiscard]] bool is_known(std::uint64_t addr) const noexcept {
    const owner_lookup found = find_owner(addr);
    return found.owner || found.several;
  }

  /// Calls visit(device&) for every open device that has `addr` in known memory.
  template <class Visit>
  void each_owner(std::uint64_t addr, Visit&& visit) const {
    const unsigned count = open_count_.load(std::memory_order_acquire);
    for (unsigned i = 0; i < count; ++i) {
      device* const one = open_[i].load(std::memory_order_relaxed);
      if (one->find(addr, 1)) visit(*one);
    }
  }

  /// Whether `addr` can only be device memory: a Gaudi2's or Gaudi3's address, or in memory known
  /// to an open device while nothing of this process's lies at that address (which a Gaudi1's
  /// may). At most one system call, which host addresses do not cost but by that coincidence.
  [[nodiscard]] bool is_surely_device(std::uint64_t addr) const noexcept;

  /// Lets go of all devices and closes those that nobody else holds; a library that could not be
  /// loaded is tried again. For the provider's cleanup, when no other call runs.
  void clear();

 private:
  struct entry {
    device_spec which;
    std::shared_ptr<device> opened;
    bool is_opening = false;  // by a thread that does not hold mutex_ meanwhile
  };
  class opening_guard;

  // The caller does not hold mutex_: a device may be in reset for seconds.
  static base::result<std::shared_ptr<device>> open_first(
      unsigned number, const settings& config, const device_spec& which,
      const std::shared_ptr<const hl::thunk>& library);
  static base::result<std::shared_ptr<device>> reopen(
      unsigned number, const settings& config, const device_spec& which,
      const std::shared_ptr<const hl::thunk>& library, const device& lost);

  base::result<std::shared_ptr<const hl::thunk>> library_locked(const std::string& path)
      GAUDI_REQUIRES(mutex_);
  base::result<void> list(const settings& config) GAUDI_REQUIRES(mutex_);
  base::result<std::vector<entry>> entries_for(const settings& config) GAUDI_REQUIRES(mutex_);
  /// Lets go of the mutex while a device is opened.
  base::result<std::shared_ptr<device>> obtain(unsigned number, const settings& config)
      GAUDI_REQUIRES(mutex_);
  void put(unsigned number, std::shared_ptr<device> found) GAUDI_REQUIRES(mutex_);
  void follow(const device& lost, const std::shared_ptr<device>& found) GAUDI_REQUIRES(mutex_);
  base::result<unsigned> entry_for(const device& adopted) GAUDI_REQUIRES(mutex_);
  [[nodiscard]] bool is_open(const device& one) const noexcept;
  [[nodiscard]] unsigned number_of(const device& known) const noexcept GAUDI_REQUIRES(mutex_);

  /// Whether a device of Synapse's was attached, or acquired again, by this call.
  bool attach_guest() noexcept;

  void enter(const settings& config);
  void leave() noexcept;

  [[nodiscard]] owner_lookup find_among_several(std::uint64_t addr) const noexcept;

  mutable base::mutex mutex_;
  std::condition_variable_any opened_one_;  // or failed to
  std::shared_ptr<const hl::thunk> library_ GAUDI_GUARDED_BY(mutex_);
  int library_failure_ GAUDI_GUARDED_BY(mutex_) = 0;
  bool listed_ GAUDI_GUARDED_BY(mutex_) = false;
  unsigned users_ GAUDI_GUARDED_BY(mutex_) = 0;
  settings config_of_users_ GAUDI_GUARDED_BY(mutex_);
  std::vector<entry> entries_ GAUDI_GUARDED_BY(mutex_);  // by number; a device named twice has two
  std::vector<std::shared_ptr<device>> retired_
      GAUDI_GUARDED_BY(mutex_);  // lost ones, of which somebody may still know

  // What is told of them without the lock. Entries come, and change only to a device that follows a
  // lost one, until clear().
  std::atomic<unsigned> count_{0};
  std::array<std::atomic<device*>, max_devices> by_number_{};
  std::array<std::atomic<device*>, max_devices> open_{};  // each once, in the order of opening
  std::atomic<unsigned> open_count_{0};
  std::atomic<device*> only_{nullptr};  // the open device, if it is one
};

}  // namespace gaudi::device
