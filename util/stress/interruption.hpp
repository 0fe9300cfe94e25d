// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

namespace gaudi::stress {

/// While one lives, the first SIGINT or SIGTERM of the process is only remembered; the second one
/// ends it. One at a time.
class interruption {
 public:
  interruption() noexcept;
  ~interruption();
  interruption(const interruption&) = delete;
  interruption& operator=(const interruption&) = delete;

  [[nodiscard]] bool has_come() const noexcept;
};

/// For workers: the terminal's SIGINT reaches them, too, but who leads them decides what it means.
void leave_interruptions_to_leader() noexcept;

}  // namespace gaudi::stress
