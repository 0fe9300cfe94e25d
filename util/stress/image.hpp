// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plan.hpp"

namespace gaudi::stress {

/// One round, as all workers know it.
struct round_plan {
  std::uint64_t seed = 0;
  std::uint64_t round = 0;
  std::vector<planned> operations;
};

/// The tag and the remote data of an operation.
inline std::uint64_t message_id(const round_plan& plan, std::size_t number) {
  return (plan.round << 20U) | number;
}

/// A worker's memory of one kind, as far as a round uses it and some bytes more: what it holds
/// before a round, and what it has to hold afterwards. Bytes that no operation touches have values
/// of their own as well, so that a byte that goes astray is found wherever it lands.
class image {
 public:
  image(const round_plan& plan, unsigned worker, memory_kind kind);

  /// To be stored before the round.
  std::span<const std::byte> before() const { return before_; }

  /// Has the bytes be what a completed operation leaves in this memory, at the initiator or the
  /// target; `at` is where a message was received. Nothing where that is memory of another kind.
  void expect_near(std::size_t number);
  void expect_far(std::size_t number) { expect_far(number, plan_.operations[number].far); }
  void expect_far(std::size_t number, const place& at);

  /// Any bytes will do: of an operation that failed.
  void ignore(const place& at);

  /// Changes a byte that an operation sends, and takes it for right here.
  void corrupt(std::size_t number);

  /// The first byte that is wrong, in words.
  std::optional<std::string> find_difference(std::span<std::byte> actual) const;

 private:
  void put(const place& at, const std::vector<std::uint64_t>& values);
  void put_payload(std::size_t number, std::size_t offset, std::vector<std::byte>& bytes) const;
  std::string describe(std::size_t offset) const;

  const round_plan& plan_;
  unsigned worker_;
  memory_kind kind_;
  std::vector<std::byte> before_;
  std::vector<std::byte> after_;
  std::vector<place> ignored_;
};

/// "tsend of 4096 bytes from worker 1 to worker 0 (round 3, operation 17)".
std::string describe(const round_plan& plan, std::size_t number);

}  // namespace gaudi::stress
