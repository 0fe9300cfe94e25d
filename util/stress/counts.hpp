// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>

namespace gaudi::stress {

/// What a worker counted in one round, or a run in all of them.
struct counts {
  std::uint64_t posted = 0;      ///< operations and receives
  std::uint64_t completed = 0;   ///< of those: well
  std::uint64_t cancelled = 0;   ///< receives
  std::uint64_t failed = 0;      ///< with a loss that was made on purpose
  std::uint64_t operations = 0;  ///< completed, but for receives
  std::uint64_t bytes = 0;       ///< that these moved
  std::uint64_t verified = 0;    ///< bytes compared

  counts& operator+=(const counts& other) {
    posted += other.posted;
    completed += other.completed;
    cancelled += other.cancelled;
    failed += other.failed;
    operations += other.operations;
    bytes += other.bytes;
    verified += other.verified;
    return *this;
  }

  /// Each posted one has had one end.
  bool is_balanced() const { return posted == completed + cancelled + failed; }
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(counts, posted, completed, cancelled, failed, operations, bytes,
                                   verified)

/// Messages, and writes with remote data, by peer.
struct traffic {
  std::map<unsigned, std::uint64_t> to;
  std::map<unsigned, std::uint64_t> from;
};

}  // namespace gaudi::stress
