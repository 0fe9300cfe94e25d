// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <forward_list>

#include "base/object_pool.hpp"
#include "fi/common/child_count.hpp"
#include "fi/common/mr_base.hpp"

namespace gaudi::fi {

class domain;

/// fid_mr of a domain of FI_EP_RDM (fi/rdm/mr.hpp), which is open for as long as its pool has one.
struct memory_region final : mr_base<domain> {
  memory_region(domain& d, void* user_context) noexcept;

  std::forward_list<child_count::ref> counter_holds;
};

/// Under the domain lock.
using memory_region_pool = base::object_pool<memory_region>;

}  // namespace gaudi::fi
