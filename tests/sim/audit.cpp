// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "sim/audit.hpp"

#include <algorithm>
#include <array>

namespace gaudi::proto {
namespace {

struct count {
  const char* what;
  std::size_t number;
};

template <std::size_t N>
std::string first_of(const std::array<count, N>& counts) {
  for (const count& c : counts)
    if (c.number != 0) return std::to_string(c.number) + " " + c.what;
  return {};
}

std::string windows(const char* what, const credit_window& ours, const credit_window& theirs) {
  return std::string(what) + ": may send " + std::to_string(ours.available()) + ", peer granted " +
         std::to_string(theirs.granted()) + ", holds " + std::to_string(theirs.held()) +
         " and owes " + std::to_string(theirs.returnable());
}

bool adds_up(const credit_window& ours, const credit_window& theirs) noexcept {
  return ours.available() + theirs.held() + theirs.returnable() == theirs.granted();
}

}  // namespace

std::string endpoint_audit::leftover(endpoint& e) {
  std::size_t queued = 0;
  std::size_t posted = 0;
  std::size_t receives = e.receive_buffers_.posted_;
  e.connections_->for_each([&](connection& c) {
    queued += c.outbox.ordered.size() + c.outbox.control.size() + c.outbox.control_buffers.size();
    receives += c.receives.posted;
    posted += static_cast<std::size_t>(
        std::count_if(c.at_core.posted.begin(), c.at_core.posted.end(),
                      [](const posted_op& w) { return w.what != posted_op::kind::probe; }));
    if (!c.at_core.rails) return;
    for (const rail& r : c.at_core.rails->rails) posted += r.posted.size() + r.undone.size();
  });
  return first_of(std::array<count, 14>{{
      {"transfers", e.transfers_.table.size()},
      {"objects of transfers", e.transfers_.table.pool_.live()},
      {"operations on ranges", e.one_sided_.ranges.pool_.live()},
      {"pieces of RMA", e.transfers_.table.pieces_.live()},
      {"direct RMA", e.transfers_.direct.count()},
      {"operations of the core", posted},
      {"queued messages", queued},
      {"message buffers", e.transport_.messages().in_use()},
      {"chunks", e.transfers_.mover.chunks_.in_use()},
      {"staging slots", e.transfers_.slots.slots_.in_use()},
      {"held receive buffers", e.delivery_.held_buffers_},
      {"bytes of unexpected messages", e.delivery_.unexpected_.kept()},
      {"receive buffers", e.receive_buffers_.pool_.in_use() - receives},
      {"stalled transfers", e.transfers_.table.stalled().size() +
                                e.transfers_.mover.write_backlog_.size() +
                                e.transfers_.slots.grant_queue_.size()},
  }});
}

std::size_t endpoint_audit::of_no_rail(endpoint& e) {
  std::size_t found = 0;
  e.connections_->for_each([&](connection& c) {
    const std::size_t rails = c.at_core.rails ? c.at_core.rails->rails.size() : 0;
    found += static_cast<std::size_t>(std::count_if(
        c.at_core.posted.begin(), c.at_core.posted.end(),
        [&](const posted_op& w) { return w.rail > rails && w.what != posted_op::kind::probe; }));
  });
  return found;
}

std::string endpoint_audit::breach(endpoint& e) {
  if (e.receive_buffers_.posted_ > e.receive_buffers_.out_) return "receive buffers posted twice";
  if (e.transport_.messages().total() > 4096) return "message buffers";
  if (of_no_rail(e) != 0) return "operations of no rail";
  if (!e.transport_.core().over_rdma()) return {};
  std::size_t promised = 0;
  e.connections_->for_each(
      [&](connection& c) { promised += c.data.granted() + wire::control_window; });
  // Posted as soon as the core takes them; what is kept is not promised.
  if (promised > e.receive_buffers_.wanted_)
    return std::to_string(promised) + " credits promised for " +
           std::to_string(e.receive_buffers_.wanted_) + " receive buffers";
  return {};
}

std::string endpoint_audit::lost_credits(endpoint& a, endpoint& b) {
  std::string found;
  a.connections_->for_each([&](connection& x) {
    b.connections_->for_each([&](connection& y) {
      if (x.terms.connection_id != y.id || y.terms.connection_id != x.id || !x.usable() ||
          !y.usable() || &x == &y)
        return;
      if (x.remote->name != b.name() || y.remote->name != a.name()) return;
      if (!adds_up(x.data, y.data)) found = windows("credits of messages", x.data, y.data);
      if (!adds_up(x.control, y.control))
        found = windows("credits of control messages", x.control, y.control);
    });
  });
  return found;
}

}  // namespace gaudi::proto
