// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// How long whoever connects may take for it. Until a connection is made, descriptors and memory are
// held for somebody who may never say more.
#include <rdma/fi_errno.h>

#include <algorithm>

#include "base/log.hpp"
#include "core/tcp_listener.hpp"
#include "proto/connection_manager.hpp"

namespace gaudi::proto {
namespace {

constexpr auto overdue_interval = std::chrono::milliseconds(100);
// A request is sent at once by whoever connects, so the network's time is all that this takes. To
// look for those who do not costs a system call for each descriptor.
constexpr std::chrono::milliseconds max_silence{10'000};

}  // namespace

void connection_manager::limit_handshakes() {
  const bool may_be_overdue = being_made_ != 0 && config_.connect_timeout.count() != 0;
  if (!may_be_overdue && !limits_silence_) return;
  const auto now = config_.clock.now();
  if (may_be_overdue && now >= next_overdue_look_) {
    next_overdue_look_ = now + overdue_interval;
    end_overdue(now);
  }
  if (limits_silence_ && now >= next_silence_look_) end_silent(now);
}

// Peers that never answer, as they are out of descriptors or stopped, and those that ask and are
// silent then.
void connection_manager::end_overdue(base::clock::time_point now) {
  const auto is_overdue = [&](const auto& c) {
    const bool is_made =
        c->state == connection_state::connecting || c->state == connection_state::accepting;
    return is_made && now - c->times.made_at >= config_.connect_timeout;
  };
  for (;;) {
    const auto found = std::find_if(connections_.begin(), connections_.end(), is_overdue);
    if (found == connections_.end()) return;
    GAUDI_WARN(EP_CTRL,
               "no connection with %s within %lld s: is the process there stopped, or out of "
               "descriptors (ulimit -n)? (FI_GAUDI_CONNECT_TIMEOUT)\n",
               (*found)->remote->name.to_string().c_str(),
               static_cast<long long>(config_.connect_timeout.count()));
    fail(**found, FI_ETIMEDOUT);
  }
}

// Those who connect to the core's listener and do not ask for anything. The core knows of them, and
// nobody here.
void connection_manager::end_silent(base::clock::time_point now) {
  const bool is_shorter =
      config_.connect_timeout.count() != 0 && config_.connect_timeout < max_silence;
  const std::chrono::milliseconds limit = is_shorter ? config_.connect_timeout : max_silence;
  next_silence_look_ = now + limit;
  const unsigned ended = core::end_silent(name_.raw(), name_.length(), sizeof(hello), limit);
  if (ended != 0 && !std::exchange(told_of_silent_, true))
    GAUDI_WARN(EP_CTRL,
               "closed %u connections to %s that asked for nothing within %lld ms (a port scanner? "
               "further ones are closed without a word)\n",
               ended, name_.to_string().c_str(), static_cast<long long>(limit.count()));
}

}  // namespace gaudi::proto
