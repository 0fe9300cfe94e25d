// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/gnuplot.hpp"
#include "common/sizes.hpp"

namespace gaudi::perf {
namespace {

// A mark for each factor of 32: "'1 B' 1, '32 B' 32, '1 KiB' 1024" and so on.
std::string size_marks() {
  std::string marks;
  for (std::size_t size = 1; size <= std::size_t{1} << 40U; size *= 32)
    marks += fmt::format("{}'{}' {}", size != 1 ? ", " : "", common::size_text(size), size);
  return marks;
}

// Titles are literal ("noenhanced"), as names of files have underscores. Both axes are logarithmic:
// sizes and figures span six decades. The legends below the panels have a line for each run.
std::string settings(std::size_t runs) {
  constexpr double panel = 420;
  const double below = 70 + 20.0 * static_cast<double>(runs);
  const double height = panel + below;
  return fmt::format(
      "set terminal svg size 1100,{:.0f} font 'sans-serif,13' noenhanced background rgb 'white'\n"
      "set multiplot layout 1,2 margins 0.08,0.98,{:.4f},{:.4f} spacing 0.1,0\n"
      "set logscale x 2\n"
      "set logscale y 10\n"
      "set format y '%g'\n"
      "set xlabel 'message size'\n"
      "set xtics ({})\n"
      "set grid\n"
      "set key below left Left reverse samplen 2\n",
      height, below / height, (height - 40) / height, size_marks());
}

// Columns: bytes, microseconds, 10^6 bytes per second. What was not measured (0) has no place on a
// logarithmic axis, and gnuplot leaves it out.
std::string data(std::size_t index, const plotted_run& run) {
  std::string text = fmt::format("$run{} << END\n", index);
  for (const auto& m : run.results)
    text += fmt::format("{} {:.6g} {:.6g}\n", m.size, m.latency.median, m.megabytes_per_second);
  return text + "END\n";
}

struct range {
  double low;
  double high;
};

// Of what is above 0 in all runs; 1 to 1 where there is nothing.
range extent(const std::vector<plotted_run>& runs, double (*value_of)(const measurement&)) {
  std::vector<double> values;
  for (const auto& run : runs)
    for (const auto& m : run.results)
      if (value_of(m) > 0) values.push_back(value_of(m));
  if (values.empty()) return {1, 1};
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return {*low, *high};
}

// Whole decades around a range, one at least: gnuplot has no range for a single value.
range decades(range values) {
  const double low = std::floor(std::log10(values.low));
  const double high = std::max(std::ceil(std::log10(values.high)), low + 1);
  return {std::pow(10, low), std::pow(10, high)};
}

std::string limits(const char* axis, range values) {
  return fmt::format("set {} [{:g}:{:g}]\n", axis, values.low, values.high);
}

std::string panel(const std::vector<plotted_run>& runs, const char* title, const char* unit,
                  int column, range values) {
  std::string text = limits("yrange", decades(values));
  text += fmt::format("set title '{}'\nset ylabel '{}'\nplot ", title, unit);
  for (std::size_t i = 0; i < runs.size(); ++i)
    text += fmt::format(
        "{}$run{} using 1:{} with linespoints linewidth 2 pointtype 7 pointsize 0.5 title {}",
        i != 0 ? ", " : "", i, column, common::gnuplot_string(runs[i].name));
  return text + "\n";
}

double size_of(const measurement& m) {
  return static_cast<double>(m.size);
}
double latency_of(const measurement& m) {
  return m.latency.median;
}
double bandwidth_of(const measurement& m) {
  return m.megabytes_per_second;
}

}  // namespace

std::string plot_script(const std::vector<plotted_run>& runs) {
  std::string script;
  for (std::size_t i = 0; i < runs.size(); ++i) script += data(i, runs[i]);
  script += settings(runs.size());
  const range sizes = extent(runs, size_of);
  script += limits("xrange", {sizes.low / 1.5, sizes.high * 1.5});
  script += panel(runs, "latency (median)", "us", 2, extent(runs, latency_of));
  script += panel(runs, "bandwidth", "MB/s", 3, extent(runs, bandwidth_of));
  return script + "unset multiplot\n";
}

}  // namespace gaudi::perf
