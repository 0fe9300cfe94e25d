// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "report.hpp"

#include <fmt/format.h>

namespace gaudi::stress {
namespace {

constexpr double giga = 1e9;
constexpr double mega = 1e6;

}  // namespace

void reporter::print_header() {
  print_(fmt::format("{:>5} {:>9} {:>9} {:>12} {:>10} {:>10} {:>6} {:>6} {:>5}", "s", "op/s",
                     "MB/s", "verified GB", "cancelled", "reconnects", "kills", "resets", "fails"));
}

double reporter::seconds() const {
  return std::chrono::duration<double>(clock::now() - start_).count();
}

void reporter::tick(const progress_counts& now) {
  const auto time = clock::now();
  const double passed = std::chrono::duration<double>(time - last_).count();
  if (passed < 1) return;
  print_(fmt::format("{:>5.0f} {:>9.0f} {:>9.1f} {:>12.3f} {:>10} {:>10} {:>6} {:>6} {:>5}",
                     seconds(),
                     static_cast<double>(now.all.operations - before_.operations) / passed,
                     static_cast<double>(now.all.bytes - before_.bytes) / passed / mega,
                     static_cast<double>(now.all.verified) / giga, now.all.cancelled,
                     now.reconnects, now.kills, now.resets, now.all.failed));
  before_ = now.all;
  last_ = time;
}

std::string verdict(const progress_counts& all, double seconds, unsigned workers,
                    std::uint64_t seed, const std::string& failure) {
  const auto work = fmt::format(
      "{} operations of {} processes in {} rounds, {} reconnects, {} kills, {} resets, {:.1f} s",
      all.all.operations, workers, all.rounds, all.reconnects, all.kills, all.resets, seconds);
  const auto modes = fmt::format(
      "{} messages received after a peek, {} after a claim, {} in buffers for many, "
      "{} discarded, {} ends counted by fi_cntr, {} RMA operations on several ranges",
      all.all.peeked, all.all.claimed, all.all.multi, all.all.discarded, all.all.counted,
      all.all.ranged);
  if (failure.empty())
    return fmt::format("PASSED: {}; {}; every byte was right, every counter balanced; seed {}",
                       work, modes, seed);
  return fmt::format("FAILED: {}; after {}; repeat with --seed {}", failure, work, seed);
}

}  // namespace gaudi::stress
