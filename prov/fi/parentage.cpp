// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/parentage.hpp"

#include <atomic>

#include "base/log.hpp"

namespace gaudi::fi {

void parentage::warn() noexcept {
  static std::atomic_flag warned;
  if (warned.test_and_set()) return;
  GAUDI_WARN(DOMAIN,
             "a domain or what is in it was used in a process that came by fork from the one that "
             "opened it: it is the parent's alone; open another one in the child\n");
}

}  // namespace gaudi::fi
