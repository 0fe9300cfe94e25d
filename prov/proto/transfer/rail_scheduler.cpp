// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/transfer/rail_scheduler.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <utility>

namespace gaudi::proto {
namespace {

// Enough for a wire to be busy while the ends of earlier ones are still on their way.
constexpr unsigned operations_at_once = 4;
// Several come back at one look, however long each took: rates are taken over some of them.
constexpr unsigned pieces_per_sample = 4;
constexpr double share_of_sample = 0.25;
// One that was slow, and has got nothing since then, may be fast again.
constexpr std::chrono::seconds rate_lasts{1};

double nanoseconds(base::clock::duration d) noexcept {
  return std::chrono::duration<double, std::nano>(d).count();
}

// Until it is through with what it has, and so many bytes more; 0 where its rate is not known.
double time_for(const rail& r, std::size_t more) noexcept {
  return r.load.rate > 0 ? static_cast<double>(r.load.bytes + more) / r.load.rate : 0;
}

bool has(std::uint8_t places, std::size_t place) noexcept {
  return (places >> place & 1) != 0;
}

// Until all others together are through with what they have and `left` bytes more, of which none
// gets less than a piece.
double time_of_others(const rail_set& set, std::size_t but, std::uint8_t usable, std::size_t piece,
                      std::size_t left) noexcept {
  auto bytes = static_cast<double>(left);
  double rate = 0;
  double first = std::numeric_limits<double>::infinity();
  for (std::size_t place = 0; place < set.rails.size(); ++place) {
    const rail& r = set.rails[place];
    if (place == but || !has(usable, place) || r.now != rail::state::up) continue;
    bytes += static_cast<double>(r.load.bytes);
    rate += r.load.rate;
    first = std::min(first, time_for(r, piece));
  }
  return rate > 0 ? std::max(bytes / rate, first) : std::numeric_limits<double>::infinity();
}

void forget_old_rates(rail_set& set, base::clock::time_point now) noexcept {
  for (rail& r : set.rails)
    if (r.load.operations == 0 && now - r.load.measured_at > rate_lasts) r.load.rate = 0;
}

}  // namespace

bool rail_scheduler::shares_out_long(connection& c) {
  if (c.shm || c.session.is_replaying) return false;
  want(c);
  return c.session.is_away || c.at_core.rails->any_up();
}

void rail_scheduler::want(connection& c) {
  if (!c.at_core.rails) c.at_core.rails = std::make_unique<rail_set>(settings_.count);
  rail_set& set = *c.at_core.rails;
  if (set.is_wanted || !set.any_down() || clock_.now() < set.asks_from) return;
  set.is_wanted = true;
  look_at(c);
}

void rail_scheduler::fail(connection& c, rail& r) noexcept {
  if (r.now != rail::state::up && r.now != rail::state::connecting) return;
  r.was_up = r.now == rail::state::up;
  r.now = rail::state::failing;
  look_at(c);
}

std::optional<std::size_t> rail_scheduler::choose(const connection& c, std::size_t length,
                                                  std::size_t left, std::uint8_t usable) noexcept {
  const rail_set& set = *c.at_core.rails;
  std::optional<std::size_t> best;
  double least = 0;
  for (std::size_t place = 0; place < set.rails.size(); ++place) {
    const rail& r = set.rails[place];
    if (!has(usable, place) || r.now != rail::state::up || r.load.operations >= operations_at_once)
      continue;
    const double time = time_for(r, length);
    if ((best && time >= least) || time > time_of_others(set, place, usable, length, left))
      continue;
    best = place;
    least = time;
  }
  return best;
}

void rail_scheduler::posted(connection& c, posted_op& w, std::size_t place,
                            std::size_t length) noexcept {
  auto& load = c.at_core.rails->rails[place].load;
  w.rail = static_cast<std::uint8_t>(place + 1);
  if (load.operations++ == 0) {
    load.since = clock_.now();
    load.done = 0;
    load.from_start = true;
  }
  load.bytes += length;
  if (place == 0) return;
  ++paths_.rails.ops;
  paths_.rails.bytes += length;
  if (rail_counters* const own = settings_.counters_of(c.at_core.rails->rails[place].route)) {
    ++own->ops;
    own->bytes += length;
  }
}

void rail_scheduler::ended(connection& c, std::size_t place, std::size_t length,
                           int error) noexcept {
  auto& load = c.at_core.rails->rails[place].load;
  --load.operations;
  ++load.ended;
  load.bytes -= length;
  load.done += length;
  const bool is_sample =
      load.done >= pieces_per_sample * settings_.chunk || (load.operations == 0 && load.from_start);
  if (error != 0 || !is_sample) return;
  const auto now = clock_.now();
  const double took = nanoseconds(now - load.since);
  // With the first one cores and kernels make what they need for it.
  if (std::exchange(load.is_known, true) && took > 0) {
    const double rate = static_cast<double>(load.done) / took;
    load.rate = load.rate > 0 ? load.rate + share_of_sample * (rate - load.rate) : rate;
  }
  load.measured_at = now;
  forget_old_rates(*c.at_core.rails, now);
  load.since = now;
  load.done = 0;
  load.from_start = false;
}

}  // namespace gaudi::proto
