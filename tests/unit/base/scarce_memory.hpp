// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

namespace gaudi::test {

/// While it lives, operator new of this thread succeeds as often as it says, and no more. One at a
/// time.
class scarce_memory {
 public:
  explicit scarce_memory(long allocations) noexcept;
  ~scarce_memory();
  scarce_memory(const scarce_memory&) = delete;
  scarce_memory& operator=(const scarce_memory&) = delete;
};

}  // namespace gaudi::test
