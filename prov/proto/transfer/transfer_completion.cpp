// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/transfer/transfer_completion.hpp"

#include <utility>
#include <vector>

#include "base/probes.hpp"
#include "proto/transfer/cts.hpp"

namespace gaudi::proto {
namespace {

// Writes of the source's can be on their way into slots of a transfer that failed here.
bool may_be_written_to(const transfer& t) noexcept {
  return t.outcome.status != 0 && t.slots.granted.held() != 0 && !t.ending.peer_ended &&
         t.connection && t.connection->goes_on();
}

// Until the source answers that it is done, or goes, nobody else is given the slots.
void keep_for_peer(transfer& t) {
  t.ending.slots_on_loan = true;
  t.memory = {};
  t.reach.implicit.clear();
}

// Its connection goes, and the transfer stays.
void leave_connection(transfer& t) noexcept {
  t.connection->transfers.erase(t.connection->transfers.iterator_to(t));
  t.connection = nullptr;
}

}  // namespace

void transfer_completion::free(transfer& t) {
  if (t.pull.cooperative) t.end_cooperative_copy();
  slots_.take_back(t);
  table_.destroy(t);
}

void transfer_completion::complete(transfer& t, int status) {
  if (t.outcome.status == 0) t.outcome.status = status;
  t.ending.begun = true;
  try_retire(t);
}

inline void transfer_completion::tell_peer(const transfer& t) {
  if (t.rma.event_data && t.outcome.status == 0)
    channel_.send_event(*t.connection, *t.rma.event_data, t.length, t.remote.front().address);
  const bool failed_source =
      t.outcome.status != 0 && t.role == transfer_role::source && t.peer_operation != 0;
  if (!t.ending.tell_peer && !failed_source) return;
  // What the core has given back can still be on its way to the peer.
  channel_.send_fin(*t.connection, t.peer_operation, t.outcome.status,
                    failed_source ? behind_data(t) : 0);
}

void transfer_completion::try_retire(transfer& t) {
  if (!t.ending.begun || t.moved.in_flight != 0) return;
  // Of one that failed, too: nothing of it comes once the peer has heard of that.
  if (fences_.begin(t)) return;
  if (t.pull.cooperative && !t.helper_is_through()) return table_.stall(t);
  if (t.ending.slots_on_loan) return free(t);
  if (t.outcome.status == 0) t.outcome.status = t.memory.loss();
  // Before the application is told, of a failure, too: what the NIC has written by then must not
  // come when the memory is the application's again.
  if (t.flush.nic_wrote && flush_.flush_by_fin(t)) return;
  const int flushed = t.flush.nic_wrote ? flush_.flush_local(t) : 0;
  if (t.outcome.status == 0) t.outcome.status = flushed;
  if (t.connection && t.connection->goes_on()) tell_peer(t);
  cq_entry entry = t.outcome.entry;
  if (t.outcome.status != 0) entry.error = t.outcome.status;
  base::probes::transfer_complete(t.id, t.length, t.outcome.status);
  const completion_spec completion = std::exchange(t.outcome.completion, {});
  if (may_be_written_to(t)) {
    keep_for_peer(t);
  } else {
    free(t);
  }
  completion.end(entry);
}

void transfer_completion::fin_left(std::uint32_t operation, int error) {
  transfer* const t = table_.find(operation);
  if (!t || !t->flush.under_way) return;
  flush_.fin_left(*t, error);
  try_retire(*t);
}

void transfer_completion::connection_down(connection& c, int error) {
  while (!c.transfers.empty()) {
    transfer& t = c.transfers.front();
    t.moved.in_flight = 0;
    if (t.pull.cooperative && !t.helper_is_through()) leave_connection(t);
    // One that only waits for its `fin` to leave has all that it was for.
    t.flush.under_way ? try_retire(t) : complete(t, error);
  }
}

void transfer_completion::end_lost() {
  flush_.forget_lost();
  // By name: the end of one can be that of its connection, and so of others.
  std::vector<transfer_table::id> ended;
  table_.for_each([&](transfer& t) {
    if (!t.ending.begun && t.outcome.status == 0 && t.memory.loss() != 0) ended.push_back(t.id);
  });
  for (const auto id : ended) {
    if (transfer* t = table_.find(id)) end_by_loss(*t);
  }
}

// The application hears of it now, unless the core still has some host memory of its own. The
// transfer stays for what the core, or the peer, will say.
void transfer_completion::end_by_loss(transfer& t) {
  const bool peer_has_a_say =
      t.role == transfer_role::reader || (t.role == transfer_role::source && t.peer_operation == 0);
  t.outcome.status = t.memory.loss();
  if (peer_has_a_say || t.memory.only_on_device()) {
    cq_entry entry = t.outcome.entry;
    entry.error = t.outcome.status;
    std::exchange(t.outcome.completion, {}).end(entry);
  }
  if (!peer_has_a_say) complete(t, t.outcome.status);
}

}  // namespace gaudi::proto
