// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_endpoint.h>

#include <cstdint>
#include <vector>

#include "fi/common/child_count.hpp"
#include "fi/rdm/av.hpp"
#include "fi/rdm/cntr.hpp"
#include "fi/rdm/cq.hpp"
#include "fi/rdm/domain.hpp"
#include "fi/rdm/link_events.hpp"
#include "fi/rdm/shared_context.hpp"
#include "proto/endpoint.hpp"

namespace gaudi::fi {

/// fid_ep of the provider for FI_EP_RDM, see fi_endpoint(3).
class endpoint final : public fid_ep {
 public:
  /// `own` has its tables, `sharing` those for receives that are posted to a context that it
  /// shares.
  endpoint(const fid_ep& own, const fid_ep& sharing, domain& parent, const fi_info& info,
           const proto::endpoint::settings& config);
  ~endpoint();

  static endpoint& of(fid_ep* e) noexcept { return *static_cast<endpoint*>(e); }
  static endpoint& of(fid_t f) noexcept { return of(reinterpret_cast<fid_ep*>(f)); }

  [[nodiscard]] domain& parent() const noexcept { return parent_; }
  [[nodiscard]] base::domain_lock& lock() const noexcept GAUDI_RETURN_CAPABILITY(parent().lock()) {
    return parent_.lock();
  }
  [[nodiscard]] device::device_registry& devices() { return parent_.devices(); }
  proto::endpoint& core() noexcept GAUDI_REQUIRES(parent().lock()) { return core_; }
  proto::receive_context& receives() noexcept GAUDI_REQUIRES(parent().lock()) {
    return core_.receives();
  }
  void progress() noexcept GAUDI_REQUIRES(parent().lock()) { core_.progress(); }
  /// Whether the address vector has this endpoint itself there.
  [[nodiscard]] bool is_own_address(fi_addr_t address) const noexcept
      GAUDI_REQUIRES(parent().lock()) {
    const auto* found = addresses_ ? addresses_->addresses().find(address) : nullptr;
    return found && core_.enabled() && *found == core_.name();
  }

  int bind(fid_t other, std::uint64_t flags);
  int enable();
  /// Something was posted: what cannot wait until the application comes again is done by the
  /// domain's thread, if it has one.
  void posted() noexcept GAUDI_REQUIRES(parent().lock()) { parent().posted_to(core_); }
  int get_flags(std::uint64_t& flags) const;
  int set_flags(std::uint64_t flags);
  link_events& links() noexcept GAUDI_REQUIRES(parent().lock()) { return links_; }

  [[nodiscard]] std::uint64_t tx_flags() const noexcept { return tx_.default_flags; }
  [[nodiscard]] std::uint64_t rx_flags() const noexcept { return rx_.default_flags; }

  /// What an operation with these flags reports. `flags` are op_flags of the endpoint, or those of
  /// the call for the msg variants.
  [[nodiscard]] proto::completion_spec tx_request(void* user_context, std::uint64_t flags,
                                                  std::uint64_t kind) const noexcept {
    return tx_.make(user_context, flags, kind, counter_for(kind));
  }
  [[nodiscard]] proto::completion_spec rx_request(void* user_context, std::uint64_t flags,
                                                  std::uint64_t kind) const noexcept {
    return rx_.make(user_context, flags, kind, counters_.receives);
  }

 private:
  struct direction {
    cq* queue = nullptr;
    proto::completion_queue* entries = nullptr;
    child_count::ref hold;
    bool selective = false;
    std::uint64_t default_flags = 0;

    [[nodiscard]] proto::completion_spec make(void* user_context, std::uint64_t flags,
                                              std::uint64_t kind,
                                              base::counter* counter) const noexcept {
      return {.queue = entries,
              .counter = counter,
              .context = user_context,
              .flags = kind,
              .report = !selective || (flags & FI_COMPLETION)};
    }
  };

  /// Counters bound for each kind of operation, or null.
  struct counters {
    base::counter* sends = nullptr;
    base::counter* receives = nullptr;
    base::counter* reads = nullptr;
    base::counter* writes = nullptr;
  };
  [[nodiscard]] base::counter* counter_for(std::uint64_t kind) const noexcept {
    if (kind & FI_SEND) return counters_.sends;
    return (kind & FI_READ) ? counters_.reads : counters_.writes;
  }

  void linger();
  int bind_queue(cq& queue, std::uint64_t flags) GAUDI_REQUIRES(parent().lock());
  int bind_counter(cntr& counter, std::uint64_t flags) GAUDI_REQUIRES(parent().lock());
  int bind_srx(srx& context) GAUDI_REQUIRES(parent().lock());
  [[nodiscard]] bool lacks_completions() const noexcept GAUDI_REQUIRES(parent().lock());

  const fid_ep& sharing_;
  domain& parent_;
  child_count::ref hold_;
  const std::uint64_t caps_;
  av* addresses_ GAUDI_GUARDED_BY(parent().lock()) = nullptr;
  child_count::ref addresses_hold_;
  child_count::ref srx_hold_;
  direction tx_;
  direction rx_;
  counters counters_;
  proto::peer_access_counters peer_accesses_;
  std::vector<child_count::ref> counter_holds_;
  link_events links_ GAUDI_GUARDED_BY(parent().lock()){fid};
  bool waitable_ = false;  // something bound here can be slept on
  proto::endpoint core_ GAUDI_GUARDED_BY(parent().lock());
};

}  // namespace gaudi::fi
