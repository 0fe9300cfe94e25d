// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "rates.hpp"

namespace gaudi::top {

struct line {
  std::string text;
  bool is_heading = false;
};

struct frame_size {
  std::size_t columns = 80;
  std::size_t rows = 24;
};

/// What fits into `size`: a summary, Gaudis beside NICs, and the domains of all processes, the
/// busiest first. `clock` is the time of day to show.
std::vector<line> frame_of(const sample& now, const changes& all, const std::string& clock,
                           frame_size size);

/// At most 5 characters: 0, 7.5, 812, 1.2k, 34k, 1.2M.
std::string short_number(double value);

}  // namespace gaudi::top
