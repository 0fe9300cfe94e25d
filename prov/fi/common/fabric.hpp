// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fabric.h>

#include <string>

#include "base/mutex.hpp"
#include "base/result.hpp"
#include "core/fid.hpp"
#include "fi/common/child_count.hpp"
#include "fi/common/provider_context.hpp"

namespace gaudi::fi {

/// fid_fabric of the provider. Created by open_fabric.hpp, destroyed by fi_close, which is
/// -FI_EBUSY while domains or event queues are open. Any thread.
class fabric final : public fid_fabric {
 public:
  /// `own` has its tables.
  fabric(const fid_fabric& own, const provider_context& context) noexcept;

  static fabric& of(fid_fabric* f) noexcept { return *static_cast<fabric*>(f); }

  /// For what is opened in it, which a child of fork may do in a fabric of its parent's.
  [[nodiscard]] provider_context context() const { return context_.in_this_process(); }

  /// Open domains and event queues: each holds a children::ref.
  child_count& open_children() noexcept { return children_; }

  /// The core's fabric for connected endpoints, opened at first need and kept until this one
  /// closes.
  base::result<fid_fabric*> core_fabric(fi_fabric_attr& attr);
  /// fi_trywait for an object of that. -FI_ENOSYS: there is none.
  int try_wait_at_core(fid_t* one) noexcept;

 private:
  const provider_context context_;
  child_count children_;
  base::mutex core_mutex_;
  core::unique_fid<fid_fabric> core_ GAUDI_GUARDED_BY(core_mutex_);
  std::string core_name_ GAUDI_GUARDED_BY(core_mutex_);
};

}  // namespace gaudi::fi
