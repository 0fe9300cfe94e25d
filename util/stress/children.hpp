// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "common/oob.hpp"

namespace gaudi::stress {

/// The worker processes on this machine, known by their numbers. It uses no libfabric itself, so
/// that it can fork at any time. The destructor kills those that are left.
class children {
 public:
  /// What a worker does with its connection to whoever leads the run.
  using life = std::function<void(common::oob_channel&, unsigned number)>;
  /// Gives that connection; called in the new process.
  using connect = std::function<common::oob_channel()>;

  explicit children(life body);
  children(const children&) = delete;
  children& operator=(const children&) = delete;
  ~children();

  void start(unsigned number, const connect& to_leader);
  void kill(unsigned number);

  /// How a worker ended that said nothing before, if one did.
  std::optional<std::string> why_crashed(unsigned number);

  /// Waits for it to end; how, if that was badly.
  std::optional<std::string> join(unsigned number);

 private:
  [[noreturn]] void live(const connect& to_leader, unsigned number) const;

  life body_;
  std::map<unsigned, pid_t> workers_;
};

}  // namespace gaudi::stress
