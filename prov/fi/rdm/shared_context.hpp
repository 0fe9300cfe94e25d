// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_endpoint.h>

#include "fi/common/child_count.hpp"
#include "fi/rdm/domain.hpp"
#include "proto/match/receive_context.hpp"

namespace gaudi::fi {

/// A shared receive context, see fi_srx_context(3): endpoints of one domain and one address vector
/// that are bound to it take their messages to the receives posted here. A completion goes to the
/// queue of the endpoint that got the message.
class srx final : public fid_ep {
 public:
  /// The srx_ctx op of fid_domain.
  static int open(fid_domain* d, fi_rx_attr* attr, fid_ep** out, void* context) noexcept;

  static srx& of(fid_ep* e) noexcept { return *static_cast<srx*>(e); }
  static srx& of(fid_t f) noexcept { return of(reinterpret_cast<fid_ep*>(f)); }

  [[nodiscard]] domain& parent() const noexcept { return parent_; }
  [[nodiscard]] device::device_registry& devices() { return parent_.devices(); }
  proto::receive_context& receives() noexcept GAUDI_REQUIRES(parent().lock()) { return core_; }
  /// Its endpoints do that by themselves.
  void progress() noexcept {}
  child_count& bound() noexcept { return bound_; }

  [[nodiscard]] std::uint64_t rx_flags() const noexcept { return default_flags_; }
  [[nodiscard]] proto::completion_spec rx_request(void* user_context, std::uint64_t flags,
                                                  std::uint64_t kind) const noexcept {
    return {.context = user_context,
            .flags = kind,
            .report = (flags & FI_COMPLETION) != 0,
            .shared = true};
  }
  /// A receive was posted.
  void posted() noexcept GAUDI_REQUIRES(parent().lock()) { parent().posted_to_any(); }

 private:
  srx(domain& parent, const fi_rx_attr& attr, void* context);

  domain& parent_;
  child_count::ref hold_;
  child_count bound_;
  const std::uint64_t default_flags_;
  proto::receive_context core_ GAUDI_GUARDED_BY(parent().lock());
};

/// A shared transmit context, see fi_stx_context(3). Endpoints here share what they send with, the
/// core's domain and its pools, whether they are bound to such a context or not. So one may be
/// bound to an enabled endpoint as well, and closed before it: Sandia OpenSHMEM 1.5 does both where
/// it has a single endpoint (transport_ofi.c, bind_enable_ep_resources and shmem_transport_fini).
class stx final : public fid_stx {
 public:
  /// The stx_ctx op of fid_domain.
  static int open(fid_domain* d, fi_tx_attr* attr, fid_stx** out, void* context) noexcept;

  static stx& of(fid_t f) noexcept { return *static_cast<stx*>(reinterpret_cast<fid_stx*>(f)); }
  [[nodiscard]] domain& parent() const noexcept { return parent_; }

 private:
  stx(domain& parent, void* context) noexcept;

  domain& parent_;
  child_count::ref hold_;
};

}  // namespace gaudi::fi
