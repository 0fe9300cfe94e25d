// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/counters_page.hpp"
#include "base/result.hpp"
#include "device/app_mappings.hpp"
#include "device/counters.hpp"
#include "device/device_memory.hpp"
#include "device/device_spec.hpp"
#include "device/event_watch.hpp"
#include "device/generation.hpp"
#include "device/location.hpp"
#include "device/observers.hpp"
#include "device/opening.hpp"
#include "hl/synapse.hpp"
#include "hl/thunk.hpp"

namespace gaudi::device {

class allocation_pin;

/// An open Gaudi and its memory, until it is lost: reset, hanging or removed. Then the driver has
/// no more to do with this object, which only keeps the books of what its user still has to free: a
/// device of the same name can be opened meanwhile. All members may be called from any thread;
/// find() and pin() take no lock. Addresses are device addresses: nothing here or above may
/// dereference one. Lives until the last shared_ptr goes (domains, regions, copies in flight hold
/// one), since the driver wants registration, dma-buf, mapping, allocation and descriptor released
/// in this order (prov/docs/device.md, 2.5).
class device : public std::enable_shared_from_this<device> {
 public:
  /// How long open() tries again while the device is in reset, which a Gaudi2 is for seconds after
  /// its last user closed it.
  static constexpr std::chrono::milliseconds default_reset_timeout{15000};

  /// Opens a device for this process alone, or gives the one that the process has open already if
  /// `which` names it: by this class, or by a descriptor of the application's (open_files.hpp),
  /// which is duplicated; without a name that is the first choice. After one warning that names the
  /// device and the remedy: -FI_EBUSY another process has it; -FI_EAGAIN still in reset after
  /// `reset_timeout`; -FI_ENODEV no such device; -FI_EINVAL no Gaudi that is known here; -EMFILE no
  /// descriptor left; or the driver's error. While it waits, other threads open other devices.
  static base::result<std::shared_ptr<device>> open(
      std::shared_ptr<const hl::thunk> thunk, const device_spec& which,
      std::chrono::milliseconds reset_timeout = default_reset_timeout);

  /// Uses a device that the application opened. `fd` stays the application's and must stay open
  /// while the device lives. -FI_EINVAL: not a Gaudi's descriptor, or a control node's; -FI_EBUSY:
  /// it came by fork from a process that uses it.
  static base::result<std::shared_ptr<device>> adopt(std::shared_ptr<const hl::thunk> thunk,
                                                     int fd);

  /// Uses the device that Synapse has in this process, by a duplicate of its descriptor, with its
  /// pool of device memory as one adopted range. -FI_ENODEV after one warning: the application has
  /// acquired none yet; errors of adopt().
  static base::result<std::shared_ptr<device>> attach_synapse(
      std::shared_ptr<const hl::thunk> thunk, std::shared_ptr<const hl::synapse> synapse);

  /// The index of the one that `which` names, found in the same way; -1: not known. -FI_ENODEV: it
  /// is no Gaudi of this machine; -FI_EINVAL: `which` is the first free one.
  static base::result<int> index_named(const hl::thunk& thunk, const device_spec& which);

  device(const device&) = delete;
  device& operator=(const device&) = delete;

  [[nodiscard]] const device_attributes& attributes() const noexcept { return attributes_; }
  [[nodiscard]] const generation_traits& generation() const noexcept { return generation_; }
  [[nodiscard]] const hl::thunk& thunk() const noexcept { return *thunk_; }
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  /// True for the first caller only: who says, once, that this device does not copy.
  [[nodiscard]] bool tell_no_copies() noexcept { return !told_no_copies_.exchange(true); }
  /// Where the device is Synapse's, that: its engines are not to be given commands behind its back.
  /// Else null.
  [[nodiscard]] const hl::synapse* synapse() const noexcept { return synapse_.get(); }

  /// The whole pages of Synapse's pool, which are all known; without length: it is not Synapse's.
  [[nodiscard]] location pool() const noexcept;
  /// Where in the pool [addr, addr + len) is of a dma-buf of the whole pool that was registered
  /// under the first address of the driver's mapping, as HCL does for its flush: SCAL's own memory
  /// lies there. -FI_EINVAL: not in that part of the mapping, or not Synapse's device.
  [[nodiscard]] base::result<std::uint64_t> pool_alias(std::uint64_t addr,
                                                       std::uint64_t len) const noexcept;

  /// Of a borrowed device that nobody uses for now: lets go of what would keep Synapse from
  /// releasing it. Until wake() only what was known of it is told. Nothing for others.
  void suspend() noexcept;
  /// Takes it up again, be it acquired anew. False: it is another one, has another pool or is not
  /// acquired, and this object is lost; or it was lost before.
  bool resume() noexcept;

  /// Of a device of the application's, or its Synapse's, that is lost: the one to use instead, once
  /// they have acquired it anew, by a duplicate of the descriptor that they have now. `which` is
  /// what to look for among the process's open files; Synapse tells itself. lost(), and nothing is
  /// said: they have not yet; else errors of open() and attach_synapse().
  [[nodiscard]] base::result<std::shared_ptr<device>> reopened_device(
      const device_spec& which) const;
  /// Whether the application opened it and nobody handed it over: it was found.
  [[nodiscard]] bool was_found() const noexcept { return !attributes_.owned && !is_handed_over_; }
  /// 0, or why the device is lost, for good: -FI_EIO it was reset or hangs; -FI_ENODEV it is gone.
  /// One load.
  [[nodiscard]] int lost() const noexcept { return lost_.load(std::memory_order_acquire); }
  /// Somebody noticed that it is: `code` tells (-FI_ENODEV, or anything else), `how` in words. The
  /// first one is a warning, closes the device and with it all that the driver had for this
  /// process, and counts in device_loss_epoch. What lost() says from now on. The caller does not
  /// hold a lock under which this object is called.
  int lose(int code, const char* config) noexcept;
  /// What a failed call of the library means: lost(), which it may be because of it; or `code`.
  int cause_of(int code) noexcept;
  /// Whom to tell when it is lost, until remove_observer(), before it is closed. Throws
  /// std::bad_alloc.
  void add_observer(loss_observer& w) {
    if (!loss_observers_.add(w)) w.device_lost();
  }
  /// On return the observer is not being told, nor will be.
  void remove_observer(loss_observer& w) noexcept { loss_observers_.remove(w); }
  /// Whether nothing is allocated or adopted that its user has to free or release. Synapse's pool
  /// and what is purpose::internal are not the user's.
  [[nodiscard]] bool is_vacant() const;
  /// What was done with it, also by those who have it: engines and endpoints add to these.
  [[nodiscard]] counters& counted() noexcept { return *counters_; }

  /// Bytes of HBM that allocate(), or Synapse, could still give, in the whole (one ioctl).
  [[nodiscard]] base::result<std::uint64_t> hbm_free() const;

  /// `len` bytes (> 0), aligned to 4 KiB, contents undefined. -FI_EINVAL: zero; -FI_ENOMEM: HBM
  /// is full; -FI_EOPNOTSUPP: an adopted Gaudi1, whose HBM is the application's to manage,
  /// or a borrowed device, whose HBM is Synapse's; or lost().
  base::result<std::uint64_t> allocate(std::uint64_t len, purpose what_for = purpose::user);
  /// `addr` as allocate gave it, else -FI_EINVAL. -FI_EBUSY: pinned, nothing is freed. Observers
  /// are told before the memory can be anybody else's.
  base::result<void> free(std::uint64_t addr) { return memory_.free(addr); }

  /// Its ranges of the application's, who wants to know of what is freed, and kept descriptors.
  [[nodiscard]] device_memory& memory() noexcept { return memory_; }

  /// Where [addr, addr + len) is. -FI_ENOENT: not in memory known here; -FI_EINVAL: zero length, or
  /// past the end of the allocation.
  [[nodiscard]] base::result<location> find(std::uint64_t addr, std::uint64_t len) const noexcept {
    return memory_.find(addr, len);
  }

  /// Keeps the allocation or range that holds [addr, addr + len) from being freed while the pin
  /// lives: what a memory region holds. Errors of find(): -FI_ENOENT also when it is just being
  /// freed; or lost().
  base::result<allocation_pin> pin(std::uint64_t addr, std::uint64_t len = 1);
  /// The same into `held`, which holds nothing yet, for who keeps the device anyway.
  base::result<location> pin_in(unowned_pin& held, std::uint64_t addr, std::uint64_t len) noexcept {
    if (const int gone = lost(); gone != 0) return base::error{gone};
    return memory_.pin_in(held, addr, len);
  }

  /// A dma-buf that holds [addr, addr + len): the whole mapping, exported once and duplicated for
  /// the caller. Errors of find(), and -FI_EOPNOTSUPP: this driver or library cannot export (Gaudi2
  /// on a 6.1 kernel), said once by a warning; or lost().
  base::result<dmabuf> export_dmabuf(std::uint64_t addr, std::uint64_t len);

 private:
  struct passkey {};

  base::result<void> adopt_pool(const hl::synapse::pool& pool);
  [[nodiscard]] bool is_still_there() const;
  [[nodiscard]] std::uint64_t openings() const noexcept;
  [[nodiscard]] bool is_reacquired(int fd, const std::string& bus_id) const;
  [[nodiscard]] base::result<std::shared_ptr<device>> reopened_application_device(
      const device_spec& which) const;

 public:
  /// For open and adopt, the only makers.
  device(passkey, std::shared_ptr<const hl::thunk> thunk, hl::device_fd fd,
         std::shared_ptr<const hl::synapse> synapse, const generation_traits& traits,
         device_attributes facts, const hl::hw_info& info);

 private:
  struct attempt {
    base::result<std::shared_ptr<device>> found;
    bool refused = false;  ///< the driver did not open it; nobody was warned
  };
  static attempt try_to_open(const std::shared_ptr<const hl::thunk>& thunk,
                             const std::string& bus_id);
  /// The caller holds the mutex of the registry of open devices (open.cpp), which has no name here.
  static base::result<std::shared_ptr<device>> make(
      std::shared_ptr<const hl::thunk> thunk, hl::device_fd fd,
      std::shared_ptr<const hl::synapse> synapse) GAUDI_NO_THREAD_SAFETY;
  void follow_application();

  const std::shared_ptr<const hl::thunk> thunk_;
  const std::shared_ptr<const hl::synapse> synapse_;
  const hl::device_fd fd_;       // before the mappings: they end first
  bool is_handed_over_ = false;  // set where it is made
  const generation_traits& generation_;
  const device_attributes attributes_;
  opening opening_;  // after fd_: it ends before that is closed

  observer_list<loss_observer> loss_observers_;
  std::atomic<int> lost_{0};
  std::atomic<bool> told_no_copies_{false};
  base::counters::published<counters> counters_;

  device_memory memory_;  // after fd_ and attributes_, which it uses

  hl::synapse::pool pool_{};  // Synapse's, where the device is borrowed; set where it is made
  // Of the device until now; another number: it was opened again. Whoever looks for a successor
  // reads it while another thread wakes the device.
  std::atomic<std::uint64_t> openings_{0};
  bool resting_ = false;  // rest() and wake() are called one at a time (table)

  // Last: other threads use all of the above through them.
  std::unique_ptr<event_watch> events_;
  std::once_flag followed_;
  std::unique_ptr<app_mappings> application_;
};

/// How many Gaudis the machine has, found by their control nodes, so that none is opened
/// exclusively.
base::result<unsigned> count_devices(const hl::thunk& thunk);
/// Their indices, as FI_GAUDI_DEVICE takes them, in ascending order, found in the same way.
base::result<std::vector<int>> device_indices(const hl::thunk& thunk);

/// The same with the device, and with where the range is that was asked for.
class allocation_pin {
 public:
  allocation_pin(allocation_pin&&) noexcept = default;
  allocation_pin& operator=(allocation_pin&& other) noexcept {
    std::swap(owner_, other.owner_);
    std::swap(where_, other.where_);
    held_ = std::move(other.held_);
    return *this;
  }
  ~allocation_pin() = default;

  [[nodiscard]] const location& where() const noexcept { return where_; }

 private:
  friend class device;
  allocation_pin(std::shared_ptr<device> owner, const location& where, unowned_pin held) noexcept
      : owner_(std::move(owner)), where_(where), held_(std::move(held)) {}

  std::shared_ptr<device> owner_;  // first: it outlives the pin
  location where_;
  unowned_pin held_;
};

}  // namespace gaudi::device
