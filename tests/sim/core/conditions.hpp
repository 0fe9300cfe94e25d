// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <rdma/fi_errno.h>

#include <cstddef>
#include <cstdint>

namespace gaudi::sim {

using nanoseconds = std::uint64_t;

struct delay {
  nanoseconds least = 1'000;
  nanoseconds most = 20'000;
};

/// How the simulated core provider and its network behave. Chances are per thousand.
struct conditions {
  /// As verbs: buffers need descriptors, the NIC reads them until the peer has acknowledged, and an
  /// operation ends with that. Else as tcp: data is the kernel's from its departure on, which ends
  /// the operation.
  bool rdma = false;
  /// As tcp: what arrives is carried out when the process next looks at its core.
  bool by_progress = false;
  /// As tcp before libfabric 1.18, over which nothing may be read.
  bool reads_badly = false;
  std::size_t inject_size = 64;
  std::size_t completions = 1024;  // that a queue has room for, with operations under way
  unsigned refused_posts = 0;      // -FI_EAGAIN
  nanoseconds max_look = 0;        // that the core takes to tell what it has
  delay departure{};               // as tcp: from post to kernel
  delay flight{};
  delay acknowledged{};  // from delivery to the end of the operation
  delay connecting{};    // of each step of the handshake
  delay notice{};        // of the end of a connection
  /// With RDMA: until what a peer wrote by another NIC than the first is in memory.
  delay placement{0, 200'000};
  unsigned refused_sharing = 0;  // calls of the kernel to share memory
  unsigned denied_memory = 0;    // accesses to another process's, which was open at first
  unsigned forged = 0;           // packets of a host that is not honest
  unsigned composed = 0;         // of that host's, new ones in their place
  std::size_t favourite = 0;     // packet_forger::compose
  unsigned lost_writers = 0;     // connections of such a NIC, soon after a write has come by it
  /// The endpoints keep sessions: the loss of a connection is no reason for a failure.
  bool sessions = false;
  /// What is on its way when a connection is lost can still arrive, as long as the other end is
  /// open.
  bool late_data = false;
  // Over a stream, what a request that is lost with its link ends with: anything that errno was.
  int lost_request = FI_ECONNRESET;
  /// What arrives at a closed end makes the kernel drop what the closed end had sent (RST).
  bool reset_by_late_data = false;
};

}  // namespace gaudi::sim
