// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstdint>

namespace gaudi::base {

/// Where random numbers come from: the kernel, or the seed of a test. A copy draws from the same
/// source. Not for hot paths: each number of the kernel's is a system call.
class random_source {
 public:
  /// Numbers of a test's. It outlives all copies of what is made from it.
  class source {
   public:
    virtual std::uint64_t next() noexcept = 0;

   protected:
    ~source() = default;
  };

  /// The kernel's.
  random_source() noexcept = default;
  explicit random_source(source& seeded) noexcept : source_(&seeded) {}

  /// Any 64 bits.
  [[nodiscard]] std::uint64_t next() const noexcept {
    return source_ ? source_->next() : from_kernel();
  }

 private:
  static std::uint64_t from_kernel() noexcept;

  source* source_ = nullptr;
};

}  // namespace gaudi::base
