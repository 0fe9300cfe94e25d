// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/core/network.hpp"
#include "sim/ledger.hpp"
#include "sim/node.hpp"
#include "sim/plan.hpp"

namespace gaudi::sim {

/// What became of a schedule.
struct outcome {
  std::string failure;  // empty: all was right
  std::uint64_t steps = 0;
  std::uint64_t operations = 0;
  // Of the nodes that are still there:
  std::uint64_t moved = 0;   // sessions that have gone on over another route
  std::uint64_t passed = 0;  // reads of device memory of others on their machine
  std::uint64_t digest = 0;  // the same for the same seed on any machine
};

/// Runs one plan: nodes take their turns in an order that the seed gives, faults come when the plan
/// says; then everything calms down, has to come to rest, and is closed.
class world {
 public:
  world(const plan& p, trace* record);
  outcome run();

 private:
  struct place {
    std::unique_ptr<node> here;  // null: away
    unsigned lives = 0;
    std::size_t back = 0;          // the step that it starts anew at
    const host* before = nullptr;  // its last life
    std::size_t next_action = 0;
    std::vector<std::size_t> forgotten;  // peers: the step that each is known again at
    record* current = nullptr;           // the action that is being tried
    record* any_tagged = nullptr;
    record* any_untagged = nullptr;
  };

  struct unplugged {
    unsigned node;
    unsigned interface;
    std::size_t until;  // the step that it has its link again at
  };

  void distrust(unsigned n);
  void step(std::size_t now);
  void apply(const fault& f);
  void leave(unsigned n, bool politely, std::size_t away);
  void arrive(unsigned n);
  void forget(unsigned n, unsigned peer, std::size_t for_steps);
  void know_again(unsigned n, bool all);
  [[nodiscard]] bool knows(unsigned n, const action& a) const;
  void try_action(unsigned n);
  void turn(unsigned n, bool calls);
  void plug_in(bool all);
  void settle();
  bool is_settled();
  [[nodiscard]] bool any_interrupted() const;
  [[nodiscard]] unsigned calm_rounds() const noexcept;
  void keep_any_receives(unsigned n);
  void post_any(unsigned n, record*& r, bool tagged);
  void finish_receives();
  void rest(unsigned rounds);
  void check_regions();
  void audit();
  std::string leftover();
  void close_all();
  void watch();
  void fail(const std::string& what);
  [[nodiscard]] bool failed();
  [[nodiscard]] unsigned pick();
  [[nodiscard]] bool all_tried() const;
  [[nodiscard]] const node* at(unsigned n) const { return places_[n].here.get(); }

  const plan& plan_;
  rng numbers_;
  network net_;
  machines machines_;
  ledger book_;
  std::vector<place> places_;
  std::vector<unplugged> unplugged_;
  std::size_t next_fault_ = 0;
  std::uint64_t steps_ = 0;
  outcome result_;
};

}  // namespace gaudi::sim
