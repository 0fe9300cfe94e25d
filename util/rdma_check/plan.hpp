// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

namespace gaudi::rdma_check {

enum class operation { send, write, write_imm, read };

const char* name_of(operation op);
/// All four, in the order in which they are checked.
const std::vector<operation>& all_operations();

/// What both sides do; the client decides and sends it to the server.
struct plan {
  std::vector<operation> operations;
  std::vector<std::size_t> sizes;  ///< bytes, each at least 1
  std::uint64_t iterations = 0;    ///< per size and measurement; 0: chosen by size
  bool out_of_range = false;       ///< at the end, write past the server's memory
};

void to_json(nlohmann::json& j, const plan& p);
/// A failure for a plan that cannot be carried out.
void from_json(const nlohmann::json& j, plan& p);

/// One row of the table: an operation of one size, in one direction.
struct step {
  operation op = operation::send;
  bool client_drives = true;  ///< the side that posts and measures
  std::size_t size = 0;       ///< bytes of one operation
  std::uint64_t iterations = 0;
  std::uint64_t number = 0;  ///< different for each step of a run
  std::size_t slots = 0;     ///< operations that have a place of their own in a buffer

  /// Which side the bytes come from; a send measured both ways has both.
  bool data_from_client() const { return client_drives != (op == operation::read); }
  /// The driver's operations consume receives of the other side.
  bool takes_receives() const { return op == operation::send || op == operation::write_imm; }
};

/// Sends run in both directions; the client does the rest.
std::vector<step> steps_of(const plan& p);

/// Bytes that outgoing data need, and incoming data again.
std::size_t capacity_of(const plan& p);

/// More operations than that are never in flight, nor between two verifications.
inline constexpr std::size_t max_slots = 64;

}  // namespace gaudi::rdma_check
