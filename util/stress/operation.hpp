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
constexpr bool is_atomic(operation op) {
  return op >= operation::atomic;
}

}  // namespace gaudi::stress
