// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <cstring>

#include "fi/av.hpp"
#include "fi/child_count.hpp"
#include "fi/cntr.hpp"
#include "fi/cq.hpp"
#include "fi/domain.hpp"
#include "fi/link_events.hpp"
#include "fi/shared_context.hpp"
#include "proto/endpoint.hpp"

namespace gaudi::fi {

/// fid_ep of the provider for FI_EP_RDM, see fi_endpoint(3).
class endpoint final : public fid_ep {
 public:
  endpoint(domain& parent, const fi_info& info, const proto::endpoint::settings& config,
           void* context);
  ~endpoint();

  static endpoint& of(fid_ep* e) noexcept { return *static_cast<endpoint*>(e); }
  static endpoint& of(fid_t f) noexcept { return of(reinterpret_cast<fid_ep*>(f)); }

  [[nodiscard]] domain& parent() noexcept { return parent_; }
  [[nodiscard]] base::domain_lock& lock() noexcept { return parent_.lock(); }
  [[nodiscard]] device::device_registry& devices() { return parent_.devices(); }
  /// Under the domain lock.
  proto::endpoint& core() noexcept { return core_; }
  proto::receive_context& receives() noexcept { return core_.receives(); }
  void progress() noexcept { core_.progress(); }
  /// Whether the address vector has this endpoint itself there. Under the domain lock.
  [[nodiscard]] bool is_own_address(fi_addr_t address) const noexcept {
    const auto* found = addresses_ ? addresses_->addresses().find(address) : nullptr;
    return found && core_.enabled() && *found == core_.name();
  }

  int bind(fid_t other, std::uint64_t flags);
  int enable();
  /// Something was posted: what cannot wait until the application comes again is done by the
  /// domain's thread, if it has one.
  void posted() noexcept { parent_.posted_to(core_); }
  int get_flags(std::uint64_t& flags) const;
  int set_flags(std::uint64_t flags);
  /// Under the domain lock.
  link_events& links() noexcept { return links_; }

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
  int bind_queue(cq& queue, std::uint64_t flags);
  int bind_counter(cntr& counter, std::uint64_t flags);
  int bind_srx(srx& context);
  int bind_stx(stx& context);
  [[nodiscard]] bool lacks_completions() const noexcept;

  domain& parent_;
  child_count::ref hold_;
  const std::uint64_t caps_;
  av* addresses_ = nullptr;
  child_count::ref addresses_hold_;
  child_count::ref srx_hold_;
  child_count::ref stx_hold_;
  direction tx_;
  direction rx_;
  counters counters_;
  proto::peer_access_counters peer_accesses_;
  std::vector<child_count::ref> counter_holds_;
  link_events links_{fid};
  bool waitable_ = false;  // something bound here can be slept on
  proto::endpoint core_;
};

/// The endpoint op of fid_domain. -FI_EINVAL: not FI_EP_RDM.
int endpoint_open(fid_domain* d, fi_info* info, fid_ep** out, void* context) noexcept;

// endpoint_options.cpp
int endpoint_getopt(fid_t f, int level, int name, void* out, std::size_t* length) noexcept;
int endpoint_setopt(fid_t f, int level, int name, const void* in, std::size_t length) noexcept;

/// The value of an option, as fi_getopt gives it. -FI_ETOOSMALL: *length is, and becomes what it
/// takes.
template <class T>
int give_option(const T& value, void* out, std::size_t* length) noexcept {
  const std::size_t room = *length;
  *length = sizeof value;
  if (room < sizeof value) return -FI_ETOOSMALL;
  std::memcpy(out, &value, sizeof value);
  return 0;
}

/// The same for fi_setopt. -FI_EINVAL: another length.
template <class T>
int take_option(T& value, const void* in, std::size_t length) noexcept {
  if (length != sizeof value) return -FI_EINVAL;
  std::memcpy(&value, in, sizeof value);
  return 0;
}

// The operation tables, each in its file.
extern fi_ops_cm endpoint_cm_ops;
extern fi_ops_msg endpoint_msg_ops;
extern fi_ops_tagged endpoint_tagged_ops;
extern fi_ops_rma endpoint_rma_ops;
// For an endpoint whose receives are posted to a context that it shares.
extern fi_ops_msg sending_msg_ops;
extern fi_ops_tagged sending_tagged_ops;
extern fi_ops_atomic endpoint_atomic_ops;

/// The query_atomic op of fid_domain. -FI_EOPNOTSUPP: there is no such operation.
int query_atomic(fid_domain* d, fi_datatype type, fi_op op, fi_atomic_attr* attr,
                 std::uint64_t flags) noexcept;

}  // namespace gaudi::fi
