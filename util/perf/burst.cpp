// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "burst.hpp"

#include <algorithm>

namespace gaudi::perf {

void burst::prepare() {
  if (step_.check && gives()) {
    for (std::uint64_t i = 0; i < range_.count; ++i)
      pair_.fill(step_, range_.part, range_.first + i, (i % step_.slots) * step_.size);
  }
  post_first();
}

void burst::verify() const {
  if (!step_.check || !gets()) return;
  for (std::uint64_t i = 0; i < range_.count; ++i)
    pair_.verify(step_, range_.part, range_.first + i, (i % step_.slots) * step_.size);
}

std::unique_ptr<burst> make_burst(pair& here, const step& s, const burst_range& range) {
  if (is_rma(s.op)) return make_rma(here, s, range);
  return range.part == phase::latency ? make_ping_pong(here, s, range)
                                      : make_stream(here, s, range);
}

std::uint64_t burst_length(const step& s, phase part, std::uint64_t count) {
  if (!s.check) return count;
  return part == phase::latency ? 1 : std::min<std::uint64_t>(count, s.slots);
}

}  // namespace gaudi::perf
