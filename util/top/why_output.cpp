// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/path_reasons.hpp"
#include "table.hpp"
#include "why.hpp"
#include "why_call.hpp"
#include "why_peer.hpp"

namespace gaudi::top {
namespace {

namespace outstanding = base::outstanding;
using outstanding::record;

template <std::size_t Size>
std::string_view name_at(const std::array<std::string_view, Size>& names, std::size_t at) {
  return at < Size ? names[at] : "unknown";
}

std::string_view type_of(const record& r) {
  static constexpr std::array<std::string_view, 7> types{"other", "send",   "receive", "write",
                                                         "read",  "atomic", "served"};
  return name_at(types, r.type);
}

std::string_view path_of_record(const record& r) {
  static constexpr std::array<std::string_view, 7> paths{"-",      "direct", "staged", "shared",
                                                         "engine", "dmabuf", "packet"};
  return name_at(paths, static_cast<std::size_t>(r.path));
}

std::string_view reason_of_path(const record& r) {
  return base::text_of(
      static_cast<base::path_reason>(r.counts[outstanding::path_reason_code] & 0xFF));
}

/// A line for each path and reason that there is, in the order of the operations.
std::string reasons_text(const std::vector<record>& operations) {
  std::vector<std::string> lines;
  for (const record& r : operations) {
    if (reason_of_path(r).empty()) continue;
    std::string line = fmt::format("{:<8} {}\n", path_of_record(r), reason_of_path(r));
    if (std::find(lines.begin(), lines.end(), line) == lines.end())
      lines.push_back(std::move(line));
  }
  return lines.empty() ? ""
                       : fmt::format("\nPATH, and why no shorter one\n{}", fmt::join(lines, ""));
}

std::string_view state_of(const record& r) {
  static constexpr std::array<std::string_view, 9> states{"connecting", "accepting", "failed",
                                                          "connected",  "closing",   "lost",
                                                          "reconnect",  "reaccept",  "resuming"};
  return name_at(states, r.type);
}

/// Nothing for what never was.
std::string age_at(std::uint64_t at, std::uint64_t now) {
  return at == 0 ? "-" : age_text(now > at ? now - at : 0);
}

std::string cut(std::string text, std::size_t width) {
  if (text.size() > width) text = text.substr(0, width - 1) + "+";
  return text;
}

std::string operation_row(const record& r, std::uint64_t now) {
  return fmt::format("{:>7} {:<7} {:<6} {:>5} of {:>5} {:<22} {}\n", age_at(r.since, now),
                     type_of(r), path_of_record(r), short_number(static_cast<double>(r.done)),
                     short_number(static_cast<double>(r.total)), cut(address_text(r), 22),
                     name_of(r.wait));
}

std::string call_row(const record& r, std::uint64_t now) {
  return fmt::format("{:>7} {}\n", age_at(r.since, now), call_text(r));
}

std::string connection_row(const record& r, std::uint64_t now) {
  return fmt::format("{:>7} {:<10} {:>7} {:>6} {:>7} {:<21} {}\n", age_at(r.since, now),
                     state_of(r), r.counts[outstanding::data_credits],
                     r.counts[outstanding::queued_packets], age_at(r.seen, now),
                     cut(address_text(r), 21), name_of(r.wait));
}

constexpr std::size_t columns = 80;

/// In lines of 80 columns, broken at blanks; those behind the first are indented.
std::string folded(std::string text) {
  std::size_t start = 0;
  std::size_t indent = 0;
  while (text.size() - start > columns) {
    const std::size_t blank = text.rfind(' ', start + columns);
    if (blank == std::string::npos || blank <= start + indent) break;
    text.replace(blank, 1, "\n  ");
    start = blank + 1;
    indent = 2;
  }
  return text + "\n";
}

/// Of rows that differ in their age alone the first, which is the oldest, and how many there are.
template <class Row>
std::string rows_of(const std::vector<record>& all, std::uint64_t now, Row row) {
  constexpr std::size_t age_width = 7;
  std::string text;
  std::string shown;
  std::size_t alike = 0;
  const auto count = [&] {
    if (alike != 0) text += fmt::format("{:>7} more like this\n", std::exchange(alike, 0));
  };
  for (const record& r : all) {
    const std::string line = row(r, now);
    if (line.substr(age_width) == shown) {
      ++alike;
      continue;
    }
    count();
    text += line;
    shown = line.substr(age_width);
  }
  count();
  return text;
}

/// Those of the process that found no record.
std::size_t unlisted(const outstanding_view& p) {
  std::uint64_t all = 0;
  for (const record& e : p.endpoints) all += e.counts[outstanding::operations];
  return all > p.operations.size() ? all - p.operations.size() : 0;
}

nlohmann::json ages_of(const record& r, std::uint64_t now) {
  const auto seconds = [&](std::uint64_t at) {
    return at == 0 ? nlohmann::json(nullptr)
                   : nlohmann::json(static_cast<double>(now > at ? now - at : 0) / 1e9);
  };
  return {{"id", r.id},
          {"peer", address_text(r)},
          {"waits_for", name_of(r.wait)},
          {"age", seconds(r.since)},
          {"peer_heard", seconds(r.seen)}};
}

}  // namespace

std::string text_of(const evidence& known) {
  const outstanding_view& p = known.subject;
  std::string text = folded(verdict_of(known).text);
  if (!p.operations.empty())
    text += fmt::format("\n{:>7} {:<7} {:<6} {:>14} {:<22} {}\n", "AGE", "TYPE", "PATH",
                        "MOVED    BYTES", "PEER", "WAITS FOR");
  text += rows_of(p.operations, known.now, operation_row);
  if (const std::size_t more = unlisted(p); more != 0)
    text += fmt::format("{:>7} operations more\n", more);
  text += reasons_text(p.operations);
  if (!p.connections.empty())
    text += fmt::format("\n{:>7} {:<10} {:>7} {:>6} {:>7} {:<21} {}\n", "AGE", "CONNECTION",
                        "CREDITS", "QUEUED", "HEARD", "PEER", "WAITS FOR");
  text += rows_of(p.connections, known.now, connection_row);
  if (!p.calls.empty()) text += fmt::format("\n{:>7} {}\n", "AGE", "CALL INTO A DRIVER");
  text += rows_of(p.calls, known.now, call_row);
  return text;
}

std::string json_of(const evidence& known) {
  const outstanding_view& p = known.subject;
  const verdict found = verdict_of(known);
  auto operations = nlohmann::json::array();
  for (const record& r : p.operations) {
    nlohmann::json one = ages_of(r, known.now);
    one.update({{"type", type_of(r)},
                {"path", path_of_record(r)},
                {"path_reason", reason_of_path(r)},
                {"bytes", r.total},
                {"moved", r.done},
                {"device", r.device < 0 ? nlohmann::json(nullptr) : nlohmann::json(r.device)}});
    operations.push_back(std::move(one));
  }
  auto connections = nlohmann::json::array();
  for (const record& r : p.connections) {
    nlohmann::json one = ages_of(r, known.now);
    one.update({{"state", state_of(r)},
                {"credits", r.counts[outstanding::data_credits]},
                {"queued", r.counts[outstanding::queued_packets]},
                {"withheld", r.counts[outstanding::withheld_credits]}});
    connections.push_back(std::move(one));
  }
  auto calls = nlohmann::json::array();
  for (const record& r : p.calls) {
    const std::string nic = nic_of_call(r);
    calls.push_back({{"call", name_of_call(r)},
                     {"age", static_cast<double>(since(r.since, known.now)) / 1e9},
                     {"bytes", r.total},
                     {"device", r.device < 0 ? nlohmann::json(nullptr) : nlohmann::json(r.device)},
                     {"nic", nic.empty() ? nlohmann::json(nullptr) : nlohmann::json(nic)}});
  }
  return nlohmann::json{{"tool", "gaudi_top"},
                        {"version", GAUDI_TOP_VERSION},
                        {"pid", p.pid},
                        {"command", p.command},
                        {"culprit", found.culprit},
                        {"verdict", found.text},
                        {"operations", std::move(operations)},
                        {"unlisted", unlisted(p)},
                        {"unread", p.unread},
                        {"connections", std::move(connections)},
                        {"calls", std::move(calls)}}
      .dump();
}

}  // namespace gaudi::top
