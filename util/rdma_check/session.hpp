// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "connection.hpp"
#include "control.hpp"
#include "memory.hpp"
#include "plan.hpp"

namespace gaudi::rdma_check {

/// The peer's registered memory.
struct peer_memory {
  std::uint64_t address = 0;
  std::uint64_t length = 0;  ///< bytes; the first that the peer may not touch is behind them
  std::uint32_t rkey = 0;
  bool on_device = false;
};

/// What one side learnt from a step. The figures are of the side that drove it.
struct measured {
  std::vector<double> latencies;  ///< microseconds
  double stream = 0;              ///< microseconds that all operations took, several in flight
  std::string difference;         ///< where contents differ first; empty: they are right
  std::uint64_t flushes = 0;      ///< of the peer's device memory, by this side
};

/// Carries out steps on a pair of connections: the one moves data, on the other the two sides keep
/// in step. Both sides call the same functions with the same steps. The first half of each side's
/// memory is for what leaves, the second for what arrives. One thread.
class session {
 public:
  session(control& words, connection& data, memory& own, const peer_memory& peer, bool client,
          std::chrono::seconds limit);

  /// All operations of a step, one at a time and then several in flight, in rounds of as many as
  /// have a place of their own; every byte of every operation is compared after its round, and
  /// what arrived in device memory is flushed before. A failure (operation_failed) names the
  /// operation and its status.
  measured run(const step& s);

  /// For the client: writes where the peer's memory has ended. Empty if that failed as it must,
  /// with a remote access error, else what happened. The data connection is of no more use then.
  std::string write_out_of_range();

 private:
  enum class phase { latency, stream };
  struct round {
    const step& of;
    phase what;
    std::uint64_t first;
    std::uint64_t count;

    /// A ping-pong: each side answers each message with one of its own.
    bool both_ways() const { return of.op == operation::send && what == phase::latency; }
  };

  void run_round(const round& r, measured& into);
  void prepare(const round& r, bool drives);
  void drive_one_by_one(const round& r, measured& into);
  void drive_stream(const round& r, measured& into);
  void follow(const round& r);
  bool sends_data(const round& r) const;
  bool gets_data(const round& r) const;
  void flush_peer(const round& r);
  void verify(const round& r, measured& into);
  common::pattern contents(const round& r, std::uint64_t index, bool from_client) const;
  std::uint32_t immediate(const round& r, std::uint64_t index) const;

  void post(const round& r, std::uint64_t index);
  template <class Done>
  void wait_until(const round& r, Done done);
  bool take_completions(const round& r);
  void take_receive(const round& r, const ibv_wc& done);
  ibv_wc wait_for_only_one(const char* what);
  [[noreturn]] void fail(const std::string& what, const ibv_wc& done);

  control& words_;
  connection& data_;
  memory& own_;
  peer_memory peer_;
  memory landing_;  // for what a flush reads
  bool client_;
  std::chrono::seconds limit_;

  std::uint64_t sent_ = 0;      // of this round
  std::uint64_t received_ = 0;  // of this round
  std::string mishap_;          // first receive of this step with a wrong length or number
};

}  // namespace gaudi::rdma_check
