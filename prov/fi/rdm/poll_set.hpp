// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_eq.h>

#include <cstdint>
#include <vector>

#include "fi/common/child_count.hpp"
#include "fi/rdm/domain.hpp"

namespace gaudi::fi {

/// fid_poll of the provider, see fi_poll(3): which of its completion queues and counters have
/// something to read. Polling progresses the whole domain. Members stay open while they are in it.
class poll_set final : public fid_poll {
 public:
  explicit poll_set(domain& parent);

  static poll_set& of(fid_poll* p) noexcept { return *static_cast<poll_set*>(p); }
  static poll_set& of(fid_t f) noexcept { return of(reinterpret_cast<fid_poll*>(f)); }

  [[nodiscard]] domain& parent() const noexcept { return parent_; }

  /// Writes up to `count` contexts of members: queues that are not empty, and counters that have
  /// changed since they were added or last told here. Returns how many.
  int poll(void** contexts, int count);
  /// -FI_EINVAL: not a queue or counter of this domain, or a member already.
  int add(struct fid& object);
  /// -FI_EINVAL: not a member.
  int remove(const struct fid& object);

 private:
  struct member {
    struct fid* object;
    child_count::ref hold;
    std::uint64_t counted;  // values and errors of a counter when it was told last
  };

  bool has_news(member& m) GAUDI_REQUIRES(parent().lock());

  domain& parent_;
  child_count::ref hold_;
  std::vector<member> members_ GAUDI_GUARDED_BY(parent().lock());
};

/// The poll_open op of fid_domain. -FI_EINVAL: flags, of which there are none.
int poll_open(fid_domain* d, fi_poll_attr* attr, fid_poll** out) noexcept;

}  // namespace gaudi::fi
