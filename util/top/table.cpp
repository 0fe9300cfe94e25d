// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "latencies.hpp"

namespace gaudi::top {
namespace {

constexpr std::size_t half = 39;
// So that a server of eight Gaudis and eight NICs leaves room for its processes in 24 lines.
constexpr std::size_t max_total_rows = 8;
// With their heading.
constexpr std::size_t min_process_rows = 5;

/// Cut to `width`, with a mark where something is missing.
std::string fit(const std::string& text, std::size_t width) {
  return text.size() <= width ? text : text.substr(0, width - 1) + "+";
}

/// Values per second as short numbers, or a dash where there is nothing to compare with.
class per_second {
 public:
  explicit per_second(const changes& all) : seconds_(all.seconds) {}
  std::string operator()(std::uint64_t counted) const {
    return seconds_ ? short_number(static_cast<double>(counted) / *seconds_) : "-";
  }

 private:
  std::optional<double> seconds_;
};

std::string percent(double part) {
  return fmt::format("{:.0f}", 100 * part);
}

value_list sum_of(const std::vector<total>& totals) {
  value_list sum{};
  for (const total& t : totals)
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += t.counted[i];
  return sum;
}

/// "3 processes"
std::string count_text(std::size_t count, const char* one, const char* many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

std::string paths_text(const value_list& counted) {
  const path_shares s = shares_of(counted);
  std::string text;
  for (const auto& [part, name] :
       {std::pair{s.zero_copy, "zero-copy"}, std::pair{s.direct, "direct"},
        std::pair{s.staged, "staged"}, std::pair{s.eager, "eager"}, std::pair{s.local, "local"}})
    if (part >= 0.005) text += fmt::format("  {} {}%", name, percent(part));
  return text;
}

void add_summary(std::vector<line>& to, const sample& now, const changes& all,
                 const std::string& clock, const std::vector<total>& nics) {
  const per_second rate(all);
  const value_list sum = sum_of(nics);
  const auto domains =
      std::count_if(all.subjects.begin(), all.subjects.end(),
                    [](const change& one) { return one.now->kind == block_kind::domain; });
  std::string every;
  if (all.seconds) every = fmt::format(", of the last {:.3g} s", *all.seconds);
  to.push_back({fmt::format(
      "gaudi_top - {}  {}, {}{}", clock, count_text(now.processes.size(), "process", "processes"),
      count_text(static_cast<std::size_t>(domains), "domain", "domains"), every)});
  to.push_back({fmt::format("{}B/s  {} op/s  {} stalls/s{}", rate(bytes_of(sum)),
                            rate(operations_of(sum)), rate(stalls_of(sum)), paths_text(sum))});
}

/// What became of connections since the processes began, where something did: rails, and those that
/// were interrupted. All of it fits 79 columns.
void add_links(std::vector<line>& to, const changes& all, const value_list& counted) {
  value_list ever{};
  for (const change& one : all.subjects)
    if (one.now->kind == block_kind::domain)
      for (std::size_t i = 0; i < ever.size(); ++i) ever[i] += one.now->values[i];
  const auto text = [](std::uint64_t value) { return short_number(static_cast<double>(value)); };
  std::string rails;
  if (get(ever, "rails_made") != 0) {
    rails = fmt::format("rails {} made, {} lost", text(get(ever, "rails_made")),
                        text(get(ever, "rails_lost")));
    if (bytes_of(counted) != 0)
      rails += fmt::format(", {}% of B/s", percent(static_cast<double>(get(counted, "rail_bytes")) /
                                                   static_cast<double>(bytes_of(counted))));
  }
  std::string interrupted;
  if (get(ever, "connections_interrupted") != 0)
    interrupted = fmt::format("sessions {} interrupted, {} resumed",
                              text(get(ever, "connections_interrupted")),
                              text(get(ever, "connections_resumed")));
  if (!rails.empty() || !interrupted.empty())
    to.push_back({fmt::format("{:<{}} {}", rails, half, interrupted)});
  const auto packets = get(ever, "packets_again");
  const auto rma = get(ever, "rma_again");
  if (packets != 0 || rma != 0)
    to.push_back(
        {fmt::format("retransmitted: {} packets, {} RMA operations", text(packets), text(rma))});
}

/// Where several kinds of machine are to be compared, devices are told apart by their index.
std::string device_row(const total& t, const per_second& rate) {
  const auto value = [&](device_value which) { return rate(get_of_device(t.counted, which)); };
  return fmt::format("{:<11}{:>7}{:>7}{:>7}{:>7}",
                     t.number >= 0 ? fmt::format("gaudi{}", t.number) : fit(t.name, 11),
                     value("host_to_device_bytes"), value("device_to_host_bytes"),
                     value("device_to_device_bytes"), value("zero_copy_bytes"));
}

std::string nic_row(const total& t, const per_second& rate) {
  return fmt::format("{:<15}{:>4}{:>7}{:>7}{:>7}", fit(t.name, 15),
                     short_number(static_cast<double>(get(t.levels, "endpoints"))),
                     rate(bytes_of(t.counted)), rate(operations_of(t.counted)),
                     rate(stalls_of(t.counted)));
}

/// Part of what its domains' rows have. In place of endpoints: the peers that it goes to.
std::string rail_row(const total& t, const per_second& rate) {
  return fmt::format(
      "{:<15}{:>4}{:>7}{:>7}{:>7}", fit(fmt::format("+ {} {}", t.number, t.name), 15),
      short_number(static_cast<double>(get_of_rail(t.levels, "up"))),
      rate(get_of_rail(t.counted, "bytes")), rate(get_of_rail(t.counted, "ops")), "");
}

template <class Row>
std::vector<std::string> rows_of(const std::vector<total>& totals, const std::string& heading,
                                 Row row) {
  std::vector<std::string> rows{heading};
  for (const total& t : totals) {
    if (rows.size() == max_total_rows && totals.size() > max_total_rows) {
      rows.push_back(fmt::format("{} more", totals.size() + 1 - rows.size()));
      break;
    }
    rows.push_back(row(t));
  }
  return rows;
}

void add_totals(std::vector<line>& to, const std::vector<total>& devices,
                const std::vector<total>& nics, const per_second& rate) {
  const auto left =
      rows_of(devices,
              fmt::format("{:<11}{:>7}{:>7}{:>7}{:>7}", "GAUDI  B/s", "H2D", "D2H", "D2D", "ZCOPY"),
              [&](const total& t) { return device_row(t, rate); });
  const auto right =
      rows_of(nics, fmt::format("{:<15}{:>4}{:>7}{:>7}{:>7}", "NIC", "EPS", "B/s", "OP/s", "STALL"),
              [&](const total& t) {
                return t.kind == block_kind::rail ? rail_row(t, rate) : nic_row(t, rate);
              });
  for (std::size_t i = 0; i < std::max(left.size(), right.size()); ++i)
    to.push_back({fmt::format("{:<{}} {}", i < left.size() ? left[i] : "", half,
                              i < right.size() ? right[i] : ""),
                  i == 0});
}

std::string latency_text(const operation_latency& one) {
  const auto bound = [&](double part) {
    return duration_text(quantile_of(one.times, part).value_or(0));
  };
  return fmt::format("{:<18}{:>7}{:>7}{:>7}", operation_name(one.number), bound(0.5), bound(0.99),
                     bound(1));
}

/// Two kinds of operations in a line; none of it where processes would have no room.
void add_latencies(std::vector<line>& to, const changes& all, frame_size size) {
  const auto found = latencies_of(all);
  const std::size_t height = (found.size() + 1) / 2 + 2;
  if (found.empty() || to.size() + height + min_process_rows > size.rows) return;
  const std::string heading = fmt::format("{:<18}{:>7}{:>7}{:>7}", "LATENCY", "P50", "P99", "MAX");
  to.push_back({fmt::format("{} {}", heading, found.size() > 1 ? heading : ""), true});
  for (std::size_t i = 0; i < found.size(); i += 2)
    to.push_back({fmt::format("{} {}", latency_text(found[i]),
                              i + 1 < found.size() ? latency_text(found[i + 1]) : "")});
  to.push_back({""});
}

std::string process_heading(std::size_t spare) {
  return fmt::format("{:>7} {:<{}} {:<9}{:>4}{:>7}{:>7}{:>4}{:>4}{:>4}{:>4}{:>4}{:>6}{:>6}", "PID",
                     "COMMAND", 11 + spare, "NIC", "EPS", "B/s", "OP/s", "ZC%", "DI%", "ST%", "EA%",
                     "LO%", "HIT%", "STALL");
}

std::string process_row(const change& one, const per_second& rate, std::size_t spare) {
  const value_list& counted = one.counted;
  const bool has_moved = bytes_of(counted) != 0;
  const path_shares s = shares_of(counted);
  const auto share = [&](double part) { return has_moved ? percent(part) : std::string("-"); };
  // The rate of late, or where nothing was looked up, of all time.
  auto hits = hit_rate_of(counted);
  if (!hits) hits = hit_rate_of(one.now->values);
  return fmt::format(
      "{:>7} {:<{}} {:<9}{:>4}{:>7}{:>7}{:>4}{:>4}{:>4}{:>4}{:>4}{:>6}{:>6}", one.owner->pid,
      fit(one.owner->counters.command, 11 + spare), 11 + spare, fit(one.now->name, 9),
      short_number(static_cast<double>(get(one.now->values, "endpoints"))), rate(bytes_of(counted)),
      rate(operations_of(counted)), share(s.zero_copy), share(s.direct), share(s.staged),
      share(s.eager), share(s.local), hits ? percent(*hits) : "-", rate(stalls_of(counted)));
}

std::vector<const change*> busiest_domains(const changes& all) {
  std::vector<const change*> domains;
  for (const change& one : all.subjects)
    if (one.now->kind == block_kind::domain) domains.push_back(&one);
  std::stable_sort(domains.begin(), domains.end(), [](const change* a, const change* b) {
    return bytes_of(a->counted) > bytes_of(b->counted);
  });
  return domains;
}

void add_processes(std::vector<line>& to, const changes& all, frame_size size) {
  const per_second rate(all);
  const std::size_t spare = size.columns > 80 ? std::min<std::size_t>(size.columns - 80, 4) : 0;
  to.push_back({process_heading(spare), true});
  const auto domains = busiest_domains(all);
  const std::size_t room = size.rows > to.size() ? size.rows - to.size() : 0;
  const bool fits = domains.size() <= room;
  const std::size_t shown = fits ? domains.size() : (room == 0 ? 0 : room - 1);
  for (std::size_t i = 0; i < shown; ++i) to.push_back({process_row(*domains[i], rate, spare)});
  if (!fits && room != 0)
    to.push_back({fmt::format("{:>7} {} more in a taller window, or with --pid or --json", "",
                              domains.size() - shown)});
}

}  // namespace

std::string short_number(double value) {
  static constexpr std::array units{"", "k", "M", "G", "T", "P", "E"};
  std::size_t unit = 0;
  // 999.5 would be written as 1000.
  while (value >= 999.5 && unit + 1 < units.size()) {
    value /= 1000;
    ++unit;
  }
  const bool is_whole = unit == 0 && value == std::floor(value);
  return fmt::format("{:.{}f}{}", value, value < 9.95 && !is_whole ? 1 : 0, units[unit]);
}

std::vector<line> frame_of(const sample& now, const changes& all, const std::string& clock,
                           frame_size size) {
  std::vector<line> lines;
  auto nics = totals_of(all, block_kind::domain);
  add_summary(lines, now, all, clock, nics);
  add_links(lines, all, sum_of(nics));
  const auto rails = totals_of(all, block_kind::rail);
  nics.insert(nics.end(), rails.begin(), rails.end());
  lines.push_back({""});
  if (now.processes.empty()) {
    lines.push_back({"No process shows its counters to this user. Root sees those of all users."});
  } else {
    add_totals(lines, totals_of(all, block_kind::device), nics, per_second(all));
    lines.push_back({""});
    add_latencies(lines, all, size);
    add_processes(lines, all, size);
  }
  if (lines.size() > size.rows) lines.resize(size.rows);
  for (line& l : lines) {
    if (l.text.size() > size.columns) l.text.resize(size.columns);
    l.text.resize(l.text.find_last_not_of(' ') + 1);
  }
  return lines;
}

}  // namespace gaudi::top
