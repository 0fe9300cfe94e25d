// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <memory>
#include <vector>

#include "pair.hpp"

namespace gaudi::perf {

/// Which operations of a measurement a burst makes.
struct burst_range {
  phase part = phase::latency;
  std::uint64_t first = 0;
  std::uint64_t count = 1;
};

/// The operations of one pair between two meetings of the sides, at one of its ends. Nothing in it
/// waits, so that one thread can have those of several pairs under way. The caller lets the sides
/// meet after prepare and before verify.
class burst {
 public:
  burst(pair& here, const step& s, const burst_range& range)
      : pair_(here), step_(s), range_(range) {}
  virtual ~burst() = default;

  /// With check: puts the bytes in place that this end gives. Posts what must not be late.
  void prepare();

  /// Does what can be done now. True when nothing is left.
  virtual bool advance() = 0;

  /// With check: compares the bytes that this end got.
  void verify() const;

  /// Microseconds of each operation; empty where they overlap.
  const std::vector<double>& times() const { return times_; }

 protected:
  virtual bool gives() const = 0;
  virtual bool gets() const = 0;
  virtual void post_first() {}

  pair& pair_;
  const step step_;
  const burst_range range_;
  std::vector<double> times_;
};

/// Latency: one operation at a time.
std::unique_ptr<burst> make_ping_pong(pair& here, const step& s, const burst_range& range);
/// Bandwidth: as many in flight as the window has.
std::unique_ptr<burst> make_stream(pair& here, const step& s, const burst_range& range);
/// Either, of writes or reads.
std::unique_ptr<burst> make_rma(pair& here, const step& s, const burst_range& range);

/// The one that the operation and the part of the measurement call for.
std::unique_ptr<burst> make_burst(pair& here, const step& s, const burst_range& range);

/// Operations of a burst: all of them, or with check as many as have a place of their own.
std::uint64_t burst_length(const step& s, phase part, std::uint64_t count);

}  // namespace gaudi::perf
