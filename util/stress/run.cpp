// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "run.hpp"

#include <fmt/format.h>
#include <rdma/fi_errno.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <set>
#include <thread>
#include <vector>

#include "common/failure.hpp"
#include "device_faults.hpp"
#include "dice.hpp"
#include "host.hpp"
#include "ledger.hpp"
#include "plan.hpp"
#include "report.hpp"
#include "station.hpp"
#include "worker.hpp"

namespace gaudi::stress {
namespace {

using common::failure;
using common::oob_channel;
using nlohmann::json;

// How long others have to say what happened to them, once one has failed: it may not be the one
// that was at fault.
constexpr std::chrono::milliseconds hearing{200};

constexpr std::chrono::milliseconds between_looks{50};

constexpr std::uint64_t dice_of_losses = 2;
constexpr std::uint64_t fault_one_in = 6;
constexpr std::uint64_t reopen_one_in = 6;
// Of what happens to a worker, from a round's beginning on.
constexpr std::uint64_t max_delay_us = 20000;

// As the peers of a worker that ends say.
bool names_lost_connection(const std::string& reason) {
  const auto names = [&reason](int error) {
    return reason.find(fi_strerror(error)) != std::string::npos;
  };
  return names(FI_ECONNRESET) || names(FI_ECONNREFUSED) || names(FI_ECONNABORTED);
}

class runner {
 public:
  explicit runner(const options& chosen)
      : chosen_(chosen),
        host_([](oob_channel& parent, unsigned number) { work(parent, number); },
              chosen.common.timeout) {}

  int run() {
    std::string why;
    try {
      start_all();
      while (goes_on()) do_round();
      end_all();
    } catch (const std::exception& error) {
      why = cause_of(error.what());
    }
    fmt::print("{}\n",
               verdict(counts_, reporter_.seconds(), chosen_.processes, chosen_.common.seed, why));
    return why.empty() ? EXIT_SUCCESS : EXIT_FAILURE;
  }

 private:
  void start_all() {
    for (unsigned number = 0; number < chosen_.processes; ++number) start(number);
    introductions_.resize(channels_.size());
    for (unsigned number = 0; number < channels_.size(); ++number) introduce(number);
    if (chosen_.reset && workers_for(fault_kind::reset).empty())
      throw failure("--reset: no worker has a Gaudi");
  }

  void start(unsigned number) {
    channels_.push_back(host_.start(number));
    set_up(number);
  }

  void set_up(unsigned number) {
    channels_[number].set_idle_work([this] { reporter_.tick(counts_); }, between_looks);
    channels_[number].send({{"settings", chosen_.common}, {"number", number}});
  }

  void introduce(unsigned number) { take(number, receive(number)); }

  // Whoever had a device has to have it again.
  void take(unsigned number, const json& self) {
    const bool had_device = introductions_[number].facts.device;
    introductions_[number] = self.get<introduction>();
    changed_ = true;
    if (had_device && !introductions_[number].facts.device)
      throw failure(fmt::format("worker {}: its Gaudi does not open again", number));
    if (chosen_.reset && introductions_[number].facts.device && !introductions_[number].simulated)
      throw failure("--reset is for simulated Gaudis only");
  }

  bool goes_on() const {
    return chosen_.rounds != 0 ? counts_.rounds < chosen_.rounds
                               : reporter_.seconds() < chosen_.seconds;
  }

  json receive(unsigned number) {
    try {
      return channels_[number].receive();
    } catch (const common::peer_failure& error) {
      throw failure(fmt::format("worker {}: {}", number, error.reason()));
    } catch (const std::exception& error) {
      throw failure(fmt::format("worker {}: {}", number, error.what()));
    }
  }

  void do_round() {
    round_ = counts_.rounds + 1;
    dice random(chosen_.common.seed, round_, dice_of_losses);
    const fault loss = choose_fault(random);
    json order{{"round", round_}, {"fault", loss.kind}, {"victim", loss.victim}};
    if (changed_) order["workers"] = introductions_;
    changed_ = false;
    send_all(order);
    for (unsigned i = 0; i < channels_.size(); ++i) receive(i);
    send_all({{"go", true}});
    make_happen(loss, random);
    const std::set<std::size_t> failed = await_ends(loss);
    if (loss.kind == fault_kind::reset) device_faults_.mend();
    json end{{"failed", failed}, {"lost", json::array()}, {"reopen", json::array()}};
    if (is_lost(loss)) end["lost"].push_back(loss.victim);
    if (is_well(loss) && chosen_.common.reconnect && random.one_in(reopen_one_in)) {
      end["reopen"].push_back(random.below(channels_.size()));
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
      device_faults_.reset(introductions_[loss.victim].index);
      ++counts_.resets;
      return;
    }
    host_.kill(loss.victim);
    channels_[loss.victim] = host_.start(loss.victim);
    set_up(loss.victim);
    ++counts_.kills;
  }

  std::set<std::size_t> await_ends(const fault& loss) {
    std::set<std::size_t> failed;
    for (unsigned i = 0; i < channels_.size(); ++i) {
      if (is_dead(loss, i)) continue;
      const json ended = receive(i);
      failed.merge(ended.at("failed").get<std::set<std::size_t>>());
      if (ended.contains("self")) take(i, ended["self"]);
    }
    return failed;
  }

  void collect(const fault& loss) {
    ledger books;
    for (unsigned i = 0; i < channels_.size(); ++i) {
      if (is_dead(loss, i)) continue;
      const json result = receive(i);
      counts_.all += result.at("tally").get<tally>();
      books.add(i, {.to = result.at("to"), .from = result.at("from")});
      if (result.contains("self")) take(i, result["self"]);
    }
    if (!is_well(loss)) return;
    if (const auto wrong = books.find_imbalance())
      throw failure(fmt::format("{} (round {})", *wrong, round_));
  }

  void send_all(const json& order, const fault& loss = {}) {
    for (unsigned i = 0; i < channels_.size(); ++i)
      if (!is_dead(loss, i)) channels_[i].send(order);
  }

  void end_all() {
    send_all({{"end", true}});
    for (unsigned i = 0; i < channels_.size(); ++i)
      if (const auto why = host_.join(i)) throw failure(fmt::format("worker {}: {}", i, *why));
  }

  // A worker that crashed says nothing, and those that miss it do.
  std::string cause_of(const std::string& reported) {
    std::this_thread::sleep_for(hearing);
    for (unsigned i = 0; i < channels_.size(); ++i)
      if (const auto why = host_.why_crashed(i))
        return fmt::format("worker {}: {} (round {})", i, *why, round_);
    if (!names_lost_connection(reported)) return reported;
    for (unsigned i = 0; i < channels_.size(); ++i) {
      const std::string other = hear(i);
      if (!other.empty() && !names_lost_connection(other))
        return fmt::format("worker {}: {}", i, other);
    }
    return reported;
  }

  // Why a worker has failed whose answer was not waited for.
  std::string hear(unsigned number) {
    try {
      channels_[number].peer_gone();
    } catch (const common::peer_failure& error) {
      return error.reason();
    }
    return {};
  }

  const options& chosen_;
  host host_;
  device_faults device_faults_;
  std::deque<oob_channel> channels_;  // by worker
  std::vector<introduction> introductions_;
  bool changed_ = false;
  std::uint64_t round_ = 0;
  progress_counts counts_;
  reporter reporter_;
};

}  // namespace

int run(const options& chosen) {
  return runner(chosen).run();
}

}  // namespace gaudi::stress
