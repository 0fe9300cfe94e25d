// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/operation/transfer.hpp"

namespace gaudi::proto {

bool transfer::helper_is_through() noexcept {
  return pull.cooperative->copy.stop() || pull.shm_of_copy->peer_has_ended();
}

void transfer::end_cooperative_copy() noexcept {
  pull.shm_of_copy->cooperative_copies_to_us().end(pull.cooperative->words);
  pull.cooperative.reset();
  pull.shm_of_copy.reset();
}

}  // namespace gaudi::proto
