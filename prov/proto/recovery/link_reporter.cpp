// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/recovery/link_reporter.hpp"

#include <rdma/fi_errno.h>

#include <cinttypes>
#include <utility>

#include "base/log.hpp"

namespace gaudi::proto {
namespace {

constexpr std::chrono::seconds between_warnings{10};

fi_log_level level_of(bool is_warning) noexcept {
  return is_warning ? FI_LOG_WARN : FI_LOG_INFO;
}

double seconds_of(std::chrono::microseconds time) noexcept {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

// Whether this loss is the one in a while that is a warning.
bool link_reporter::may_warn() noexcept {
  const auto now = clock_.now();
  if (now < warns_from_) {
    ++unsaid_;
    return false;
  }
  warns_from_ = now + between_warnings;
  const std::uint64_t others = std::exchange(unsaid_, 0);
  if (others != 0)
    GAUDI_WARN(EP_CTRL,
               "%" PRIu64
               " more connections and rails were lost since the last warning "
               "(FI_LOG_LEVEL=info tells of each)\n",
               others);
  return true;
}

link_loss link_reporter::loss_now() noexcept {
  return {.at = clock_.now(), .is_told = true, .is_warned = may_warn()};
}

void link_reporter::tell(const link_change& change) const noexcept {
  if (listener_) listener_->link_changed(change);
}

std::chrono::microseconds link_reporter::since(base::clock::time_point lost_at) const noexcept {
  return std::chrono::duration_cast<std::chrono::microseconds>(clock_.now() - lost_at);
}

void link_reporter::connection_lost(connection& c) noexcept {
  c.session.lost = loss_now();
  const int error = c.session.interruption.error;
  GAUDI_LOG(level_of(c.session.lost.is_warned), EP_CTRL,
            "the connection to %s is lost (%s), and is made again\n",
            c.remote->name.to_string().c_str(),
            error == FI_ESHUTDOWN ? "left for its first link" : fi_strerror(error));
  tell({.what = link_change::kind::connection_lost, .remote = *c.remote, .error = error});
}

void link_reporter::connection_regained(connection& c) noexcept {
  link_loss& lost = c.session.lost;
  if (!std::exchange(lost.is_told, false)) return;
  const auto outage = since(lost.at);
  const bool has_moved = c.session.has_moved();
  GAUDI_LOG(level_of(lost.is_warned), EP_CTRL, "the connection to %s goes on%s%s, after %.3f s\n",
            c.remote->name.to_string().c_str(), has_moved ? " over another link, to " : "",
            has_moved ? routes_.current(c).to->to_string().c_str() : "", seconds_of(outage));
  tell({.what = link_change::kind::connection_regained,
        .remote = *c.remote,
        .moved = has_moved,
        .outage = outage});
}

void link_reporter::connection_down(const connection& c, int error) noexcept {
  const link_loss& lost = c.session.lost;
  // Where the endpoint itself is closed, nobody waits for the connection any more.
  if (!lost.is_told || error == FI_ECANCELED) return;
  const auto outage = since(lost.at);
  GAUDI_LOG(level_of(lost.is_warned), EP_CTRL,
            "the connection to %s cannot be made again, after %.3f s: operations fail (%s)\n",
            c.remote->name.to_string().c_str(), seconds_of(outage), fi_strerror(error));
  tell({.what = link_change::kind::connection_given_up,
        .remote = *c.remote,
        .error = error,
        .outage = outage});
}

void link_reporter::rail_lost(const connection& c, std::size_t place) noexcept {
  rail& r = c.at_core.rails->rails[place];
  r.lost = loss_now();
  GAUDI_LOG(level_of(r.lost.is_warned), EP_CTRL, "rail %zu to %s is lost: the others carry on\n",
            place, c.remote->name.to_string().c_str());
  tell({.what = link_change::kind::rail_lost,
        .remote = *c.remote,
        .rail = place,
        .error = FI_ECONNRESET});
}

void link_reporter::rail_up(const connection& c, std::size_t place) noexcept {
  rail& r = c.at_core.rails->rails[place];
  if (!std::exchange(r.lost.is_told, false)) {
    GAUDI_INFO(EP_CTRL, "rail %zu to %s is up\n", place, c.remote->name.to_string().c_str());
    return;
  }
  const auto outage = since(r.lost.at);
  GAUDI_LOG(level_of(r.lost.is_warned), EP_CTRL, "rail %zu to %s is up again, after %.3f s\n",
            place, c.remote->name.to_string().c_str(), seconds_of(outage));
  tell({.what = link_change::kind::rail_regained,
        .remote = *c.remote,
        .rail = place,
        .outage = outage});
}

}  // namespace gaudi::proto
