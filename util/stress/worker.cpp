// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "worker.hpp"

#include <cstdlib>
#include <memory>

#include "round_run.hpp"

namespace gaudi::stress {
namespace {

using nlohmann::json;

class worker {
 public:
  worker(common::oob_channel& parent, int device) : parent_(parent), device_(device) {
    const json order = parent_.receive();
    settings_ = order.at("settings").get<settings>();
    self_ = order.at("number").get<unsigned>();
    address_ = order.at("address").get<std::string>();
    if (address_.empty()) address_ = parent_.local_address();
    open();
    parent_.send(station_->self());
    parent_.set_idle_work([this] { serve(); });
  }
  worker(const worker&) = delete;
  worker& operator=(const worker&) = delete;
  ~worker() { parent_.set_idle_work({}); }

  void run() {
    for (;;) {
      const json order = parent_.receive();
      if (order.contains("end")) return;
      take_part(order);
    }
  }

 private:
  // Also when the round is over here: a peer may still need what only progress here can bring.
  void serve() {
    if (round_) round_->serve();
  }

  void open() {
    station_.reset();  // first: there is one device, and it uses what the round has
    round_.reset();
    station_ = std::make_unique<station>(settings_, address_, device_);
    known_.clear();
  }

  // Whoever has opened its endpoint again has another address; the old one is forgotten.
  void meet(const std::vector<introduction>& workers) {
    known_.resize(workers.size());
    for (unsigned i = 0; i < workers.size(); ++i) {
      if (i == self_ || known_[i].name == workers[i].name) continue;
      station_->ep().set_peer(i, workers[i].name);
    }
    known_ = workers;
  }

  void take_part(const json& order) {
    if (order.contains("workers")) roster_ = order["workers"].get<std::vector<introduction>>();
    meet(roster_);
    const fault loss{order.at("fault").get<fault_kind>(), order.at("victim").get<unsigned>()};
    std::vector<member> members;
    for (const introduction& i : roster_) members.push_back(i.facts);
    plan_.seed = settings_.seed;
    plan_.round = order.at("round").get<std::uint64_t>();
    plan_.operations = plan_round(settings_, members, plan_.round, loss);
    round_ = std::make_unique<round_run>(*station_, assignment{.common = settings_,
                                                               .plan = plan_,
                                                               .workers = roster_,
                                                               .self = self_,
                                                               .loss = loss,
                                                               .last_loss = last_loss_});
    if (loss.kind != fault_kind::none) last_loss_ = plan_.round;
    round_->prepare();
    parent_.exchange({{"ready", true}});
    round_->start();
    const bool is_victim = loss.victim == self_;
    if (loss.kind == fault_kind::reset && is_victim) round_->wait_for_reset();
    json ended{{"failed", round_->failed()}};
    if (loss.kind == fault_kind::close && is_victim) {
      open();
      ended["self"] = station_->self();
    }
    finish(parent_.exchange(ended), loss.kind == fault_kind::reset && is_victim);
  }

  void finish(const json& order, bool has_lost_device) {
    json result{{"counts", counts()}, {"to", json::array()}, {"from", json::array()}};
    const auto lost = order.at("lost").get<std::set<unsigned>>();
    if (round_) {
      round_->finish({.lost = lost, .failed = order.at("failed").get<std::set<std::size_t>>()});
      round_->verify();
      result = {{"counts", round_->counted()},
                {"to", round_->moved().to},
                {"from", round_->moved().from}};
    }
    if (has_lost_device || order.at("reopen").get<std::set<unsigned>>().count(self_) != 0) {
      open();
      result["self"] = station_->self();
    } else if (!lost.empty() && lost.count(self_) == 0) {
      station_->renew();
      result["self"] = station_->self();
    }
    parent_.send(result);
  }

  common::oob_channel& parent_;
  const int device_;
  settings settings_;
  unsigned self_ = 0;
  std::string address_;  // that the endpoint binds to
  std::unique_ptr<station> station_;
  std::vector<introduction> roster_;
  std::vector<introduction> known_;
  round_plan plan_;
  std::unique_ptr<round_run> round_;
  std::uint64_t last_loss_ = 0;
};

}  // namespace

void work(common::oob_channel& parent, unsigned device) {
  setenv("FI_GAUDI_DEVICE", "all", 0);
  worker(parent, static_cast<int>(device)).run();
}

}  // namespace gaudi::stress
