// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/connection/handshake_limits.hpp"

#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "core/tcp_listener.hpp"
#include "proto/wire/hello.hpp"

namespace gaudi::proto {
namespace {

// A request is sent at once by whoever connects, so the network's time is all that this takes.
constexpr std::chrono::milliseconds max_silence{10'000};

}  // namespace

void handshake_limits::watch_listener(const net_address& name, base::clock::time_point now) {
  listener_ = name;
  watches_listener_ = core::limit_reads(name.raw(), name.length());
  next_silence_look_ = now;
}

bool handshake_limits::let_go() const noexcept {
  return watches_listener_ && core::end_all(listener_.raw(), listener_.length()) != 0;
}

connection* handshake_limits::overdue(const connection_table& table,
                                      base::clock::time_point now) const {
  const auto is_overdue = [&](const auto& c) {
    return c->is_being_made() && now - c->handshake.made_at >= timeout_;
  };
  const auto found = std::find_if(table.all().begin(), table.all().end(), is_overdue);
  if (found == table.all().end()) return nullptr;
  GAUDI_WARN(EP_CTRL,
             "no connection with %s within %lld s: is the process there stopped, or out of "
             "descriptors (ulimit -n)? (FI_GAUDI_CONNECT_TIMEOUT)\n",
             (*found)->remote->name.to_string().c_str(), static_cast<long long>(timeout_.count()));
  return found->get();
}

// The core knows of them, and nobody here. They take descriptors and nothing else, and a job with
// thousands of connections would wait for each look at all of those: so while there are enough,
// nobody looks.
void handshake_limits::end_silent(base::clock::time_point now) {
  const bool is_shorter = timeout_.count() != 0 && timeout_ < max_silence;
  const std::chrono::milliseconds limit = is_shorter ? timeout_ : max_silence;
  next_silence_look_ = now + limit;
  if (!core::descriptors_are_scarce()) return;
  const unsigned ended =
      core::end_silent(listener_.raw(), listener_.length(), sizeof(hello), limit);
  if (ended != 0 && !std::exchange(told_of_silent_, true))
    GAUDI_WARN(EP_CTRL,
               "closed %u connections to %s that asked for nothing within %lld ms (a port scanner? "
               "further ones are closed without a word)\n",
               ended, listener_.to_string().c_str(), static_cast<long long>(limit.count()));
}

}  // namespace gaudi::proto
