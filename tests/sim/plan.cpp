// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "sim/plan.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <numeric>

#include "sim/rng.hpp"

namespace gaudi::sim {
namespace {

/// Each schedule has some of all that can happen: what always happens together hides what happens
/// alone.
struct choices {
  explicit choices(rng& r)
      : wildcards(r.chance(500)),
        many(r.chance(250)),
        peeks(r.chance(300)),
        rma(r.chance(500)),
        atomics(r.chance(300)),
        cancels(r.chance(300)),
        injects(r.chance(400)),
        promises(r.chance(400)),
        itself(r.chance(150)),
        long_ones(r.chance(600)) {}
  bool wildcards, many, peeks, rma, atomics, cancels, injects, promises, itself, long_ones;
};

delay some_delay(rng& r) {
  const nanoseconds least = r.between(0, 5'000);
  // Most of them short, now and then one that everything else overtakes.
  const nanoseconds most = r.chance(250) ? r.between(20'000, 400'000) : r.between(1'000, 20'000);
  return {least, least + most};
}

conditions some_conditions(rng& r) {
  conditions c;
  c.rdma = r.chance(500);
  c.by_progress = !c.rdma && r.chance(500);
  c.inject_size = std::size_t{32} << r.below(3);
  c.completions = r.chance(200) ? r.between(8, 24) : 1024;
  c.refused_posts = r.chance(500) ? static_cast<unsigned>(r.between(1, 400)) : 0;
  c.max_look = r.chance(300) ? r.between(0, 20'000) : 500;
  c.departure = some_delay(r);
  c.flight = some_delay(r);
  c.acknowledged = some_delay(r);
  c.connecting = some_delay(r);
  c.notice = some_delay(r);
  return c;
}

std::size_t some_length(rng& r, const choices& has, std::size_t eager_size) {
  switch (r.below(has.long_ones ? 6 : 4)) {
    case 0:
      return 0;
    case 1:
      return r.between(1, 16);
    case 2:
      return r.between(17, 256);
    case 3:  // around the border between the protocols
      return r.between(eager_size - 64, eager_size + 64);
    case 4:
      return r.between(eager_size, 4096);
    default:
      return r.between(4096, max_message);
  }
}

unsigned some_peer(rng& r, const plan& p, const choices& has, unsigned self) {
  if (p.nodes == 1 || (has.itself && r.chance(200))) return self;
  const auto other = static_cast<unsigned>(r.below(p.nodes - 1));
  return other < self ? other : other + 1;
}

void insert_anywhere(rng& r, std::vector<action>& script, const action& a) {
  script.insert(script.begin() + static_cast<std::ptrdiff_t>(r.below(script.size() + 1)), a);
}

/// A receive that would take the message; it may get another one.
action receive_for(rng& r, const choices& has, const action& sent, unsigned sender) {
  action a;
  a.what = action::kind::receive;
  a.peer = sender;
  a.tagged = sent.tagged;
  a.tag = sent.tag;
  a.any_peer = has.wildcards && r.chance(400);
  if (has.wildcards && r.chance(400)) a.ignore = r.chance(500) ? 3 : ~std::uint64_t{0};
  a.length = r.chance(150) ? r.between(8, 64) : std::max<std::size_t>(sent.length, 8);
  if (r.chance(100)) a.length = max_message;
  return a;
}

action some_send(rng& r, const plan& p, const choices& has, unsigned self) {
  action a;
  a.what = action::kind::send;
  a.peer = some_peer(r, p, has, self);
  a.tagged = r.chance(700);
  a.tag = a.tagged ? r.below(6) : 0;
  a.length = some_length(r, has, p.eager_size);
  // What cannot hold its number in its bytes brings it as data.
  a.has_data = a.length < 8 || has.peeks || has.many || r.chance(300);
  a.inject = has.injects && a.length <= 256 && r.chance(500);
  a.delivery = has.promises && !a.inject && r.chance(300);
  a.transmit = has.promises && !a.inject && !a.delivery && r.chance(300);
  return a;
}

void add_messages(rng& r, plan& p, const choices& has, unsigned self) {
  for (std::uint64_t n = r.between(2, 14); n > 0; --n) {
    const action a = some_send(r, p, has, self);
    p.scripts[self].push_back(a);
    if (r.chance(700)) insert_anywhere(r, p.scripts[a.peer], receive_for(r, has, a, self));
  }
}

void add_rma(rng& r, plan& p, const choices& has, unsigned self, std::vector<std::size_t>& room) {
  for (std::uint64_t n = r.between(1, 4); n > 0; --n) {
    action a;
    a.what = r.chance(600) ? action::kind::write : action::kind::read;
    a.peer = some_peer(r, p, has, self);
    a.length = std::min<std::size_t>(some_length(r, has, p.eager_size), 8192);
    if (a.what == action::kind::write) {
      if (room[a.peer] + a.length > written_bytes) continue;
      a.offset = cell_bytes + room[a.peer];
      room[a.peer] += a.length;
      a.has_data = r.chance(400);
      a.inject = has.injects && a.length <= 256 && r.chance(400);
      a.delivery = has.promises && !a.inject && r.chance(300);
    } else {
      a.offset = cell_bytes + written_bytes + r.below(read_bytes - a.length);
    }
    insert_anywhere(r, p.scripts[self], a);
  }
}

void add_atomics(rng& r, plan& p, const choices& has, unsigned self, std::vector<unsigned>& bits) {
  for (std::uint64_t n = r.between(1, 3); n > 0; --n) {
    action a;
    a.what = action::kind::atomic;
    a.peer = some_peer(r, p, has, self);
    a.bit = bits[a.peer]++;
    a.fetch = r.chance(500);
    insert_anywhere(r, p.scripts[self], a);
  }
}

void add_receives(rng& r, plan& p, const choices& has, unsigned self) {
  auto& script = p.scripts[self];
  if (has.many) {
    action a;
    a.what = action::kind::receive_many;
    a.tagged = false;
    a.any_peer = r.chance(700);
    a.peer = some_peer(r, p, has, self);
    a.length = r.between(2 * p.eager_size, max_message);
    insert_anywhere(r, script, a);
  }
  for (std::uint64_t n = has.peeks ? r.between(1, 3) : 0; n > 0; --n) {
    action a;
    a.what = action::kind::peek;
    a.tagged = r.chance(700);
    a.tag = a.tagged ? r.below(6) : 0;
    a.any_peer = r.chance(700);
    a.peer = some_peer(r, p, has, self);
    a.claim = r.chance(500);
    a.discard = r.chance(300);
    a.length = r.between(8, max_message);
    insert_anywhere(r, script, a);
  }
  for (std::uint64_t n = has.cancels ? r.between(1, 3) : 0; n > 0; --n) {
    action a;
    a.what = action::kind::cancel;
    insert_anywhere(r, script, a);
  }
}

std::size_t actions_of(const plan& p) {
  std::size_t count = 0;
  for (const auto& s : p.scripts) count += s.size();
  return count;
}

void in_order_of_steps(std::vector<fault>& faults) {
  std::stable_sort(faults.begin(), faults.end(),
                   [](const fault& a, const fault& b) { return a.step < b.step; });
}

// At any step, also a few behind the last action.
fault somewhere(rng& r, const plan& p, fault::kind what) {
  fault f;
  f.what = what;
  f.step = r.below(actions_of(p) * 5 + 20);
  f.node = static_cast<unsigned>(r.below(p.nodes));
  f.peer = static_cast<unsigned>(r.below(p.nodes));
  return f;
}

void add_faults(rng& r, plan& p) {
  if (r.chance(350)) return;
  for (std::uint64_t n = r.between(1, 3); n > 0; --n) {
    const auto kind = r.below(10);
    fault f = somewhere(r, p,
                        kind < 4   ? fault::kind::cut
                        : kind < 7 ? fault::kind::kill
                                   : fault::kind::close);
    f.away = r.below(60);
    f.choice = r.next();
    p.faults.push_back(f);
  }
  in_order_of_steps(p.faults);
}

// Often for a moment, so that what is sent next meets the ends of a connection while they agree to
// close it.
void add_forgets(rng& r, plan& p) {
  if (p.nodes == 1 || r.chance(600)) return;
  for (std::uint64_t n = r.between(1, 6); n > 0; --n) {
    fault f = somewhere(r, p, fault::kind::forget);
    f.away = r.chance(500) ? r.below(10) : r.below(200);
    p.faults.push_back(f);
  }
  in_order_of_steps(p.faults);
}

void add_cuts(rng& r, plan& p, std::uint64_t count) {
  for (; count > 0; --count) {
    fault f = somewhere(r, p, fault::kind::cut);
    // A stream tells of it late, and then as of any loss.
    if (p.net.rdma && r.chance(300)) f.what = fault::kind::silence;
    f.choice = r.next();
    p.faults.push_back(f);
  }
  in_order_of_steps(p.faults);
}

// Where a loss is survived it may come often, also while the last one is being repaired.
void add_losses(rng& r, plan& p) {
  p.net.sessions = r.chance(600);
  if (p.net.sessions && !r.chance(300)) add_cuts(r, p, r.between(1, 8));
}

void add_rails(rng& r, plan& p) {
  p.rails = r.between(2, 3);
  p.rail_chunk = std::size_t{128} << r.below(5);
  if (p.net.sessions) add_cuts(r, p, r.below(12));
}

// As much of what is written as can be, and rails that are lost meanwhile.
void write_by_other_nics(rng& r, plan& p) {
  p.rendezvous = base::rendezvous_choice::write;
  p.rail_chunk = 128;
  if (p.net.sessions && r.chance(600))
    p.net.lost_writers = static_cast<unsigned>(r.between(20, 500));
}

// One has a single NIC, and makes no rails with the others: the one that is not honest rather.
void leave_without_rails(rng& r, plan& p) {
  p.railless = p.forger && r.chance(500) ? *p.forger : static_cast<unsigned>(r.below(p.nodes));
}

// Links that are pulled out, for a moment or for long: sessions go on over the others.
void unplug_links(rng& r, plan& p) {
  for (std::uint64_t n = r.below(12); n > 0; --n) {
    fault f = somewhere(r, p, fault::kind::unplug);
    f.away = r.chance(500) ? r.below(60) : r.below(3'000);
    f.choice = r.below(p.other_nics + p.other_interfaces + 1);
    p.faults.push_back(f);
  }
  in_order_of_steps(p.faults);
}

void add_interfaces(rng& r, plan& p) {
  p.other_interfaces = r.between(1, 2);
  if (p.net.sessions) unplug_links(r, p);
}

bool may_be_on_device(const action& a) noexcept {
  using kind = action::kind;
  return a.what == kind::send || a.what == kind::receive || a.what == kind::write ||
         a.what == kind::read;
}

// Nodes with a device, some of whose memory is there.
void add_devices(rng& r, plan& p) {
  p.copies = some_delay(r);
  for (unsigned n = 0; n < p.nodes; ++n) {
    p.devices.push_back(r.chance(800));
    p.device_regions.push_back(p.devices[n] && r.chance(400));
    for (action& a : p.scripts[n])
      a.on_device = p.devices[n] && may_be_on_device(a) && r.chance(700);
  }
  if (r.chance(600)) return;
  for (std::uint64_t n = r.between(1, 2); n > 0; --n) {
    fault f = somewhere(r, p, fault::kind::reset);
    f.choice = r.next();
    p.faults.push_back(f);
  }
  in_order_of_steps(p.faults);
}

// Nodes on one machine or two, whose kernels now and then refuse what sharing memory needs.
void add_machines(rng& r, plan& p) {
  const std::uint64_t count = r.chance(700) ? 1 : 2;
  for (unsigned n = 0; n < p.nodes; ++n)
    p.machines.push_back(static_cast<unsigned>(r.below(count)));
  if (r.chance(300)) p.net.refused_sharing = static_cast<unsigned>(r.between(1, 300));
  if (r.chance(400)) p.net.denied_memory = static_cast<unsigned>(r.between(1, 300));
}

// Half of the devices are not reached by their own NICs, but may be by others on their machine.
void pass_dmabufs(rng& r, plan& p) {
  p.passes_dmabufs = true;
  if (p.machines.empty()) add_machines(r, p);
  if (r.chance(500)) p.rendezvous = base::rendezvous_choice::automatic;
}

// It may share memory with others, or not.
void add_forger(rng& r, plan& p) {
  p.forger = static_cast<unsigned>(r.below(p.nodes));
  p.net.forged = static_cast<unsigned>(r.chance(700) ? r.between(10, 100) : r.between(100, 600));
  if (r.chance(400)) {
    p.net.composed = static_cast<unsigned>(r.between(20, 400));
    p.net.favourite = r.next();
    p.net.forged = static_cast<unsigned>(r.below(20));
  }
  if (p.machines.empty()) {
    if (r.chance(300)) add_machines(r, p);
  } else if (r.chance(500)) {
    p.machines[*p.forger] = p.nodes;
  }
  // So that what comes of it has its name.
  std::erase_if(p.faults, [&](const fault& f) {
    return f.what == fault::kind::forget && f.peer == *p.forger;
  });
}

}  // namespace

std::size_t plan::size() const noexcept {
  return std::accumulate(scripts.begin(), scripts.end(), faults.size(),
                         [](std::size_t sum, const auto& s) { return sum + s.size(); });
}

bool plan::forgets(unsigned node, unsigned peer) const noexcept {
  return std::any_of(faults.begin(), faults.end(), [&](const fault& f) {
    return f.what == fault::kind::forget && f.node == node && f.peer == peer;
  });
}

plan make_plan(std::uint64_t seed, bool forged) {
  rng r(seed);
  plan p;
  p.seed = seed;
  p.nodes = static_cast<unsigned>(r.chance(600) ? 2 : r.between(1, 4));
  const choices has(r);
  p.net = some_conditions(r);
  p.rx_buffers = r.chance(300) ? 8 : 64;
  p.refusals = r.chance(500) ? 0 : 3;
  p.unexpected_limit = r.chance(300) ? 2048 : 64 * 1024;
  p.core_keys = r.chance(600);
  constexpr base::rendezvous_choice ways[] = {
      base::rendezvous_choice::automatic, base::rendezvous_choice::read,
      base::rendezvous_choice::write, base::rendezvous_choice::staged};
  p.rendezvous = ways[r.below(4)];
  p.max_step = r.between(200, 8'000);
  p.calls = static_cast<unsigned>(r.between(100, 900));
  p.scripts.resize(p.nodes);
  std::vector<std::size_t> room(p.nodes);
  std::vector<unsigned> bits(p.nodes);
  for (unsigned n = 0; n < p.nodes; ++n) p.pace.push_back(r.chance(200) ? 60 : 1000);
  for (unsigned n = 0; n < p.nodes; ++n) {
    add_messages(r, p, has, n);
    if (has.rma) add_rma(r, p, has, n, room);
    if (has.atomics) add_atomics(r, p, has, n, bits);
    add_receives(r, p, has, n);
  }
  add_faults(r, p);
  p.numbers = r.next();
  add_forgets(r, p);
  add_losses(r, p);
  p.net.reads_badly = !p.net.rdma && r.chance(500);
  p.net.late_data = r.chance(500);
  if (r.chance(400)) add_rails(r, p);
  if (r.chance(300)) p.connections = r.between(1, 2);
  constexpr int errors[] = {FI_ECONNRESET, FI_EINPROGRESS, FI_ENOENT};
  p.net.lost_request = errors[r.below(3)];
  if (p.rails > 1 && r.chance(600)) p.other_nics = r.between(1, 2);
  if (p.other_nics != 0 && p.net.rdma && r.chance(700)) write_by_other_nics(r, p);
  if (p.rails > 1 && r.chance(600)) add_interfaces(r, p);
  if (r.chance(250)) add_devices(r, p);
  if (r.chance(300)) add_machines(r, p);
  p.nic_reaches_devices = !p.devices.empty() && p.net.rdma && r.chance(600);
  if (r.chance(200))
    for (unsigned n = 0; n < p.nodes; ++n) p.sleepers.push_back(r.chance(700));
  if ((r.chance(100) || forged) && p.nodes > 1) add_forger(r, p);
  if (p.nic_reaches_devices && !p.forger && r.chance(500)) pass_dmabufs(r, p);
  if (p.other_nics != 0 && p.net.sessions && r.chance(700)) unplug_links(r, p);
  p.registers = r.chance(500);
  p.comes_home = r.chance(500);
  if (p.rails > 1 && r.chance(300)) leave_without_rails(r, p);
  return p;
}

}  // namespace gaudi::sim
