// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include "options.hpp"

namespace gaudi::perf {

/// One measurement of one size, as each pair makes it.
struct step {
  operation op = operation::tagged;
  std::size_t size = 1;
  std::uint64_t iterations = 1;
  std::uint64_t warmup = 1;
  std::size_t window = 1;
  std::size_t slots = 2;
  std::size_t pages = 0;  ///< of an operation, each of `size`; 0: one piece
  double duration = 0;    ///< seconds; the stream is repeated until then
  bool bidirectional = false;
  bool check = false;
  bool stalls = false;
};

step step_for(const plan& p, std::size_t size);

/// The two parts of a measurement. The bytes of one differ from the other's.
enum class phase : unsigned { latency = 0, stream = 1 };

}  // namespace gaudi::perf
