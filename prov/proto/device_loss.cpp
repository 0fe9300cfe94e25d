// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What becomes of an endpoint's operations when a device is lost.
#include <utility>

#include "proto/endpoint.hpp"

namespace gaudi::proto {

// Devices have been lost, for this endpoint or for others. What is under way on them ends here;
// what a peer does not know of yet ends there when its word comes.
void endpoint::end_lost() {
  losses_seen_ = device::device_loss_epoch::count();
  copies_.prefer_lost();
  if (config_.flush) config_.flush->forget_lost();
  receives_->fail_lost();
  // By name: the end of one can be that of its connection, and so of others.
  std::vector<base::id_table<transfer>::id> ended;
  transfers_.for_each([&](transfer& t) {
    if (!t.ending && t.status == 0 && t.memory.loss() != 0) ended.push_back(t.id);
  });
  for (const auto id : ended) {
    if (transfer* t = transfers_.find(id)) end_by_loss(*t);
  }
}

// The application hears of it now, unless the core still has some host memory of its own. The
// transfer stays for what the core, or the peer, will say.
void endpoint::end_by_loss(transfer& t) {
  const bool peer_has_a_say =
      t.role == transfer_role::reader || (t.role == transfer_role::source && t.peer_operation == 0);
  t.status = t.memory.loss();
  if (peer_has_a_say || t.memory.only_on_device()) {
    cq_entry entry = t.result;
    entry.error = t.status;
    std::exchange(t.completion, {}).end(entry);
  }
  if (!peer_has_a_say) complete(t, t.status);
}

}  // namespace gaudi::proto
