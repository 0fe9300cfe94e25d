// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>

#include "json.hpp"
#include "openmetrics.hpp"
#include "screen.hpp"
#include "why.hpp"

namespace gaudi::top {
namespace {

constexpr int bad_option = 2;

struct options {
  double interval = 1;
  std::uint64_t count = 0;  ///< of pictures; 0: until it is ended
  pid_t pid = 0;            ///< 0: all
  bool once = false;
  bool json = false;
  std::string openmetrics;  ///< a file's path
  pid_t why = 0;            ///< the process that is asked about; 0: none is
};

sample take_sample(const options& chosen) {
  sample s{std::chrono::steady_clock::now(), {}};
  if (chosen.pid == 0) {
    s.processes = find_processes();
    return s;
  }
  process_result one = find_process(chosen.pid);
  if (one.found.empty()) throw std::runtime_error(one.error);
  s.processes = std::move(one.found);
  return s;
}

std::string time_of_day() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  return fmt::format("{:02}:{:02}:{:02}", local.tm_hour, local.tm_min, local.tm_sec);
}

double unix_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

void show(const options& chosen, screen& on, const sample* before, const sample& now) {
  const changes all = between(before, now);
  if (chosen.json) return on.print(json_of(now, all, unix_time()) + "\n");
  // Where it scrolls there is room for everything.
  const frame_size endless{80, std::numeric_limits<std::size_t>::max()};
  const auto size = chosen.once ? std::nullopt : on.size();
  const auto lines = frame_of(now, all, time_of_day(), size.value_or(endless));
  if (size)
    on.show(lines);
  else
    on.print(lines);
}

/// Rates want an earlier sample, so the first picture that is not on a screen comes after an
/// interval.
void watch(const options& chosen, screen& on) {
  std::optional<sample> before;
  sample now = take_sample(chosen);
  const bool is_screen = !chosen.json && !chosen.once && on.size();
  if (is_screen) show(chosen, on, nullptr, now);
  for (std::uint64_t shown = 0; chosen.count == 0 || shown < chosen.count;) {
    const event what = on.wait(chosen.interval);
    if (what == event::quit) return;
    if (what == event::redraw) {
      show(chosen, on, before ? &*before : nullptr, now);
      continue;
    }
    before = std::move(now);
    now = take_sample(chosen);
    show(chosen, on, &*before, now);
    ++shown;
  }
}

void write_metrics(const options& chosen, screen& on) {
  for (std::uint64_t written = 1;; ++written) {
    replace_file(chosen.openmetrics, openmetrics_of(take_sample(chosen).processes));
    if (written == chosen.count) return;
    if (on.wait(chosen.interval) == event::quit) return;
  }
}

void tell_why(const options& chosen) {
  outstanding_result one = find_outstanding(chosen.why);
  if (one.found.empty()) throw std::runtime_error(one.error);
  evidence known{std::move(one.found[0]), find_all_outstanding(), 0};
  // After all that was read, so that nothing is younger than that.
  known.now = static_cast<std::uint64_t>(
      std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
  screen::print(chosen.json ? json_of(known) + "\n" : text_of(known));
}

/// What main ends with where the command line is not to be carried out: it asked for help, or is
/// bad.
std::optional<int> parse(int argc, char** argv, options& chosen) {
  CLI::App app(
      "Shows what the processes of this host that use the provider gaudi are doing:\n"
      "rates, the paths that data takes, registration cache and stalls, by process,\n"
      "NIC and Gaudi. See gaudi_top(1) for the columns. Keys: q quits, any other one\n"
      "draws again.",
      "gaudi_top");
  app.set_version_flag("--version", "gaudi_top " GAUDI_TOP_VERSION);
  auto* interval =
      app.add_option("--interval", chosen.interval, "seconds between two pictures (default 1)")
          ->check(CLI::Range(0.01, 86400.0))
          ->option_text("S");
  auto* count = app.add_option("--count", chosen.count, "end after so many (default: never)")
                    ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 62))
                    ->option_text("N");
  auto* once = app.add_flag("--once", chosen.once, "one picture, as text, after one interval");
  once->excludes(count);
  auto* pid = app.add_option("--pid", chosen.pid, "this process only")
                  ->check(CLI::Range(1, std::numeric_limits<pid_t>::max()))
                  ->option_text("PID");
  auto* json = app.add_flag("--json", chosen.json, "a JSON document in a line for each picture");
  auto* openmetrics =
      app.add_option(
             "--openmetrics", chosen.openmetrics,
             "write all counters to FILE every interval, for\nnode_exporter's textfile collector")
          ->excludes(json)
          ->option_text("FILE");
  auto* why =
      app.add_option("--why", chosen.why, "what this process waits for, and who is to blame")
          ->check(CLI::Range(1, std::numeric_limits<pid_t>::max()))
          ->option_text("PID");
  for (CLI::Option* other : {interval, count, once, pid, openmetrics}) why->excludes(other);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? EXIT_SUCCESS : bad_option;
  }
  if (chosen.once) chosen.count = 1;
  return std::nullopt;
}

}  // namespace
}  // namespace gaudi::top

int main(int argc, char** argv) {
  try {
    gaudi::top::options chosen;
    if (const auto code = gaudi::top::parse(argc, argv, chosen)) return *code;
    if (chosen.why != 0) {
      gaudi::top::tell_why(chosen);
      return EXIT_SUCCESS;
    }
    gaudi::top::screen on;
    if (chosen.openmetrics.empty())
      gaudi::top::watch(chosen, on);
    else
      gaudi::top::write_metrics(chosen, on);
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    static_cast<void>(std::fprintf(stderr, "gaudi_top: %s\n", error.what()));
    return EXIT_FAILURE;
  }
}
