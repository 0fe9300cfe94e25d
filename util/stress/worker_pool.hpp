// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/oob.hpp"
#include "host.hpp"
#include "settings.hpp"

namespace gaudi::stress {

/// One of the machines of a run, and how many workers it has.
struct side {
  std::unique_ptr<host> machine;
  unsigned workers = 0;
  std::string name;     ///< in what the user reads; empty where there is one side only
  std::string address;  ///< that its workers bind to; empty: they know it themselves
};

/// All workers of a run with the connections to them. The first side has the numbers from 0, the
/// next those behind. Every failure names its worker or its side.
class worker_pool {
 public:
  /// idle_work: called now and then while waiting.
  worker_pool(const settings& s, std::vector<side> sides, std::function<void()> idle_work);

  void start_all();
  unsigned size() const { return static_cast<unsigned>(homes_.size()); }

  /// "worker 3", with its side where there are two.
  std::string name_of(unsigned number) const;

  void send(unsigned number, const nlohmann::json& order);
  nlohmann::json receive(unsigned number);

  /// Kills a worker and starts another in its place.
  void replace(unsigned number);

  /// Resets a worker's device; index: its number by the driver. Until mended.
  void reset_device(unsigned number, int index);
  void mend_devices(unsigned number);

  /// Has all workers end.
  void end_all();

  /// Shows the users of all sides a line.
  void print(const std::string& line);

  /// What was at fault, after a failure: whoever noticed it first need not be.
  std::string find_cause(const std::string& reported);

 private:
  host& home_of(unsigned number) { return *sides_[homes_[number]].machine; }
  void set_up(unsigned number);
  void require_all_there();
  std::optional<std::string> find_lost_side();
  std::optional<std::string> find_crash();
  std::string last_words(unsigned number);

  const settings& settings_;
  std::vector<side> sides_;
  std::function<void()> idle_work_;
  std::vector<std::size_t> homes_;            // by worker: the index of its side
  std::deque<common::oob_channel> channels_;  // by worker
};

}  // namespace gaudi::stress
