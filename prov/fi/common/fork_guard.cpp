// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/common/fork_guard.hpp"

#include <atomic>

#include "base/log.hpp"

namespace gaudi::fi {

void fork_guard::warn() noexcept {
  static std::atomic_flag warned;
  if (warned.test_and_set()) return;
  GAUDI_WARN(DOMAIN,
             "a domain or an object of it was used after fork() in the child: it is the parent's "
             "alone; open another domain in the child\n");
}

}  // namespace gaudi::fi
