// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "base/params.hpp"
#include "base/result.hpp"
#include "core/inner_domain.hpp"
#include "device/device.hpp"
#include "reg/dmabuf_refusal.hpp"

namespace gaudi::reg {

/// One registration as it was tried.
struct dmabuf_attempt {
  core::inner_mr mr;     ///< empty: it failed
  int code;              ///< 0, or -FI_E*
  dmabuf_refusal why{};  ///< where it failed
};

/// Exports the allocation at `where` and registers it with the NIC of `core` for all local
/// operations and for those of FI_REMOTE_READ | FI_REMOTE_WRITE that are set in `access`. The
/// caller keeps the allocation while it keeps the registration.
dmabuf_attempt try_to_register(core::inner_domain& core, device::device& on,
                               const device::location& where, std::uint64_t access);

/// Makes device memory known to the NIC of one domain, so that it reads and writes it without a
/// copy: one registration for an allocation and for what peers may do to it, shared by all who
/// want it. The first one for a device is the probe: where it fails for good, the domain stages
/// that device's memory from then on, after one warning that says why.
///
/// A registration ends with the last pointer to it. Not thread safe: the caller holds the domain
/// lock, also when it drops one.
class dmabuf_registrar {
 public:
  using registration = std::shared_ptr<const core::inner_mr>;

  dmabuf_registrar(core::inner_domain& core, base::dmabuf_choice choice) noexcept
      : core_(core), choice_(choice) {}

  /// Registers the whole allocation that holds `address`, for all local operations and for those
  /// of FI_REMOTE_READ | FI_REMOTE_WRITE that are set in `access`. The caller keeps the allocation
  /// pinned for as long as it keeps the registration. Null: the memory is staged. With
  /// dmabuf_choice::on the reason instead, as an error.
  base::result<registration> obtain(device::device& on, std::uint64_t address,
                                    std::uint64_t access);

  /// Registrations that the NIC did not take, so that the memory is staged.
  [[nodiscard]] std::uint64_t refusals() const noexcept { return refusals_; }

 private:
  // An allocation by its number in the process, and what peers may do.
  using name = std::pair<std::uint64_t, std::uint64_t>;

  base::result<registration> refused(device::device& on, int code, const dmabuf_refusal& why);
  base::result<registration> without(int code) noexcept;

  core::inner_domain& core_;
  const base::dmabuf_choice choice_;
  std::map<name, std::weak_ptr<const core::inner_mr>> known_;
  std::map<const device::device*, int> refused_for_good_;  // with the code
  std::uint64_t refusals_ = 0;
};

}  // namespace gaudi::reg
