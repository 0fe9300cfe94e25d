// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>

#include "core/fid.hpp"

namespace gaudi::fi {

/// A passive endpoint as those see it who only know that a fid is one.
class passive_base : public fid_pep {
 public:
  static passive_base& of(fid_pep* p) noexcept { return *static_cast<passive_base*>(p); }
  static passive_base& of(fid_t f) noexcept { return of(reinterpret_cast<fid_pep*>(f)); }

  /// The core's.
  [[nodiscard]] virtual fid_pep* core() const noexcept = 0;
  /// Makes the info of a connection request ours. Throws std::bad_alloc.
  virtual void present(fi_info& request) const = 0;
  /// Answers a connection request of the core's that the application will not see.
  virtual void refuse(core::unique_info request) const noexcept = 0;

 protected:
  explicit passive_base(const fid_pep& own) noexcept : fid_pep(own) {}
  ~passive_base() = default;
};

}  // namespace gaudi::fi
