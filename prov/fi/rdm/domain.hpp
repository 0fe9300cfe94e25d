// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_domain.h>

#include <memory>
#include <optional>
#include <vector>

#include "base/domain_lock.hpp"
#include "base/event_set.hpp"
#include "base/result.hpp"
#include "core/inner_domain.hpp"
#include "core/tcp_streams.hpp"
#include "device/device.hpp"
#include "device/device_loss_epoch.hpp"
#include "fi/common/child_count.hpp"
#include "fi/common/domain_base.hpp"
#include "fi/common/domain_counters.hpp"
#include "fi/common/fabric.hpp"
#include "fi/rdm/endpoint_rota.hpp"
#include "fi/rdm/memory_region.hpp"
#include "fi/rdm/progress_thread.hpp"
#include "fi/rdm/rail_interfaces.hpp"
#include "fi/rdm/sleeping_place.hpp"
#include "reg/dmabuf_registrar.hpp"
#include "reg/import_cache.hpp"
#include "reg/key_table.hpp"
#include "reg/nic_loopback.hpp"
#include "reg/write_flush.hpp"

namespace gaudi::proto {
class endpoint;
}

namespace gaudi::fi {

/// fid_domain of the provider for FI_EP_RDM, see fi_domain(3): one core domain, one lock, and all
/// that is opened below.
class domain final : public domain_base {
 public:
  /// `own` has its tables.
  domain(const fid_domain& own, fabric& parent, const fi_info& info,
         std::unique_ptr<core::inner_domain> core);

  static constexpr carrier data_carrier = carrier::provider;

  static domain& of(fid_domain* d) noexcept { return *static_cast<domain*>(d); }
  static domain& of(fid_t f) noexcept { return of(reinterpret_cast<fid_domain*>(f)); }

  [[nodiscard]] base::domain_lock& lock() noexcept GAUDI_RETURN_CAPABILITY(lock_) { return lock_; }
  [[nodiscard]] core::inner_domain& core() noexcept { return *core_; }
  [[nodiscard]] child_count& open_children() noexcept { return children_; }
  [[nodiscard]] std::uint32_t api_version() const noexcept { return asked_.api_version; }
  [[nodiscard]] std::uint32_t addr_format() const noexcept { return asked_.addr_format; }

  /// Regions are addressed by virtual address, not by offset.
  [[nodiscard]] bool virtual_address() const noexcept { return asked_.virtual_address; }
  /// Opened with FI_HMEM.
  [[nodiscard]] bool hmem() const noexcept { return asked_.hmem; }
  /// Keys are chosen here, not by the application.
  [[nodiscard]] bool provider_keys() const noexcept { return asked_.provider_keys; }

  /// Calls call(dmabufs()) under the lock, which it takes.
  template <class Call>
  auto with_dmabufs(Call&& call) {
    const base::scoped_domain_lock lock(lock_);
    return call(dmabufs_);
  }

  /// Whether something of it is open. Takes the lock.
  [[nodiscard]] bool has_children() noexcept {
    const base::scoped_domain_lock lock(lock_);
    return children_.any() || regions_.live() != 0;
  }

  /// Of its endpoints.
  [[nodiscard]] const proto::rail_settings& rails() const noexcept { return rails_.settings(); }
  /// Bytes of the largest message that its endpoints send eagerly.
  [[nodiscard]] std::size_t eager_size() const noexcept;

  // Under the lock.
  memory_region_pool& regions() noexcept GAUDI_REQUIRES(lock_) { return regions_; }
  reg::key_table& keys() noexcept GAUDI_REQUIRES(lock_) { return keys_; }
  reg::dmabuf_registrar& dmabufs() noexcept GAUDI_REQUIRES(lock_) { return dmabufs_; }
  reg::nic_loopback& loop() noexcept GAUDI_REQUIRES(lock_) { return loop_; }
  reg::write_flush& flush() noexcept GAUDI_REQUIRES(lock_) { return flush_; }
  /// Null: the core has none.
  core::tcp_streams* streams() noexcept GAUDI_REQUIRES(lock_) {
    return core_->over_rdma() ? nullptr : &streams_;
  }
  /// What peers on this host passed; null: the NIC reads no dma-bufs, or shall not.
  reg::import_cache* imports() noexcept GAUDI_REQUIRES(lock_);
  /// Whether the NIC may be asked to register dma-bufs (FI_GAUDI_DMABUF, the core).
  [[nodiscard]] bool takes_dmabufs() const noexcept;
  proto::path_counters& paths() noexcept GAUDI_REQUIRES(lock_) { return counters_->paths; }
  const proto::latency_histograms* latencies() const noexcept { return latencies_.get(); }
  /// Before an endpoint is enabled: makes what the domain needs for one, so that add() cannot fail.
  /// Errors of core_events() and progress_thread::start.
  int prepare_endpoint(bool waitable) GAUDI_REQUIRES(lock_);
  /// An endpoint was enabled: progresses it from now on, if it does not yet. May be repeated after
  /// -FI_ENOMEM, and after errors of epoll_ctl(2), of which -EINVAL says that too much can be slept
  /// on in this domain (sleeping_place).
  int add(proto::endpoint& e) noexcept GAUDI_REQUIRES(lock_);
  /// It is about to close.
  void remove(proto::endpoint& e) noexcept GAUDI_REQUIRES(lock_);
  /// An endpoint listens at the port of the info already. Several can be opened with one info: the
  /// others get ports of their own, which fi_getname tells.
  [[nodiscard]] bool has_port_of_info() const noexcept GAUDI_REQUIRES(lock_);
  /// Whom polls of the application progress.
  endpoint_rota& endpoints() noexcept GAUDI_REQUIRES(lock_) { return endpoints_; }
  /// Progresses; whether a thread may sleep on core_events() after that. 0 or -FI_EAGAIN.
  int try_wait() GAUDI_REQUIRES(lock_);
  /// A file descriptor that is readable when there is something to progress at the core. Opened at
  /// first need.
  base::result<int> core_events() GAUDI_REQUIRES(lock_);
  /// A place to sleep until then, or until somebody rings.
  base::result<sleeping_place> open_sleeping_place() GAUDI_REQUIRES(lock_);

  /// FI_RMA_EVENT: what peers do here is counted, so none of it may go past this provider.
  [[nodiscard]] bool counts_targets() const noexcept { return asked_.counts_targets; }

  /// FI_PROGRESS_AUTO: a thread of ours progresses the domain.
  [[nodiscard]] bool progresses_itself() const noexcept { return asked_.auto_progress; }
  /// An operation was posted to `e`: what cannot wait until the application comes again is done by
  /// the thread.
  void posted_to(const proto::endpoint& e) noexcept GAUDI_REQUIRES(lock_) {
    if (thread_) [[unlikely]]
      notify_of(e);
  }
  void posted_to_any() noexcept GAUDI_REQUIRES(lock_);
  /// Before the domain goes. Not under the lock.
  void stop_thread() noexcept GAUDI_EXCLUDES(lock_);

 private:
  void notify_of(const proto::endpoint& e) noexcept GAUDI_REQUIRES(lock_);

  child_count::ref parent_;
  child_count children_;
  base::domain_lock lock_;
  std::unique_ptr<core::inner_domain> core_;
  base::counters::published<domain_counters> counters_;
  domain_latencies latencies_;
  /// By the application, at fi_domain.
  const struct {
    std::uint32_t api_version;
    std::uint32_t addr_format;
    bool hmem;
    bool virtual_address;
    bool provider_keys;
    bool auto_progress;
    bool counts_targets;
  } asked_;
  std::optional<base::event_set> core_events_ GAUDI_GUARDED_BY(lock_);
  std::optional<device::device_loss_epoch::loss_eventfd> losses_
      GAUDI_GUARDED_BY(lock_);  // in core_events_
  const domain_rails rails_;
  memory_region_pool regions_ GAUDI_GUARDED_BY(lock_);
  reg::key_table keys_ GAUDI_GUARDED_BY(lock_);
  reg::dmabuf_registrar dmabufs_ GAUDI_GUARDED_BY(lock_);
  reg::nic_loopback loop_ GAUDI_GUARDED_BY(lock_);
  reg::write_flush flush_ GAUDI_GUARDED_BY(lock_);
  reg::import_cache imports_ GAUDI_GUARDED_BY(lock_);
  core::tcp_streams streams_ GAUDI_GUARDED_BY(lock_);
  endpoint_rota endpoints_ GAUDI_GUARDED_BY(lock_);
  std::unique_ptr<progress_thread> thread_ GAUDI_GUARDED_BY(lock_);
};

}  // namespace gaudi::fi
