// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What is checked when all is over: that no message and no receive has overtaken another one that
// it must not (fi_endpoint(3), FI_ORDER_SAS and the rules of matching).
#include "sim/ledger.hpp"

namespace gaudi::sim {
namespace {

/// Both are messages between the same two endpoints.
bool same_way(const record& a, const record& b) noexcept {
  return a.node == b.node && a.life == b.life && a.asked.peer == b.asked.peer &&
         a.peer_life == b.peer_life;
}

}  // namespace

// For each message that a receive has got.
void ledger::check_order() {
  for (const record& m : all_) {
    if (m.asked.what != action::kind::send || !m.match || !m.match->is_receive()) continue;
    const record& r = *m.match;
    for (const record& other : all_) {
      // An earlier message of the same sender that the receive would have taken.
      if (other.asked.what == action::kind::send && same_way(other, m) && other.posted != 0 &&
          other.posted < m.posted && wants(r, other) && !other.is_taken) {
        const record* got = other.match;
        if (got && got->is_receive() && got->posted > r.posted)
          return fail(name(r) + " has got " + name(m) + " before " + name(other));
        if (got == &r && r.asked.what == action::kind::receive_many && other.place > m.place)
          return fail(name(other) + " came behind " + name(m) + " in " + name(r));
        if (!got && !net_.was_disturbed(m.node, m.asked.peer) && other.error == 0 &&
            !lost_devices_[m.asked.peer] && !may_be_anything(other))
          return fail(name(r) + " has got " + name(m) + " instead of " + name(other));
      }
      // An earlier receive that would have taken the message.
      if (other.asked.what == action::kind::receive && other.node == r.node &&
          other.life == r.life && other.posted != 0 && other.posted < r.posted && wants(other, m)) {
        if (!other.match && other.is_cancelled && other.ended > r.ended)
          return fail(name(m) + " went to " + name(r) + " and not to " + name(other));
        if (other.match && same_way(*other.match, m) && other.match->posted > m.posted)
          return fail(name(m) + " went to " + name(r) + " and a later one to " + name(other));
      }
    }
  }
}

}  // namespace gaudi::sim
