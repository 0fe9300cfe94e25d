// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "sim/shrink.hpp"

#include <algorithm>
#include <utility>

#include "sim/world.hpp"

namespace gaudi::sim {
namespace {

constexpr unsigned max_runs = 3'000;
constexpr std::size_t lines_shown = 80;

/// Tries smaller plans one after the other, and keeps each that fails.
class shrinker {
 public:
  explicit shrinker(const plan& whole) : least_(whole) {}

  plan run() {
    for (bool smaller = true; smaller && runs_ < max_runs;) {
      smaller = drop_faults();
      for (unsigned n = 0; n < least_.nodes; ++n) smaller = drop_actions(n) || smaller;
      smaller = simplify() || smaller;
    }
    return least_;
  }

 private:
  bool keep_if_failing(const plan& smaller) {
    if (++runs_ > max_runs || world(smaller, nullptr).run().failure.empty()) return false;
    least_ = smaller;
    return true;
  }

  bool drop_faults() {
    bool any = false;
    for (std::size_t i = 0; i < least_.faults.size();) {
      plan p = least_;
      p.faults.erase(p.faults.begin() + static_cast<std::ptrdiff_t>(i));
      keep_if_failing(p) ? any = true : static_cast<bool>(++i);
    }
    return any;
  }

  // Many at a time first.
  bool drop_actions(unsigned n) {
    bool any = false;
    for (std::size_t width = least_.scripts[n].size(); width > 0; width /= 2) {
      for (std::size_t i = 0; i < least_.scripts[n].size();) {
        plan p = least_;
        auto& script = p.scripts[n];
        const std::size_t end = std::min(i + width, script.size());
        script.erase(script.begin() + static_cast<std::ptrdiff_t>(i),
                     script.begin() + static_cast<std::ptrdiff_t>(end));
        if (keep_if_failing(p)) {
          any = true;
        } else {
          i += width;
        }
      }
    }
    return any;
  }

  template <class Change>
  bool change(Change how) {
    plan p = least_;
    return how(p) && keep_if_failing(p);
  }

  bool simplify() {
    const conditions plain;
    bool any = change([](plan& p) { return std::exchange(p.net.refused_posts, 0) != 0; });
    any |= change([&](plan& p) { return std::exchange(p.net.completions, 1024) != 1024; });
    any |= change([&](plan& p) { return std::exchange(p.connections, 0) != 0; });
    const auto straighten = [&](delay conditions::*which) {
      return change([&](plan& p) {
        const bool differs = (p.net.*which).most != plain.flight.most;
        p.net.*which = plain.flight;
        return differs;
      });
    };
    for (const auto which : {&conditions::departure, &conditions::flight, &conditions::acknowledged,
                             &conditions::connecting, &conditions::notice})
      any |= straighten(which);
    return any;
  }

  plan least_;
  unsigned runs_ = 0;
};

std::string settings(const plan& p) {
  return std::string("a core like ") +
         (p.net.rdma          ? "verbs"
          : p.net.reads_badly ? "tcp of old"
                              : "tcp") +
         ", " + std::to_string(p.rx_buffers) + " receive buffers, eager up to " +
         std::to_string(p.eager_size) + " B, posts refused " + std::to_string(p.net.refused_posts) +
         " in 1000, completions " + std::to_string(p.net.completions) +
         (p.net.sessions ? ", sessions" : "") +
         (p.forger ? std::string(", ") + static_cast<char>('A' + *p.forger) + " forges " +
                         std::to_string(p.net.forged) + " packets in 1000"
                   : "") +
         (p.connections != 0 ? ", " + std::to_string(p.connections) + " connections at most" : "") +
         "\n";
}

}  // namespace

plan shrink(const plan& whole) {
  return shrinker(whole).run();
}

std::string describe(const plan& p) {
  std::string text = "shrunk to " + std::to_string(p.size()) + " steps: " + settings(p);
  for (unsigned n = 0; n < p.nodes; ++n) {
    for (const action& a : p.scripts[n])
      text += std::string("  ") + static_cast<char>('A' + n) + ": " + to_string(a) + "\n";
  }
  for (const fault& f : p.faults) text += "  " + to_string(f) + "\n";
  trace record;
  const outcome got = world(p, &record).run();
  return text + record.diagram(p.nodes, lines_shown) + "=> " + got.failure + "\n";
}

}  // namespace gaudi::sim
