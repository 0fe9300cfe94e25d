// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "common/oob.hpp"

namespace gaudi::stress {

/// The workers of this host: processes of their own, known by their numbers. It uses no libfabric
/// itself, so that it can fork at any time. The destructor kills those that are left.
class host {
 public:
  /// body: what a worker does with its end of the connection.
  using life = std::function<void(common::oob_channel&, unsigned)>;
  host(life body, std::chrono::seconds timeout);
  host(const host&) = delete;
  host& operator=(const host&) = delete;
  ~host();

  /// Starts a worker; the result is this end of the connection to it.
  common::oob_channel start(unsigned number);

  void kill(unsigned number);

  /// How a worker ended that said nothing before, if one did.
  std::optional<std::string> why_crashed(unsigned number);

  /// Waits for it to end; how, if that was badly.
  std::optional<std::string> join(unsigned number);

 private:
  [[noreturn]] void live(common::descriptor socket, unsigned number) const;

  life body_;
  std::chrono::seconds timeout_;
  std::map<unsigned, pid_t> workers_;
};

}  // namespace gaudi::stress
