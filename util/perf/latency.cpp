// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// One operation at a time.
#include <array>

#include "session.hpp"

namespace gaudi::perf {

// Ping-pong. The answer's receive is posted before its question leaves, so no message is
// unexpected. Half of the round trip is reported. When checking, filling and comparing happen
// between round trips, and both sides meet before each so that the other's work is not in the time.
std::vector<double> session::message_latency(const step& s, std::uint64_t count) {
  std::vector<double> times;
  std::array<ticket, 2> received;
  ticket sent;
  post_receive(s, 0, received[0]);
  oob_.barrier();
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::size_t slot = i % 2;
    const bool last = i + 1 == count;
    if (s.check) {
      tx_->fill(outgoing(s, phase::latency, i), 0, s.size);
      oob_.barrier();
    }
    if (client_) {
      const common::stopwatch watch;
      post_send(s, 0, sent);
      finish_receive(s, received[slot]);
      times.push_back(watch.microseconds() / 2);
      ep_.wait(sent, "a send");
      if (!last) post_receive(s, 1 - slot, received[1 - slot]);
    } else {
      finish_receive(s, received[slot]);
      if (!last) post_receive(s, 1 - slot, received[1 - slot]);
      post_send(s, 0, sent);
      ep_.wait(sent, "a send");
    }
    if (s.check) verify(s, phase::latency, i, *rx_, slot);
  }
  oob_.barrier();
  return times;
}

// One-sided: the client acts, the server only polls. The time is that to the completion, which for
// a write says that the bytes are visible at the target.
std::vector<double> session::rma_latency(const step& s, std::uint64_t count) {
  const bool i_receive = client_ == (s.op == operation::read);
  std::vector<double> times;
  ticket done;
  oob_.barrier();
  for (std::uint64_t i = 0; i < count; ++i) {
    if (s.check) {
      if (!i_receive) tx_->fill(outgoing(s, phase::latency, i), 0, s.size);
      oob_.barrier();
    }
    if (client_) {
      const common::stopwatch watch;
      post_rma(s, 0, done);
      ep_.wait(done, name_of(s.op));
      times.push_back(watch.microseconds());
    }
    if (s.check) {
      oob_.barrier();
      if (i_receive) verify(s, phase::latency, i, *rx_, 0);
    }
  }
  oob_.barrier();
  return times;
}

}  // namespace gaudi::perf
