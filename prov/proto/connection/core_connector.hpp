// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

#include <vector>

#include "base/result.hpp"
#include "core/fid.hpp"
#include "core/inner_domain.hpp"
#include "proto/wire/hello.hpp"
#include "proto/wire/net_address.hpp"
#include "reg/other_nic.hpp"

namespace gaudi::proto {

/// Who handles what the core tells of connections. `fid`s are core endpoints, and may be of none
/// that is known.
class connection_events {
 public:
  /// A peer asks for a connection. With another verdict than none its hello cannot be accepted.
  /// `at`: the NIC that it came by; null: the domain's own.
  virtual void request_came(core::unique_info info, reg::other_nic* at, wire::reject_reason verdict,
                            const hello& remote_hello) = 0;
  /// The peer has accepted ours, or the core has made one that was accepted here. Null: the peer's
  /// hello cannot be accepted.
  virtual void endpoint_up(const fid* endpoint, const hello* remote_hello) = 0;
  virtual void endpoint_ended(const fid* endpoint) = 0;
  /// `verdict` on the peer's hello; `error`: a positive FI_E* code, or 0.
  virtual void endpoint_failed(const fid* endpoint, wire::reject_reason verdict,
                               const hello& remote_hello, int error) = 0;

 protected:
  ~connection_events() = default;
};

/// Who handles what the core tells of rails, whose endpoints are no connection's. A request is the
/// caller's on return, and an endpoint may be of none that is known. `at` as above.
class rail_events {
 public:
  virtual void requested(fi_info& info, reg::other_nic* at, const hello& remote_hello) = 0;
  virtual void up(const fid* endpoint) noexcept = 0;
  virtual void ended(const fid* endpoint) noexcept = 0;

 protected:
  ~rail_events() = default;
};

/// Who has buffers for packets that come by other NICs.
class receives_at_nics {
 public:
  /// The context where the NIC finds some, opened at the first call. Errors are the core's; throws
  /// std::bad_alloc.
  virtual base::result<fid_ep*> open_at(reg::other_nic& nic) = 0;

 protected:
  ~receives_at_nics() = default;
};

/// The core's side of making connections: a passive endpoint that takes requests, active endpoints,
/// and the queue where the core tells what becomes of them. Not thread safe: the caller holds the
/// domain lock.
class core_connector {
 public:
  explicit core_connector(core::inner_domain& core) noexcept : core_(core) {}

  /// Opens the listener, whose address is name() from then on. Each endpoint uses the two queues,
  /// which outlive it; without shared receives (null) it has its own. -FI_EADDRINUSE: the port
  /// asked for is taken.
  base::result<void> listen(fid_cq* completions, fid_ep* shared_receives, bool waitable,
                            bool any_port);
  /// From then on endpoints can be made on this NIC, too, whose operations come back by this queue.
  /// Both outlive it. Throws std::bad_alloc.
  void use_nic(reg::other_nic& nic, fid_cq* completions);
  /// Messages may come by it to endpoints that are made on it from then on. After use_nic(). Errors
  /// are the core's; throws std::bad_alloc.
  base::result<void> receive_at(reg::other_nic& nic, receives_at_nics& from);
  /// Takes requests at an address of another interface as well, of this NIC if any, at a port of
  /// its own. After listen(). Its name, or an error of the core's.
  base::result<net_address> listen_also(const net_address& at, reg::other_nic* nic = nullptr);
  [[nodiscard]] bool listens() const noexcept { return events_ != nullptr; }
  [[nodiscard]] const net_address& name() const noexcept { return name_; }
  /// For fi_trywait. Null before listen().
  [[nodiscard]] fid* events() const noexcept { return events_ ? &events_->fid : nullptr; }

  /// What an endpoint is made of that asks `to` for a connection. Null: there is no memory.
  [[nodiscard]] core::unique_info info_for(const net_address& to) const;
  /// The same from another address of this host, which is this NIC's, if any.
  [[nodiscard]] core::unique_info info_for(const net_address& to, const net_address& from,
                                           reg::other_nic* nic) const;
  /// By info_for(), or a request's, on the NIC that either is of. It is not enabled yet, and a
  /// request is then the endpoint's: its end refuses it.
  base::result<core::unique_fid<fid_ep>> create_endpoint(fi_info& info, void* context,
                                                         reg::other_nic* nic = nullptr) const;
  /// It may connect or accept from then on.
  base::result<void> enable(fid_ep* ep, reg::other_nic* nic = nullptr) const;

  /// Who takes rails; it outlives the last look at the core.
  void use_for_rails(rail_events& to) noexcept { rails_ = &to; }
  [[nodiscard]] rail_events* rails() const noexcept { return rails_; }

  void reject(const fi_info& info, const hello& why) const noexcept;
  /// Before the end: refuses all requests that were not read.
  void refuse_unread(const hello& why) noexcept;
  /// Hands on what the core tells next. False: there was nothing.
  bool read_next(connection_events& to);

 private:
  [[nodiscard]] core::inner_domain& core_of(reg::other_nic* nic) const noexcept {
    return nic ? nic->core() : core_;
  }
  [[nodiscard]] fid_ep* shared_receives_of(const reg::other_nic* nic) const noexcept {
    return nic ? nics_[nic->number() - 1].receives : shared_receives_;
  }
  [[nodiscard]] reg::other_nic* nic_of(const fid* listener) const noexcept;
  void hand_on(std::uint32_t event, const fi_eq_cm_entry& entry, std::size_t hello_length,
               connection_events& to);
  void read_error(connection_events& to);
  [[nodiscard]] base::result<core::unique_fid<fid_eq>> open_queue(bool waitable) const;
  [[nodiscard]] base::result<core::unique_fid<fid_pep>> open_listener(fid_eq* events,
                                                                      fi_info& info) const;

  core::inner_domain& core_;
  fid_cq* completions_ = nullptr;
  fid_ep* shared_receives_ = nullptr;
  core::unique_fid<fid_eq> events_;
  core::unique_fid<fid_pep> listener_;
  struct other_listener {
    core::unique_fid<fid_pep> listener;
    reg::other_nic* nic;
  };
  std::vector<other_listener> others_;
  struct at_nic {
    fid_cq* completions = nullptr;
    fid_ep* receives = nullptr;
  };
  std::vector<at_nic> nics_;  // by other_nic::number, from 1 on
  net_address name_;
  rail_events* rails_ = nullptr;
};

}  // namespace gaudi::proto
