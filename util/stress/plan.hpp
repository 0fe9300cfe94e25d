// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "operation.hpp"
#include "settings.hpp"

namespace gaudi::stress {

/// A range of a worker's memory.
struct place {
  memory_kind memory = memory_kind::host;
  std::size_t offset = 0;
  std::size_t size = 0;
};

/// One operation of a round. Its number is its index in the plan.
struct planned {
  operation op = operation::send;
  unsigned initiator = 0;
  unsigned target = 0;
  receive_mode mode = receive_mode::plain;  ///< of a message, at the target
  std::size_t size = 0;
  place near{};  ///< at the initiator: what is sent, written, read into, or an atomic's operand
  /// At the target: received into, written, read, or an atomic's target. Messages of mode `multi`
  /// of one sender have the place of both their buffers in common.
  place far{};
  place result{};    ///< at the initiator: what fetch and compare give
  place spare{};     ///< at the target: received into when the device of `far` is lost
  place compared{};  ///< at the initiator: what compare compares with
};

/// What a plan has to know of a worker.
struct member {
  bool device = false;     ///< has device memory
  std::size_t inject = 0;  ///< bytes that its endpoint injects
};

enum class fault_kind { none, kill, close, reset };
NLOHMANN_JSON_SERIALIZE_ENUM(fault_kind, {{fault_kind::none, nullptr},
                                          {fault_kind::kill, "kill"},
                                          {fault_kind::close, "close"},
                                          {fault_kind::reset, "reset"}})

/// What goes wrong in a round, on purpose.
struct fault {
  fault_kind kind = fault_kind::none;
  unsigned victim = 0;
};

/// Bytes of each kind of memory that a worker has.
std::size_t capacity_for(const settings& s);

/// Where all atomic sums into a worker's memory of a kind go; their elements are of 8 bytes.
place shared_sums(memory_kind kind);

/// The two buffers in which all messages of mode `multi` of one sender have room. Messages fill the
/// first one to its end, unless that is cancelled; the second one takes what is left.
std::array<place, 2> multi_buffers(const place& all);

/// A buffer takes no more once fewer bytes than these are left in it: so no message is cut.
std::size_t min_multi_receive(const std::vector<planned>& operations);

/// The operations of a round: the same for everyone who asks with the same arguments. No two of
/// them touch the same memory, but for atomic sums and buffers that take many messages. In a round
/// with a reset the victim's untagged messages are in host memory: of those that the device took
/// with it nobody could tell which.
std::vector<planned> plan_round(const settings& s, const std::vector<member>& members,
                                std::uint64_t round, const fault& f);

}  // namespace gaudi::stress
