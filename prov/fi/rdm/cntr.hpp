// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_eq.h>

#include <memory>

#include "base/counter.hpp"
#include "fi/common/child_count.hpp"
#include "fi/rdm/domain.hpp"
#include "fi/rdm/wait_object.hpp"

namespace gaudi::fi {

/// fid_cntr of the provider, see fi_cntr(3). Reading and waiting progress the whole domain.
class cntr final : public fid_cntr {
 public:
  cntr(domain& parent, fi_wait_obj kind, std::unique_ptr<wait_object> object, void* context);

  static cntr& of(fid_cntr* c) noexcept { return *static_cast<cntr*>(c); }
  static cntr& of(fid_t f) noexcept { return of(reinterpret_cast<fid_cntr*>(f)); }

  [[nodiscard]] domain& parent() const noexcept { return parent_; }
  /// What it is bound to: each holds a children::ref, and the counter stays open for them.
  child_count& bound() noexcept { return bound_; }
  base::counter& counter() noexcept GAUDI_REQUIRES(parent().lock()) { return counter_; }

  std::uint64_t read(bool errors);
  /// fi_cntr_wait: 0, -FI_EAVAIL when an operation failed meanwhile, -FI_ETIMEDOUT.
  int wait(std::uint64_t threshold, int timeout);
  int control(int command, void* arg);
  [[nodiscard]] bool waitable() const noexcept { return object_ != nullptr; }

 private:
  domain& parent_;
  child_count::ref hold_;
  child_count bound_;
  const fi_wait_obj kind_;
  const std::unique_ptr<wait_object> object_;
  base::counter counter_;
};

/// The cntr_open op of fid_domain. -FI_ENOSYS: wait objects other than NONE, UNSPEC, FD and YIELD,
/// or events other than completions.
int cntr_open(fid_domain* d, fi_cntr_attr* attr, fid_cntr** out, void* context) noexcept;

}  // namespace gaudi::fi
