// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "run.hpp"

#include <fmt/format.h>

#include <chrono>
#include <set>
#include <thread>
#include <utility>

#include "common/failure.hpp"
#include "dice.hpp"
#include "interruption.hpp"
#include "ledger.hpp"
#include "plan.hpp"
#include "report.hpp"
#include "station.hpp"

namespace gaudi::stress {
namespace {

using common::failure;
using nlohmann::json;

constexpr std::uint64_t dice_of_losses = 2;
constexpr std::uint64_t fault_one_in = 6;
constexpr std::uint64_t reopen_one_in = 6;
// Of what happens to a worker, from a round's beginning on.
constexpr std::uint64_t max_delay_us = 20000;

class runner {
 public:
  runner(const options& chosen, std::vector<side> sides)
      : chosen_(chosen),
        pool_(chosen.common, std::move(sides), [this] { reporter_.tick(counts_); }),
        reporter_([this](const std::string& line) { pool_.print(line); }) {}

  ending run() {
    std::string why;
    try {
      start_all();
      while (goes_on()) do_round();
      pool_.end_all();
    } catch (const std::exception& error) {
      why = with_round(pool_.find_cause(error.what()));
    }
    return {verdict(counts_, reporter_.seconds(), pool_.size(), chosen_.common.seed, why),
            why.empty()};
  }

 private:
  void start_all() {
    reporter_.print_header();
    pool_.start_all();
    introductions_.resize(pool_.size());
    for (unsigned number = 0; number < pool_.size(); ++number) introduce(number);
    if (chosen_.reset && workers_for(fault_kind::reset).empty())
      throw failure("--reset: no worker has a Gaudi");
  }

  std::string with_round(const std::string& why) const {
    if (round_ == 0 || why.find("(round ") != std::string::npos) return why;
    return fmt::format("{} (round {})", why, round_);
  }

  void introduce(unsigned number) { take(number, pool_.receive(number)); }

  // Whoever had a device has to have it again.
  void take(unsigned number, const json& self) {
    const bool had_device = introductions_[number].facts.device;
    introductions_[number] = self.get<introduction>();
    changed_ = true;
    if (had_device && !introductions_[number].facts.device)
      throw failure(pool_.name_of(number) + ": its Gaudi does not open again");
    if (chosen_.reset && introductions_[number].facts.device && !introductions_[number].simulated)
      throw failure("--reset is for simulated Gaudis only");
  }

  bool goes_on() const {
    if (interrupted_.has_come()) return false;
    return chosen_.rounds != 0 ? counts_.rounds < chosen_.rounds
                               : reporter_.seconds() < chosen_.seconds;
  }

  void do_round() {
    round_ = counts_.rounds + 1;
    dice random(chosen_.common.seed, round_, dice_of_losses);
    const fault loss = choose_fault(random);
    json order{{"round", round_}, {"fault", loss.kind}, {"victim", loss.victim}};
    if (changed_) order["workers"] = introductions_;
    changed_ = false;
    send_all(order);
    for (unsigned i = 0; i < pool_.size(); ++i) pool_.receive(i);
    send_all({{"go", true}});
    make_happen(loss, random);
    const std::set<std::size_t> failed = await_ends(loss);
    if (loss.kind == fault_kind::reset) pool_.mend_devices(loss.victim);
    json end{{"failed", failed}, {"lost", json::array()}, {"reopen", json::array()}};
    if (is_lost(loss)) end["lost"].push_back(loss.victim);
    if (is_well(loss) && chosen_.common.reconnect && random.one_in(reopen_one_in)) {
      end["reopen"].push_back(random.below(pool_.size()));
      ++counts_.reconnects;
    }
    send_all(end, loss);
    collect(loss);
    if (loss.kind == fault_kind::kill) introduce(loss.victim);
    ++counts_.rounds;
    reporter_.tick(counts_);
  }

  static bool is_well(const fault& loss) { return loss.kind == fault_kind::none; }
  static bool is_lost(const fault& loss) {
    return loss.kind == fault_kind::kill || loss.kind == fault_kind::close;
  }
  static bool is_dead(const fault& loss, unsigned number) {
    return loss.kind == fault_kind::kill && loss.victim == number;
  }

  fault choose_fault(dice& random) {
    std::vector<fault_kind> possible;
    if (chosen_.common.reconnect) possible.push_back(fault_kind::close);
    if (chosen_.kill) possible.push_back(fault_kind::kill);
    if (chosen_.reset) possible.push_back(fault_kind::reset);
    if (possible.empty() || !random.one_in(fault_one_in)) return {};
    const fault_kind kind = possible[random.below(possible.size())];
    const auto victims = workers_for(kind);
    return {kind, victims[random.below(victims.size())]};
  }

  std::vector<unsigned> workers_for(fault_kind kind) const {
    std::vector<unsigned> all;
    for (unsigned i = 0; i < introductions_.size(); ++i)
      if (kind != fault_kind::reset || introductions_[i].facts.device) all.push_back(i);
    return all;
  }

  // What a worker does to itself was in its order.
  void make_happen(const fault& loss, dice& random) {
    if (loss.kind == fault_kind::close) ++counts_.reconnects;
    if (loss.kind != fault_kind::kill && loss.kind != fault_kind::reset) return;
    std::this_thread::sleep_for(std::chrono::microseconds(random.below(max_delay_us)));
    if (loss.kind == fault_kind::reset) {
      pool_.reset_device(loss.victim, introductions_[loss.victim].index);
      ++counts_.resets;
      return;
    }
    pool_.replace(loss.victim);
    ++counts_.kills;
  }

  std::set<std::size_t> await_ends(const fault& loss) {
    std::set<std::size_t> failed;
    for (unsigned i = 0; i < pool_.size(); ++i) {
      if (is_dead(loss, i)) continue;
      const json ended = pool_.receive(i);
      failed.merge(ended.at("failed").get<std::set<std::size_t>>());
      if (ended.contains("self")) take(i, ended["self"]);
    }
    return failed;
  }

  void collect(const fault& loss) {
    ledger books;
    for (unsigned i = 0; i < pool_.size(); ++i) {
      if (is_dead(loss, i)) continue;
      const json result = pool_.receive(i);
      counts_.all += result.at("counts").get<counts>();
      books.add(i, {.to = result.at("to"), .from = result.at("from")});
      if (result.contains("self")) take(i, result["self"]);
    }
    if (!is_well(loss)) return;
    if (const auto wrong = books.find_imbalance())
      throw failure(fmt::format("{} (round {})", *wrong, round_));
  }

  void send_all(const json& order, const fault& loss = {}) {
    for (unsigned i = 0; i < pool_.size(); ++i)
      if (!is_dead(loss, i)) pool_.send(i, order);
  }

  const interruption interrupted_;
  const options& chosen_;
  worker_pool pool_;
  std::vector<introduction> introductions_;
  bool changed_ = false;
  std::uint64_t round_ = 0;
  progress_counts counts_;
  reporter reporter_;
};

}  // namespace

ending run(const options& chosen, std::vector<side> sides) {
  return runner(chosen, std::move(sides)).run();
}

}  // namespace gaudi::stress
