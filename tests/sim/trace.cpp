// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "sim/trace.hpp"

#include <algorithm>
#include <cstdio>

namespace gaudi::sim {
namespace {

constexpr std::size_t column = 30;

std::string lifelines(unsigned nodes) {
  std::string row((nodes - 1) * column + 1, ' ');
  for (unsigned n = 0; n < nodes; ++n) row[n * column] = '|';
  return row;
}

void put(std::string& row, std::size_t at, const std::string& text) {
  if (row.size() < at + text.size()) row.resize(at + text.size(), ' ');
  row.replace(at, text.size(), text);
}

void draw_arrow(std::string& row, unsigned from, unsigned to, const std::string& text) {
  const std::size_t left = std::min(from, to) * column;
  const std::size_t right = std::max(from, to) * column;
  for (std::size_t at = left + 1; at < right; ++at) row[at] = '-';
  (from < to ? row[right - 1] : row[left + 1]) = from < to ? '>' : '<';
  if (text.size() + 4 <= right - left) {
    put(row, left + 3, text);
  } else {
    row += "  " + text;
  }
}

}  // namespace

std::string trace::diagram(unsigned nodes, std::size_t most) const {
  std::string out = "    time/us  ";
  std::string names = lifelines(nodes);
  for (unsigned n = 0; n < nodes; ++n) names[n * column] = static_cast<char>('A' + n);
  out += names + "\n";
  const std::size_t left_out = lines_.size() > most ? lines_.size() - most : 0;
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    if (left_out != 0 && i == most / 2) {
      out += "             (" + std::to_string(left_out) + " lines)\n";
      i += left_out;
    }
    const line& l = lines_[i];
    char when[32];
    std::snprintf(when, sizeof when, "%11.3f  ", static_cast<double>(l.when) / 1000);
    std::string row = lifelines(nodes);
    if (l.from == l.to) {
      put(row, l.from * column + 2, l.text);
    } else {
      draw_arrow(row, l.from, l.to, l.text);
    }
    out += when + row + "\n";
  }
  return out;
}

}  // namespace gaudi::sim
