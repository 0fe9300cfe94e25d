// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <memory>
#include <vector>

#include "common/oob.hpp"
#include "endpoint.hpp"
#include "measure.hpp"
#include "memory.hpp"
#include "options.hpp"
#include "path.hpp"

namespace gaudi::perf {

using common::descriptor;
using common::oob_channel;
using common::peer_failure;

/// One measurement of one size.
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
};

step step_for(const plan& p, std::size_t size);

/// The two sides of a run. Both call the same functions with the same steps; only the client's
/// results are meant to be read. With check every operation of a measurement carries bytes of its
/// own, which the receiving side compares; a difference is a failure on the side that finds it.
class session {
 public:
  session(endpoint& ep, oob_channel& oob, bool client);

  /// Takes two buffers of `capacity` bytes (one to send or be read from, one to receive or be
  /// written to) and tells the peer where they are.
  void use_memory(memory_kind kind, std::size_t capacity);

  measurement run(const step& s);

 private:
  struct peer_memory {
    remote_memory tx;
    remote_memory rx;
  };

  // Patterns differ by the direction of the bytes and by the side of the measurement they belong
  // to.
  enum class phase : unsigned { latency = 0, stream = 2 };
  common::pattern outgoing(const step& s, phase p, std::uint64_t i) const;
  common::pattern incoming(const step& s, phase p, std::uint64_t i) const;
  void verify(const step& s, phase p, std::uint64_t i, const buffer& where,
              std::size_t slot) const {
    verify_at(s, p, i, where, slot * s.size);
  }
  void verify_at(const step& s, phase p, std::uint64_t i, const buffer& where,
                 std::size_t offset) const;
  std::string path_since(const path_bytes& before);

  // pages.cpp
  measurement run_pages(const step& s);
  double page_batch(const step& s, std::uint64_t turn, std::vector<ticket>& tickets);
  double one_piece(const step& s);
  void post_page(const step& s, std::size_t page, ticket& done);
  [[nodiscard]] std::size_t place_of_page(const step& s, std::size_t page, bool acts) const;

  std::vector<double> message_latency(const step& s, std::uint64_t count);
  std::vector<double> rma_latency(const step& s, std::uint64_t count);
  bool streams_on(const step& s, double elapsed);
  double message_stream(const step& s, std::uint64_t count);
  double rma_stream(const step& s, std::uint64_t count);
  double message_burst(const step& s, std::uint64_t first, std::uint64_t count);
  double rma_burst(const step& s, std::uint64_t first, std::uint64_t count);
  void fill_burst(const step& s, std::uint64_t first, std::uint64_t count);
  void verify_burst(const step& s, std::uint64_t first, std::uint64_t count) const;

  void post_send(const step& s, std::size_t slot, ticket& done);
  void post_receive(const step& s, std::size_t slot, ticket& done);
  void post_rma(const step& s, std::size_t slot, ticket& done);
  void finish_receive(const step& s, const ticket& done);

  endpoint& ep_;
  oob_channel& oob_;
  const bool client_;
  buffer control_;  // two bytes: an acknowledgement to send, one to receive
  std::unique_ptr<buffer> tx_;
  std::unique_ptr<buffer> rx_;
  peer_memory peer_{};
};

/// Opens an endpoint, exchanges addresses and keeps both sides polling while they wait.
void connect(endpoint& ep, oob_channel& oob);

}  // namespace gaudi::perf
