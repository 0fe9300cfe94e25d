// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace gaudi::perf {

enum class operation { send, tagged, write, read };

enum class memory_kind { host, device };

constexpr bool is_rma(operation op) {
  return op == operation::write || op == operation::read;
}
const char* name_of(operation op);
const char* name_of(memory_kind kind);

/// What both sides do; the client decides and sends it to the server.
struct plan {
  operation op = operation::tagged;
  std::vector<std::size_t> sizes;  ///< bytes, each at least 1
  std::uint64_t iterations = 0;    ///< per size, pair and measurement; 0: chosen by size
  std::uint64_t warmup = 0;        ///< as iterations
  std::uint64_t window = 16;       ///< operations in flight when streaming, of each pair
  std::size_t pairs = 1;           ///< of endpoints, all of which do the same
  std::size_t threads = 1;         ///< of each side, among which the pairs are divided
  std::uint64_t pages = 0;         ///< of an operation, all in flight; 0: it is one piece
  double duration = 0;             ///< seconds that each size streams at least; 0: once
  bool bidirectional = false;
  bool check = false;
  bool stalls = false;  ///< time those of the stream
};

std::uint64_t iterations_for(const plan& p, std::size_t size);
std::uint64_t warmup_for(const plan& p, std::size_t size);

/// Messages of `size` that have a place of their own in a buffer: at least the window where that
/// fits into the memory limit of all pairs, else as many as do, never fewer than 2.
std::size_t slots_for(const plan& p, std::size_t size);

void to_json(nlohmann::json& j, const plan& p);
void from_json(const nlohmann::json& j, plan& p);

struct options {
  plan work;
  memory_kind memory = memory_kind::host;
  std::optional<std::string> device;  ///< value for FI_GAUDI_DEVICE
  std::string provider = "gaudi";
  std::string server;  ///< empty: this side is the server
  std::uint16_t port = 18515;
  std::chrono::seconds timeout{60};
  bool json = false;
  bool csv = false;
  bool tour = false;
  std::string plot;                  ///< the SVG file to draw; empty: none
  std::vector<std::string> overlay;  ///< files of earlier runs to draw in it
  bool plot_only = false;            ///< draw these, and measure nothing
};

/// Parses the command line. A return value means that the program ends with it (help, an error that
/// has been reported); `out` is complete otherwise.
std::optional<int> parse(int argc, char** argv, options& out);

}  // namespace gaudi::perf
