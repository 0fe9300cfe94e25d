// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_domain.h>

#include <memory>

#include "base/result.hpp"
#include "device/device.hpp"
#include "fi/ext_ops.hpp"

namespace gaudi::fi {

/// What a domain has whatever its endpoints are: the operations of fi_ext_gaudi.h.
class any_domain : public fid_domain {
 public:
  static any_domain& of(fid_domain* d) noexcept { return *static_cast<any_domain*>(d); }

  /// The device in use, opened at first need. -FI_ENODATA: the application did not ask for FI_HMEM.
  static base::result<std::shared_ptr<device::device>> current_device();
  async_copies& copies() noexcept { return copies_; }

 protected:
  explicit any_domain(const fid_domain& own) noexcept : fid_domain(own) {}
  ~any_domain() = default;

 private:
  async_copies copies_;
};

}  // namespace gaudi::fi
