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

/// fi_getinfo to fi_close: two endpoints of this process connect, send short and long tagged
/// messages, write, read and fetch, with memory of a device if `device`. Everything is closed
/// whatever failed.
outcome run_traffic(bool device);

}  // namespace gaudi::test
