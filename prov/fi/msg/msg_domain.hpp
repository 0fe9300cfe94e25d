// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_domain.h>

#include <memory>

#include "base/mutex.hpp"
#include "core/inner_domain.hpp"
#include "fi/common/child_count.hpp"
#include "fi/common/domain_base.hpp"
#include "fi/common/domain_counters.hpp"
#include "fi/common/fabric.hpp"
#include "reg/dmabuf_registrar.hpp"

namespace gaudi::fi {

/// fid_domain of the provider for FI_EP_MSG, see fi_domain(3): a domain of the core's in which
/// device memory can be registered, too. What it opens besides endpoints and device memory regions
/// (queues, counters, shared contexts, host memory regions) are the core's own objects.
class msg_domain final : public domain_base {
 public:
  /// `own` has its tables.
  msg_domain(const fid_domain& own, fabric& parent, fid_fabric* core_fabric, bool hmem,
             std::unique_ptr<core::inner_domain> core);

  static constexpr carrier data_carrier = carrier::core;

  static msg_domain& of(fid_domain* d) noexcept { return *static_cast<msg_domain*>(d); }
  static msg_domain& of(fid_t f) noexcept { return of(reinterpret_cast<fid_domain*>(f)); }

  [[nodiscard]] fid_domain* core() const noexcept { return core_->domain(); }
  [[nodiscard]] fid_fabric* core_fabric() const noexcept { return core_fabric_; }
  [[nodiscard]] bool hmem() const noexcept { return hmem_; }
  child_count& open_children() noexcept { return children_; }

  /// Under dmabufs_mutex(), also to drop a registration.
  reg::dmabuf_registrar& dmabufs() noexcept GAUDI_REQUIRES(dmabufs_mutex_) { return dmabufs_; }
  /// Calls call(dmabufs()), under the mutex.
  template <class Call>
  auto with_dmabufs(Call&& call) {
    const base::scoped_lock lock(dmabufs_mutex_);
    return call(dmabufs_);
  }
  base::mutex& dmabufs_mutex() noexcept GAUDI_RETURN_CAPABILITY(dmabufs_mutex_) {
    return dmabufs_mutex_;
  }

  int bind(fid_t other, std::uint64_t flags);
  /// -FI_EBUSY: something of it is still open. The object may be deleted after 0 only.
  int close() noexcept;

 private:
  child_count::ref parent_;
  child_count children_;
  fid_fabric* const core_fabric_;
  const bool hmem_;
  std::unique_ptr<core::inner_domain> core_;
  base::counters::published<domain_counters> counters_;
  base::mutex dmabufs_mutex_;
  reg::dmabuf_registrar dmabufs_ GAUDI_GUARDED_BY(dmabufs_mutex_);
  child_count::ref events_hold_;
};

}  // namespace gaudi::fi
