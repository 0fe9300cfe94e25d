// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

namespace gaudi::test {

/// What became of a run in which an allocation failed. The numbers are exit codes.
enum class outcome {
  done = 0,      // without it
  refused = 10,  // a call or a completion said so
  wrong = 12,    // bytes are not what was sent, or an error is none that a lack of memory explains
  stuck = 13,    // an operation never ended
};

struct variant {
  bool from_device = false;  // the first side has memory of a device, else the host's
  bool to_device = false;    // the second
  bool automatic = false;    // FI_PROGRESS_AUTO: a thread of the provider's needs memory as well
};

/// fi_getinfo to fi_close: two endpoints of this process connect, send short and long tagged
/// messages, write, read and fetch. Everything is closed whatever failed.
outcome run_traffic(variant how);

/// Of two endpoints that share their receives: messages before there is a connection, buffers for
/// many, counters. With device memory: from a pool to another device.
outcome run_objects_traffic(variant how);

/// The same as run_traffic() of two connected endpoints (FI_EP_MSG), with memory of the host.
outcome run_connected_traffic();

/// What a run is that returned this: 0, a negative FI_E*, or 1 for wrong bytes.
outcome outcome_of(int ret);

// For functions that return such a number.
#define OR_RETURN(call)                                  \
  do {                                                   \
    const auto returned = (call);                        \
    if (returned < 0) return static_cast<int>(returned); \
  } while (0)

}  // namespace gaudi::test
