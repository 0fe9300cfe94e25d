// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "counts.hpp"
#include "options.hpp"

namespace gaudi::stress {

/// What a run did so far.
struct progress_counts {
  counts all;
  std::uint64_t rounds = 0;
  std::uint64_t reconnects = 0;
  std::uint64_t kills = 0;
  std::uint64_t resets = 0;
};

/// Prints a line for each second that passes.
class reporter {
 public:
  explicit reporter(std::function<void(const std::string&)> print) : print_(std::move(print)) {}

  void print_header();
  double seconds() const;
  void tick(const progress_counts& now);

 private:
  using clock = std::chrono::steady_clock;
  std::function<void(const std::string&)> print_;
  clock::time_point start_ = clock::now();
  clock::time_point last_ = start_;
  counts before_;
};

/// The last line of a run.
std::string verdict(const progress_counts& all, double seconds, unsigned workers,
                    std::uint64_t seed, const std::string& failure);

}  // namespace gaudi::stress
