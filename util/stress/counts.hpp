// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>

namespace gaudi::stress {

/// What a worker counted in one round, or a run in all of them.
struct counts {
  std::uint64_t posted = 0;      ///< operations, receives and peeks
  std::uint64_t completed = 0;   ///< of those: well
  std::uint64_t cancelled = 0;   ///< receives
  std::uint64_t unmatched = 0;   ///< peeks that found nothing
  std::uint64_t failed = 0;      ///< with a loss that was made on purpose
  std::uint64_t operations = 0;  ///< completed, but for receives
  std::uint64_t bytes = 0;       ///< that these moved
  std::uint64_t verified = 0;    ///< bytes compared
  std::uint64_t peeked = 0;      ///< messages found, then received
  std::uint64_t claimed = 0;     ///< messages claimed, then received
  std::uint64_t discarded = 0;   ///< messages that nobody received
  std::uint64_t multi = 0;       ///< messages that came into buffers that take many
  std::uint64_t ranged = 0;      ///< RMA on several ranges, posted
  std::uint64_t counted = 0;     ///< ends that fi_cntr counters told as well

  counts& operator+=(const counts& other) {
    posted += other.posted;
    completed += other.completed;
    cancelled += other.cancelled;
    unmatched += other.unmatched;
    failed += other.failed;
    operations += other.operations;
    bytes += other.bytes;
    verified += other.verified;
    peeked += other.peeked;
    claimed += other.claimed;
    discarded += other.discarded;
    multi += other.multi;
    ranged += other.ranged;
    counted += other.counted;
    return *this;
  }

  /// Each posted one has had one end.
  bool is_balanced() const { return posted == completed + cancelled + unmatched + failed; }
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(counts, posted, completed, cancelled, unmatched, failed,
                                   operations, bytes, verified, peeked, claimed, discarded, multi,
                                   ranged, counted)

/// Messages, and writes with remote data, by peer.
struct traffic {
  std::map<unsigned, std::uint64_t> to;
  std::map<unsigned, std::uint64_t> from;
};

}  // namespace gaudi::stress
