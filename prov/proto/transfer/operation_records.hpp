// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <boost/container/static_vector.hpp>
#include <cstddef>
#include <cstdint>

#include "base/clock.hpp"
#include "base/outstanding_page.hpp"
#include "proto/operation/direct_op.hpp"
#include "proto/operation/transfer.hpp"

namespace gaudi::proto {

/// What others see of an endpoint's operations: a record of each in the page of outstanding
/// operations, as far as there are any. Where a transfer waits for a peer to begin with, it has one
/// from its start; others get one when they are still there at an update. A record ends with its
/// operation. Not thread safe: the caller holds the domain lock.
class operation_records {
 public:
  /// `endpoint`: the place of the endpoint's record. Before this nothing is shown.
  void open(const base::clock& clock, std::uint32_t endpoint) noexcept;
  void close() noexcept {
    is_open_ = false;
    spare_.clear();
  }

  /// The transfer has begun. Reads the clock.
  void begin(transfer& t) noexcept {
    if (is_open_) show(t, clock_.now(), false);
  }
  /// What it waits for now, where it has a record or one is left. `copying`: a device has copies of
  /// it.
  void show(transfer& t, base::clock::time_point now, bool copying) noexcept;
  void show(direct_op& op, base::clock::time_point now) noexcept;
  /// The transfer is over.
  void end(transfer& t) noexcept {
    if (t.record && is_open_) keep(t);
  }
  /// No operation is left: what the next ones would have is free for other endpoints.
  void give_back() noexcept { spare_.clear(); }

 private:
  void keep(transfer& t) noexcept;
  [[nodiscard]] bool provide(base::outstanding::record_owner& record) noexcept;

  // Taking a record and giving it back costs as much as writing it, twice.
  static constexpr std::size_t max_spare = 8;

  base::clock clock_{};
  std::uint32_t endpoint_ = 0;
  bool is_open_ = false;
  boost::container::static_vector<base::outstanding::record_owner, max_spare> spare_;
};

/// What an operation waits for.
base::outstanding::wait_reason wait_of(const transfer& t, bool copying) noexcept;

/// Which way its bytes go.
base::outstanding::path_kind path_of(const transfer& t) noexcept;

/// As records have times: nanoseconds.
inline std::uint64_t nanoseconds(base::clock::time_point at) noexcept {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(at.time_since_epoch()).count());
}
/// Who the peer is, and when it was last heard.
void put_peer(base::outstanding::record& r, const connection& c) noexcept;

}  // namespace gaudi::proto
