// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>

#include "core/fid.hpp"
#include "device/device_registry.hpp"
#include "fi/child_count.hpp"
#include "fi/eq.hpp"
#include "fi/fork_guard.hpp"

namespace gaudi::fi {

class msg_domain;

/// fid_ep of the provider for FI_EP_MSG, see fi_endpoint(3): an endpoint of the core's. Every
/// operation is the core's; only event queues, which are ours, have to be translated. Thread rules
/// are those of the core's endpoint.
class msg_endpoint final : public fid_ep {
 public:
  /// The endpoint op of a msg_domain.
  static int open(fid_domain* d, fi_info* info, fid_ep** out, void* context) noexcept;

  static msg_endpoint& of(fid_ep* e) noexcept { return *static_cast<msg_endpoint*>(e); }
  static msg_endpoint& of(fid_t f) noexcept { return of(reinterpret_cast<fid_ep*>(f)); }

  [[nodiscard]] fid_ep* core() const noexcept { return core_.get(); }
  /// Whose memory it may move.
  [[nodiscard]] const device::device_registry& devices() const noexcept { return devices_; }
  [[nodiscard]] bool used_after_fork() const noexcept { return fork_guard_.used_after_fork(); }
  int bind(fid_t other, std::uint64_t flags);

 private:
  msg_endpoint(msg_domain& parent, void* context) noexcept;
  void adopt(fid_ep* core) noexcept;

  const fork_guard fork_guard_;
  const device::device_registry& devices_;
  child_count::ref hold_;
  fid_fabric* const core_fabric_;
  child_count::ref events_hold_;
  core::unique_fid<fid_ep> core_;
};

/// fid_pep of the provider, see fi_passive_ep(3): one of the core's, whose connection requests
/// carry infos of ours.
class passive_endpoint final : public fid_pep {
 public:
  /// The passive_ep op of fid_fabric. -FI_EINVAL: the info is not of FI_EP_MSG.
  static int open(fid_fabric* f, fi_info* info, fid_pep** out, void* context) noexcept;

  static passive_endpoint& of(fid_pep* p) noexcept { return *static_cast<passive_endpoint*>(p); }
  static passive_endpoint& of(fid_t f) noexcept { return of(reinterpret_cast<fid_pep*>(f)); }

  [[nodiscard]] fid_pep* core() const noexcept { return core_.get(); }
  [[nodiscard]] bool used_after_fork() const noexcept { return fork_guard_.used_after_fork(); }
  int bind(fid_t other, std::uint64_t flags);

  /// Makes the info of a connection request ours.
  void present(fi_info& request) const;
  /// Answers a connection request of the core's that the application will not see.
  void refuse(core::unique_info request) const noexcept;

 private:
  passive_endpoint(child_count& parent, fid_fabric* core_fabric, core::unique_info info,
                   void* context) noexcept;

  const fork_guard fork_guard_;
  child_count::ref hold_;
  fid_fabric* const core_fabric_;
  const core::unique_info info_;
  child_count::ref events_hold_;
  core::unique_fid<fid_pep> core_;
};

}  // namespace gaudi::fi
