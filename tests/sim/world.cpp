// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "sim/world.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "sim/audit.hpp"

namespace gaudi::sim {
namespace {

constexpr std::size_t max_steps = 6'000;
constexpr unsigned max_rounds = 6'000;
// Who looks whether a link is silent does that again and again, before it counts as down.
constexpr nanoseconds max_rest = 10'000'000;
// What a closing endpoint gives a peer that takes nothing (linger_time of node.cpp); it warns
// then that the last of what it sent may not come.
constexpr nanoseconds linger_limit = 2'000'000'000;
// At a turn of a node that sleeps: its domain has other endpoints, for which the thread is awake.
constexpr unsigned woken_for_another = 100;  // per mille

}  // namespace

world::world(const plan& p, trace* record)
    : plan_(p),
      numbers_(p.numbers),
      net_(p.net, numbers_.split(), record),
      book_(net_, p),
      places_(p.nodes) {
  if (p.forger) distrust(*p.forger);
  for (unsigned n = 0; n < p.nodes; ++n) arrive(n);
}

// Anything may come of what one has with it, but nothing of what others have with each other.
void world::distrust(unsigned n) {
  net_.distrust(n);
  for (unsigned other = 0; other < plan_.nodes; ++other) {
    net_.disturb(n, other);
    net_.lose(n, other);
    net_.lose(other, n);
  }
}

outcome world::run() {
  for (std::size_t s = 0; s < max_steps && !failed(); ++s) {
    if (all_tried() && next_fault_ == plan_.faults.size()) break;
    step(s);
  }
  if (!failed()) settle();
  if (!failed()) finish_receives();
  if (!failed()) check_regions();
  if (!failed()) book_.check_order();
  if (!failed()) audit();
  for (const place& p : places_) {
    if (!p.here) continue;
    result_.moved += p.here->sessions_moved();
    result_.passed += p.here->dmabufs_read();
  }
  close_all();
  if (!failed()) book_.check_memory();
  result_.failure = book_.failure().empty() ? net_.complaint() : book_.failure();
  result_.steps = steps_;
  result_.operations = book_.all().size();
  result_.digest = net_.now() * 31 + net_.next_number();
  return result_;
}

bool world::failed() {
  return !book_.failure().empty() || !net_.complaint().empty();
}

void world::fail(const std::string& what) {
  book_.fail(what);
}

unsigned world::pick() {
  const auto all = std::accumulate(plan_.pace.begin(), plan_.pace.end(), std::uint64_t{0});
  std::uint64_t at = numbers_.below(all);
  for (unsigned n = 0; n < plan_.nodes; ++n) {
    if (at < plan_.pace[n]) return n;
    at -= plan_.pace[n];
  }
  return 0;
}

bool world::all_tried() const {
  for (unsigned n = 0; n < plan_.nodes; ++n) {
    if (places_[n].next_action < plan_.scripts[n].size()) return false;
  }
  return true;
}

void world::step(std::size_t now) {
  plug_in(false);
  for (; next_fault_ < plan_.faults.size() && plan_.faults[next_fault_].step <= now; ++next_fault_)
    apply(plan_.faults[next_fault_]);
  for (unsigned n = 0; n < plan_.nodes; ++n) {
    if (!places_[n].here && places_[n].back <= steps_ && net_.has_delivered(*places_[n].before))
      arrive(n);
  }
  const unsigned n = pick();
  turn(n, numbers_.chance(plan_.calls));
  net_.advance(numbers_.below(plan_.max_step) + 1);
  ++steps_;
}

void world::turn(unsigned n, bool calls) {
  if (!places_[n].here) return;
  if (calls) {
    try_action(n);
  } else if (!places_[n].here->is_asleep()) {
    places_[n].here->progress();
    places_[n].here->collect();
    places_[n].here->try_to_sleep();
  } else if (numbers_.chance(woken_for_another)) {
    places_[n].here->try_to_sleep();
  }
  if (places_[n].here) {
    places_[n].here->collect();
    places_[n].here->forge();
  }
  watch();
}

// At every step.
void world::watch() {
  for (const place& p : places_) {
    if (!p.here) continue;
    const std::string more = proto::endpoint_audit::breach(p.here->endpoint());
    if (!more.empty()) fail("must not be: " + more);
  }
}

void world::try_action(unsigned n) {
  place& p = places_[n];
  know_again(n, false);
  if (p.next_action >= plan_.scripts[n].size() || !knows(n, plan_.scripts[n][p.next_action]))
    return p.here->is_asleep() ? void() : p.here->progress();
  if (!p.current) {
    p.current = &book_.add(plan_.scripts[n][p.next_action], n, p.here->life());
    net_.note(n, n, [&] {
      return "#" + std::to_string(p.current->number) + " " + to_string(p.current->asked);
    });
  }
  if (p.here->start(*p.current, at(p.current->asked.peer)) == -FI_EAGAIN) return;
  p.current = nullptr;
  ++p.next_action;
}

void world::apply(const fault& f) {
  if (f.what == fault::kind::cut) {
    net_.cut_connection(f.node, f.peer, f.choice);
  } else if (f.what == fault::kind::silence) {
    net_.silence_connection(f.node, f.peer, f.choice);
  } else if (f.what == fault::kind::unplug) {
    const auto interface = static_cast<unsigned>(f.choice);
    net_.unplug(f.node, interface);
    unplugged_.push_back({f.node, interface, steps_ + f.away});
  } else if (f.what == fault::kind::forget) {
    forget(f.node, f.peer, f.away);
  } else if (f.what == fault::kind::reset) {
    if (places_[f.node].here) places_[f.node].here->reset(f.choice % 2 != 0);
  } else if (places_[f.node].here) {
    leave(f.node, f.what == fault::kind::close, f.away);
  }
}

void world::forget(unsigned n, unsigned peer, std::size_t for_steps) {
  place& p = places_[n];
  if (!p.here) return;
  if (p.forgotten[peer] == 0) p.here->forget(peer);
  p.forgotten[peer] = steps_ + for_steps + 1;
}

void world::plug_in(bool all) {
  std::erase_if(unplugged_, [&](const unplugged& one) {
    if (!all && steps_ < one.until) return false;
    net_.plug_in(one.node, one.interface);
    return true;
  });
}

// The lowest index goes first, so that each peer gets its own again.
void world::know_again(unsigned n, bool all) {
  place& p = places_[n];
  if (!p.here) return;
  for (unsigned peer = 0; peer < plan_.nodes; ++peer) {
    std::size_t& until = p.forgotten[peer];
    if (until == 0) continue;
    if (!all && steps_ < until) return;
    until = 0;
    p.here->know(peer);
  }
}

// What names no peer needs no address.
bool world::knows(unsigned n, const action& a) const {
  return a.what == action::kind::cancel || a.any_peer || places_[n].forgotten[a.peer] == 0;
}

void world::leave(unsigned n, bool politely, std::size_t away) {
  place& p = places_[n];
  for (unsigned other = 0; other < plan_.nodes; ++other) {
    net_.disturb(n, other);
    net_.lose(other, n);
    if (!politely) net_.lose(n, other);
  }
  const nanoseconds begun = net_.now();
  politely ? p.here->close() : p.here->kill();
  if (politely && net_.now() - begun >= linger_limit) {
    for (unsigned other = 0; other < plan_.nodes; ++other) net_.lose(n, other);
  }
  p.before = &p.here->at();
  p.here.reset();
  // What was being tried has no endpoint any more.
  if (p.current) ++p.next_action;
  p.current = p.any_tagged = p.any_untagged = nullptr;
  p.back = steps_ + away;
}

void world::arrive(unsigned n) {
  place& p = places_[n];
  net_.note(n, n, [&] { return "starts, life " + std::to_string(p.lives); });
  p.forgotten.assign(plan_.nodes, 0);
  p.here = std::make_unique<node>(net_, machines_, plan_, book_, n, p.lives++);
}

// A receive for whatever comes.
void world::post_any(unsigned n, record*& r, bool tagged) {
  if (r && r->is_open()) return;
  action a;
  a.what = action::kind::receive;
  a.any_peer = true;
  a.tagged = tagged;
  a.ignore = ~std::uint64_t{0};
  a.length = max_message;
  r = &book_.add(a, n, places_[n].here->life());
  places_[n].here->start(*r, nullptr);
}

void world::keep_any_receives(unsigned n) {
  post_any(n, places_[n].any_tagged, true);
  post_any(n, places_[n].any_untagged, false);
}

// No more faults: what was started must end, and what was sent must come.
void world::settle() {
  net_.calm();
  plug_in(true);
  // Who waits for a forger may wait for ever, until it is gone.
  if (plan_.forger && places_[*plan_.forger].here) leave(*plan_.forger, false, 0);
  for (unsigned n = 0; n < plan_.nodes; ++n) {
    for (int i = 0; i < 1000 && !places_[n].here && !net_.has_delivered(*places_[n].before); ++i)
      rest(1);
    if (!places_[n].here) arrive(n);
    know_again(n, true);
  }
  unsigned calm = 0;
  for (unsigned round = 0; round < max_rounds && !failed(); ++round) {
    calm = is_settled() ? calm + 1 : 0;
    if (calm > calm_rounds()) return;
    for (unsigned n = 0; n < plan_.nodes; ++n) {
      keep_any_receives(n);
      turn(n, true);
      turn(n, false);
    }
    rest(1);
  }
  if (failed()) return;
  for (unsigned n = 0; n < plan_.nodes; ++n) {
    if (places_[n].current) fail(ledger::name(*places_[n].current) + " is put off for ever");
    if (const record* due = book_.missing(n, places_[n].here->life()))
      fail(ledger::name(*due) + " never comes");
  }
  if (const record* due = book_.unfinished()) fail(ledger::name(*due) + " never ends");
}

// Longer than an idle endpoint takes to look at its events, which one with peers on its machine
// does seldom.
unsigned world::calm_rounds() const noexcept {
  return plan_.machines.empty() ? 20 : 150;
}

bool world::is_settled() {
  if (!all_tried() || !net_.is_quiet() || net_.holds_anything_back() || book_.unfinished())
    return false;
  for (unsigned n = 0; n < plan_.nodes; ++n) {
    if (book_.missing(n, places_[n].here->life())) return false;
  }
  return !any_interrupted();
}

bool world::any_interrupted() const {
  return std::any_of(places_.begin(), places_.end(), [](const place& p) {
    return proto::endpoint_audit::is_interrupted(p.here->endpoint());
  });
}

// Time passes: to what is due next, or until idle endpoints look again.
void world::rest(unsigned rounds) {
  for (unsigned i = 0; i < rounds && !failed(); ++i) {
    for (unsigned n = 0; n < plan_.nodes; ++n) turn(n, false);
    net_.advance(net_.is_quiet() ? 1'000'000
                                 : std::min(net_.next_due() - net_.now() + 1'000, max_rest));
  }
}

void world::finish_receives() {
  for (unsigned round = 0; round < max_rounds && !failed(); ++round) {
    const bool open = std::any_of(book_.all().begin(), book_.all().end(),
                                  [](const record& r) { return r.is_open(); });
    if (!open && net_.is_quiet() && round > calm_rounds() && !any_interrupted()) return;
    for (unsigned n = 0; n < plan_.nodes; ++n) places_[n].here->cancel_receives();
    rest(1);
  }
  for (const record& r : book_.all()) {
    if (r.is_open() && !failed()) fail(ledger::name(r) + " never ends, although it is cancelled");
  }
  if (!failed()) fail("packets go to and fro for ever");
}

// What writes and atomics have left behind.
// All of it is open to a forger.
void world::check_regions() {
  if (plan_.forger) return;
  for (unsigned n = 0; n < plan_.nodes; ++n) {
    const auto region = at(n)->region();
    std::uint64_t cell = 0;
    std::memcpy(&cell, region.data(), sizeof cell);
    std::uint64_t known = 0;
    for (const record& r : book_.all()) {
      if (r.asked.peer != n || r.peer_life != at(n)->life()) continue;
      const bool good = r.now == record::state::ended && r.error == 0;
      if (r.asked.what == action::kind::atomic) {
        const std::uint64_t bit = std::uint64_t{1} << r.asked.bit;
        known |= bit;
        if (good && !(cell & bit)) fail(ledger::name(r) + " has not been carried out");
      }
      if (r.asked.what == action::kind::write && good && !net_.was_lost(r.node, n) &&
          !book_.may_be_anything(r) &&
          !is_filled(region.subspan(r.asked.offset, r.asked.length), r.number))
        fail(ledger::name(r) + " has not brought its bytes");
      if (r.asked.what == action::kind::write && good && r.asked.has_data && !r.has_event &&
          !net_.was_lost(r.node, n))
        fail(ledger::name(r) + " was never told to its target");
    }
    if (cell & ~known) fail("an atomic operation was carried out twice");
    if (!is_filled(region.subspan(cell_bytes + written_bytes), read_pattern))
      fail("a region was written to where nobody writes");
  }
}

// What the core gives back after the end of a connection, an idle endpoint may take later.
void world::audit() {
  constexpr unsigned max_more_rounds = 150;
  for (unsigned round = 0; round < max_more_rounds && !leftover().empty() && !failed(); ++round)
    rest(1);
  if (const std::string left = leftover(); !left.empty()) fail(left);
}

std::string world::leftover() {
  for (unsigned n = 0; n < plan_.nodes; ++n) {
    const std::string left = proto::endpoint_audit::leftover(places_[n].here->endpoint());
    if (!left.empty()) return std::string(1, static_cast<char>('A' + n)) + " has still " + left;
  }
  for (unsigned a = 0; a < plan_.nodes; ++a) {
    for (unsigned b = 0; b < plan_.nodes; ++b) {
      const std::string lost = proto::endpoint_audit::lost_credits(places_[a].here->endpoint(),
                                                                   places_[b].here->endpoint());
      if (!lost.empty())
        return std::string(1, static_cast<char>('A' + a)) + " to " + static_cast<char>('A' + b) +
               " has lost " + lost;
    }
  }
  return {};
}

void world::close_all() {
  for (unsigned n = 0; n < plan_.nodes; ++n) {
    if (!places_[n].here) continue;
    for (unsigned other = 0; other < plan_.nodes; ++other) net_.disturb(n, other);
    places_[n].here->close();
    places_[n].here.reset();
  }
  for (int i = 0; i < 1000 && !net_.is_quiet(); ++i) net_.advance(1'000'000);
  const std::string open = net_.open_fids();
  if (!open.empty() && !failed()) fail(open);
}

}  // namespace gaudi::sim
