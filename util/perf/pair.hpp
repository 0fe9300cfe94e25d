// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <memory>

#include "common/oob.hpp"
#include "endpoint.hpp"
#include "memory.hpp"
#include "step.hpp"

namespace gaudi::perf {

using common::oob_channel;

/// This side's end of a pair of endpoints: the endpoint, memory to send from and to receive into,
/// and the operations between it and the peer's. One thread at a time. With check every operation
/// of a measurement carries bytes of its own, of no other pair either.
class pair {
 public:
  pair(const endpoint_request& request, unsigned number, bool client);

  endpoint& ep() { return ep_; }
  bool is_client() const { return client_; }
  std::size_t number() const { return number_; }

  /// Both sides call these two, pair after pair.
  void connect(oob_channel& oob);
  /// Takes two buffers of `capacity` bytes (one to send or be read from, one to receive or be
  /// written to) and tells the peer where they are.
  void use_memory(memory_kind kind, std::size_t capacity, oob_channel& oob);

  /// As the endpoint's operations, false where there is no room.
  [[nodiscard]] bool post_send(const step& s, std::size_t slot, ticket& done);
  [[nodiscard]] bool post_receive(const step& s, std::size_t slot, ticket& done);
  /// The write or read between the two places.
  [[nodiscard]] bool post_rma(const step& s, std::size_t here, std::size_t there, ticket& done,
                              bool more = false);
  /// An acknowledgement of one byte.
  [[nodiscard]] bool post_ack(ticket& done);
  [[nodiscard]] bool await_ack(ticket& done);

  /// The bytes of operation `i`, at an offset in the buffer. A difference is a failure.
  void fill(const step& s, phase p, std::uint64_t i, std::size_t offset);
  void verify(const step& s, phase p, std::uint64_t i, std::size_t offset) const;

 private:
  struct peer_memory {
    remote_memory tx;
    remote_memory rx;
  };

  [[nodiscard]] common::pattern bytes_of(const step& s, phase p, std::uint64_t i,
                                         bool of_client) const;

  endpoint ep_;
  const unsigned number_;
  const bool client_;
  buffer control_;  // two bytes: an acknowledgement to send, one to receive
  std::unique_ptr<buffer> tx_;
  std::unique_ptr<buffer> rx_;
  peer_memory peer_{};
};

/// Fails where fewer or more bytes arrived than were sent.
void expect_length(const step& s, const ticket& received);

}  // namespace gaudi::perf
