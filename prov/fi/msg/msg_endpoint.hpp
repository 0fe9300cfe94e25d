// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_endpoint.h>

#include "core/fid.hpp"
#include "device/device_registry.hpp"
#include "fi/common/child_count.hpp"
#include "fi/common/fork_guard.hpp"
#include "fi/msg/msg_domain.hpp"

namespace gaudi::fi {

/// fid_ep of the provider for FI_EP_MSG, see fi_endpoint(3): an endpoint of the core's. Every
/// operation is the core's; only event queues, which are ours, have to be translated. Thread rules
/// are those of the core's endpoint.
class msg_endpoint final : public fid_ep {
 public:
  /// `own` has all tables.
  msg_endpoint(const fid_ep& own, msg_domain& parent) noexcept;
  /// `core` is the core's endpoint, whose context is this one's fid.
  void adopt(fid_ep* core) noexcept;

  static msg_endpoint& of(fid_ep* e) noexcept { return *static_cast<msg_endpoint*>(e); }
  static msg_endpoint& of(fid_t f) noexcept { return of(reinterpret_cast<fid_ep*>(f)); }

  [[nodiscard]] fid_ep* core() const noexcept { return core_.get(); }
  /// Whose memory it may move.
  [[nodiscard]] const device::device_registry& devices() const noexcept { return devices_; }
  [[nodiscard]] bool used_after_fork() const noexcept { return fork_guard_.used_after_fork(); }
  int bind(fid_t other, std::uint64_t flags);

 private:
  const fork_guard fork_guard_;
  const device::device_registry& devices_;
  child_count::ref hold_;
  fid_fabric* const core_fabric_;
  child_count::ref events_hold_;
  core::unique_fid<fid_ep> core_;
};

}  // namespace gaudi::fi
