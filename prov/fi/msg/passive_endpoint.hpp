// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>

#include "core/fid.hpp"
#include "fi/common/child_count.hpp"
#include "fi/common/fork_guard.hpp"
#include "fi/msg/passive_base.hpp"

namespace gaudi::fi {

/// fid_pep of the provider, see fi_passive_ep(3): one of the core's, whose connection requests
/// carry infos of ours.
class passive_endpoint final : public passive_base {
 public:
  virtual ~passive_endpoint() = default;
  passive_endpoint(const passive_endpoint&) = delete;
  passive_endpoint& operator=(const passive_endpoint&) = delete;

  /// The passive_ep op of fid_fabric. -FI_EINVAL: the info is not of FI_EP_MSG.
  static int open(fid_fabric* f, fi_info* info, fid_pep** out, void* context) noexcept;

  static passive_endpoint& of(fid_pep* p) noexcept { return *static_cast<passive_endpoint*>(p); }
  static passive_endpoint& of(fid_t f) noexcept { return of(reinterpret_cast<fid_pep*>(f)); }

  [[nodiscard]] fid_pep* core() const noexcept override { return core_.get(); }
  [[nodiscard]] bool used_after_fork() const noexcept { return fork_guard_.used_after_fork(); }
  int bind(fid_t other, std::uint64_t flags);

  void present(fi_info& request) const override;
  void refuse(core::unique_info request) const noexcept override;

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
