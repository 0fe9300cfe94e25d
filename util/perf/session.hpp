// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "burst.hpp"
#include "common/oob.hpp"
#include "crew.hpp"
#include "measure.hpp"
#include "path.hpp"

namespace gaudi::perf {

using common::descriptor;
using common::peer_failure;

struct session_request {
  endpoint_request ep;
  std::size_t pairs = 1;
  std::size_t threads = 1;  ///< at most as many as pairs
  std::chrono::seconds timeout{60};
};

/// The two sides of a run. Both call the same functions with the same steps; only the client's
/// results are meant to be read.
class session {
 public:
  /// Opens the endpoints and exchanges addresses. From then on they are polled while a side waits
  /// for the other one.
  session(const session_request& request, oob_channel& oob, bool client);
  session(const session&) = delete;
  session& operator=(const session&) = delete;
  ~session();

  /// The first pair's.
  endpoint& first_endpoint() { return pairs_.front()->ep(); }

  /// Two buffers of `capacity` bytes for each pair.
  void use_memory(memory_kind kind, std::size_t capacity);

  measurement run(const step& s);

 private:
  // Of the bursts of a part together; the times in microseconds.
  struct outcome {
    double elapsed = 0;                ///< from the start of all pairs to the end of the last
    std::vector<double> pair_elapsed;  ///< to the end of each
    std::vector<double> times;         ///< of single operations
    double longest_stall = 0;
  };
  using bursts = std::vector<std::unique_ptr<burst>>;

  measurement measure(const step& s);
  void run_part(const step& s, phase part, std::uint64_t count, outcome& sum);
  void run_burst(const step& s, const burst_range& range, outcome& sum);
  std::vector<double> drive(bursts& all, const step& s);
  bool streams_on(const step& s, double elapsed);
  void poll() const;
  std::vector<path_bytes> count_all_paths();
  path_reasons count_all_reasons();
  void add_paths(measurement& m, const std::vector<path_bytes>& before);
  void add_reasons_since(measurement& m, const path_reasons& before);

  // pages.cpp
  measurement run_pages(const step& s);
  double page_batch(const step& s, std::uint64_t turn, std::vector<ticket>& tickets);
  double one_piece(const step& s);
  void post_page(const step& s, std::size_t page, ticket& done);
  void wait(const ticket& t, const step& s);

  oob_channel& oob_;
  const bool client_;
  const std::size_t threads_;
  const std::chrono::seconds timeout_;
  pairs pairs_;
  std::optional<crew> crew_;  // while something is measured
};

}  // namespace gaudi::perf
