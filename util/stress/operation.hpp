// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace gaudi::stress {

/// What a worker asks of a peer; the names are those of libfabric's calls.
enum class operation : unsigned {
  send,
  inject,
  senddata,
  tsend,
  tinject,
  tsenddata,
  write,
  writedata,
  read,
  atomic,
  fetch,
  compare
};

inline constexpr std::array<std::string_view, 12> operation_names{
    "send",  "inject",    "senddata", "tsend",  "tinject", "tsenddata",
    "write", "writedata", "read",     "atomic", "fetch",   "compare"};

/// How the target takes a message; the names are those of libfabric's flags. Whichever it is, none
/// of those but `plain` and `multi` is posted before the message has come.
enum class receive_mode : unsigned {
  plain,
  peek,           ///< FI_PEEK, then as plain
  claim,          ///< FI_PEEK | FI_CLAIM, then FI_CLAIM
  discard,        ///< FI_PEEK | FI_DISCARD: its bytes go nowhere
  claim_discard,  ///< FI_PEEK | FI_CLAIM, then FI_CLAIM | FI_DISCARD
  multi           ///< with others of its sender into one buffer, FI_MULTI_RECV
};

enum class memory_kind : unsigned { host, device };
inline constexpr std::array kinds{memory_kind::host, memory_kind::device};

constexpr std::size_t index_of(operation op) {
  return static_cast<std::size_t>(op);
}
constexpr std::size_t index_of(memory_kind kind) {
  return static_cast<std::size_t>(kind);
}
constexpr std::string_view name_of(operation op) {
  return operation_names.at(index_of(op));
}
constexpr bool is_message(operation op) {
  return op <= operation::tsenddata;
}
constexpr bool is_tagged(operation op) {
  return op >= operation::tsend && op <= operation::tsenddata;
}
constexpr bool is_untagged(operation op) {
  return op <= operation::senddata;
}
constexpr bool is_injected(operation op) {
  return op == operation::inject || op == operation::tinject;
}
constexpr bool has_data(operation op) {
  return op == operation::senddata || op == operation::tsenddata || op == operation::writedata;
}
constexpr bool is_peeked(receive_mode mode) {
  return mode != receive_mode::plain && mode != receive_mode::multi;
}
constexpr bool is_claimed(receive_mode mode) {
  return mode == receive_mode::claim || mode == receive_mode::claim_discard;
}
constexpr bool is_discarded(receive_mode mode) {
  return mode == receive_mode::discard || mode == receive_mode::claim_discard;
}
constexpr bool is_atomic(operation op) {
  return op >= operation::atomic;
}

}  // namespace gaudi::stress
