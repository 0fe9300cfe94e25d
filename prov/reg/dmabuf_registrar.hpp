// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <list>
#include <memory>

#include "base/params.hpp"
#include "base/result.hpp"
#include "base/scoped_fd.hpp"
#include "core/inner_domain.hpp"
#include "device/device.hpp"
#include "device/observers.hpp"
#include "reg/dmabuf_ids.hpp"
#include "reg/registration_cache.hpp"
#include "reg/registration_failure.hpp"
#include "reg/window.hpp"

namespace gaudi::reg {

/// One registration as it was tried.
struct dmabuf_attempt {
  core::inner_mr mr;           ///< empty: it failed
  int code;                    ///< 0, or -FI_E*
  registration_failure why{};  ///< where it failed
};

/// A dma-buf with the part of it that a NIC is to know.
struct exported_allocation {
  base::scoped_fd fd;
  core::dmabuf_range range;  ///< of `fd`
};

/// Exports the allocation at `where`, for the NIC of whichever process. Errors are
/// device::export_dmabuf's.
base::result<exported_allocation> export_allocation(device::device& on,
                                                    const device::location& where);

/// Exports the allocation at `where` and registers it with the NIC of `core` for all local
/// operations and for those of FI_REMOTE_READ | FI_REMOTE_WRITE that are set in `access`. The
/// caller keeps the allocation while it keeps the registration.
dmabuf_attempt try_to_register(core::inner_domain& core, device::device& on,
                               const device::location& where, std::uint64_t access);

/// What became of one device's memory in a domain.
struct registration_counters {
  cache_counters cached;
  std::uint64_t refusals = 0;  ///< compare dmabuf_registrar::refusals
  int last_refusal = 0;        ///< 0, or -FI_E* of the last one
};

/// Makes device memory known to the NIC of one domain, so that it reads and writes it without a
/// copy: one registration for an allocation (reg/window.hpp) and for what peers may do to it,
/// shared by all who want it, and kept for the next who does as far as the limits go. The first one
/// for a device is the probe: where it fails for good, the domain stages that device's memory from
/// then on, after one warning that says why.
///
/// A dma-buf of the application's is another matter: what is known of it is its file, and nobody
/// tells when its memory is freed, nor could stage it.
///
/// The caller holds the domain lock, also when it drops a registration. Only frees come from other
/// threads and without that lock, which might be held by who waits for them: what they end here is
/// ended under the cache's own. The core is opened for FI_THREAD_DOMAIN nevertheless: what verbs
/// does to end a dma-buf's registration touches nothing of its domain but the kernel's.
class dmabuf_registrar final : private device::free_observer {
 public:
  /// `seen`, if any, is where others see what is counted here; it outlives this.
  dmabuf_registrar(core::inner_domain& core, base::dmabuf_choice choice, const cache_limits& limits,
                   window_size windows = {}, published_counters* seen = nullptr)
      : core_(core),
        choice_(choice),
        over_rdma_(core.over_rdma()),
        windows_(windows),
        seen_(seen ? *seen : unseen_),
        cache_(limits, &seen_) {}
  /// All registrations have been dropped.
  ~dmabuf_registrar() override;
  dmabuf_registrar(const dmabuf_registrar&) = delete;
  dmabuf_registrar& operator=(const dmabuf_registrar&) = delete;

  /// Registers the allocation that holds `where`, or the window of it that holds the `length` bytes
  /// there, for all local operations and for those of FI_REMOTE_READ | FI_REMOTE_WRITE that are set
  /// in `access`; or finds one that is registered and holds them. The caller has it pinned, and
  /// keeps the pin for longer than the registration. None: the memory is staged. With
  /// dmabuf_choice::on the reason instead, as an error. Whatever comes of it, the device stays open
  /// from then on for as long as this lives. Throws std::bad_alloc.
  base::result<registration> obtain(device::device& on, const device::location& where,
                                    std::uint64_t length, std::uint64_t access);

  /// Registers a part of a dma-buf that the application brings, whoever exported it, in the same
  /// way; `part.fd` stays the caller's, who may close it at once. One that nobody uses any more is
  /// kept as `kept` says, and with it the exporter's memory: an owner of the habanalabs driver
  /// cannot free it until then. The NIC's errors, after a warning that says why (the first time):
  /// nobody can stage such memory. -errno: not an open file. Throws std::bad_alloc.
  base::result<registration> obtain(const core::dmabuf_range& part, std::uint64_t access,
                                    retention kept);

  /// Ends all registrations without users, so that the core's domain may close.
  void forget_idle() noexcept { cache_.forget_idle(); }

  /// Registrations that the NIC did not take, so that the memory is staged.
  [[nodiscard]] std::uint64_t refusals() const noexcept { return seen_.refusals; }
  /// All zero where the device's memory was not wanted yet.
  [[nodiscard]] registration_counters counted(const device::device& on) const noexcept;
  /// Any thread, without the domain lock.
  [[nodiscard]] cache_counters cached() const noexcept { return cache_.counters(); }

 private:
  // A device whose memory was wanted. Registrations keep it open for the driver, so they end when
  // it is lost.
  struct known_device final : device::loss_observer {
    explicit known_device(registration_cache& all) noexcept : cache(all) {}
    void device_lost() noexcept override { cache.retire(cached); }

    registration_cache& cache;
    std::shared_ptr<device::device> owner;
    int refused = 0;  // for good, with this code
    std::uint64_t refusals = 0;
    int last_refusal = 0;
    unsigned refused_ranges = 0;  // by the NIC, in a row
    cache_counters cached;        // the cache's to write
  };

  void on_free(std::uint64_t allocation_id) noexcept override { cache_.forget(allocation_id); }
  known_device& known(device::device& on) {
    return last_known_ && last_known_->owner.get() == &on ? *last_known_ : find_or_keep(on);
  }
  known_device& find_or_keep(device::device& on);
  void watch(known_device& added);
  registration find(known_device& owner, const cache_key& key, const window& part,
                    const device::location& where, std::uint64_t length) noexcept;
  base::result<registration> make(known_device& owner, const cache_key& key,
                                  const device::location& part);
  template <class Attempt>
  dmabuf_attempt try_with_room(Attempt&& attempt, device::device* exporter);
  base::error refused(const core::dmabuf_range& given, int code, const registration_failure& why);
  base::result<registration> refused(known_device& by, int code, const registration_failure& why);
  base::result<registration> without(known_device& owner, int code) noexcept;

  core::inner_domain& core_;
  const base::dmabuf_choice choice_;
  const bool over_rdma_;
  const window_size windows_;
  std::list<known_device> devices_;  // before what is kept of them: that ends first
  known_device* last_known_ = nullptr;
  published_counters unseen_;
  published_counters& seen_;
  registration_cache cache_;
  dmabuf_ids given_;
};

}  // namespace gaudi::reg
