// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "step.hpp"

#include <algorithm>

namespace gaudi::perf {

step step_for(const plan& p, std::size_t size) {
  const std::size_t slots = slots_for(p, size);
  return {.op = p.op,
          .size = size,
          .iterations = iterations_for(p, size),
          .warmup = warmup_for(p, size),
          .window = std::min<std::size_t>(p.window, slots),
          .slots = slots,
          .pages = p.pages,
          .duration = p.duration,
          .bidirectional = p.bidirectional,
          .check = p.check,
          .stalls = p.stalls};
}

}  // namespace gaudi::perf
