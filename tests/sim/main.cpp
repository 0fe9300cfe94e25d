// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// sim: runs schedules of the protocol, each from its seed.
#include <malloc.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>

#include "base/log.hpp"
#include "sim/plan.hpp"
#include "sim/shrink.hpp"
#include "sim/world.hpp"

namespace {

using namespace gaudi::sim;

constexpr const char* usage =
    "usage: sim [--schedules N] [--first-seed S]   run N schedules (default 1000)\n"
    "       sim --seed S [--trace]                 run one, and say what happened\n"
    "       sim ... --keep-going                   count failures instead of stopping\n"
    "       sim ... --resets                       streams are reset by what comes after a close\n"
    "       sim ... --forged                       a node in each sends what no honest peer does\n"
    "       sim ... --brief                        do not shrink and draw what fails\n";

struct options {
  std::uint64_t schedules = 1000;
  std::uint64_t first = 1;
  bool one = false;
  bool traced = false;
  bool keep_going = false;
  bool brief = false;
  bool resets = false;
  bool forged = false;
};

bool parse(int argc, char** argv, options& o) {
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const auto number = [&] { return std::strtoull(++i < argc ? argv[i] : "", nullptr, 0); };
    if (name == "--schedules") {
      o.schedules = number();
    } else if (name == "--first-seed") {
      o.first = number();
    } else if (name == "--seed") {
      o.first = number();
      o.schedules = 1;
      o.one = true;
    } else if (name == "--trace") {
      o.traced = true;
    } else if (name == "--resets") {
      o.resets = true;
    } else if (name == "--forged") {
      o.forged = true;
    } else if (name == "--brief") {
      o.brief = true;
    } else if (name == "--keep-going") {
      o.keep_going = true;
    } else {
      return false;
    }
  }
  return true;
}

volatile long running = 0;

// A crash is a failure of a schedule, too: say of which.
void tell_seed(int fatal) {
  char text[48];
  const int length = std::snprintf(text, sizeof text, "running %ld\n", running);
  if (::write(STDERR_FILENO, text, static_cast<std::size_t>(length)) < 0) std::_Exit(3);
  std::signal(fatal, SIG_DFL);
  std::raise(fatal);
}

plan plan_for(std::uint64_t seed, const options& o) {
  plan p = make_plan(seed, o.forged);
  p.net.reset_by_late_data = o.resets && !p.net.rdma;
  return p;
}

void explain(const plan& whole) {
  const plan least = shrink(whole);
  std::fputs(describe(least).c_str(), stdout);
}

void print_trace(const plan& p) {
  trace record;
  const outcome got = world(p, &record).run();
  std::printf("%s\n%s\n", record.diagram(p.nodes, 400).c_str(),
              got.failure.empty() ? "nothing was wrong" : got.failure.c_str());
}

// What one schedule has given back is the next one's, and no page comes anew from the kernel: where
// that itself runs in a virtual machine, they cost as much as all else.
void keep_memory() {
  constexpr int all = 32 << 20;  // the most that M_MMAP_THRESHOLD may be
  constexpr int step = 4 << 20;
  ::mallopt(M_MMAP_THRESHOLD, all);
  ::mallopt(M_TRIM_THRESHOLD, all);
  ::mallopt(M_TOP_PAD, step);
}

}  // namespace

int main(int argc, char** argv) {
  keep_memory();
  options o;
  if (!parse(argc, argv, o)) {
    std::fputs(usage, stderr);
    return 2;
  }
  for (const int fatal : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE}) std::signal(fatal, tell_seed);
  std::uint64_t steps = 0;
  std::uint64_t operations = 0;
  std::uint64_t failures = 0;
  std::uint64_t moved = 0;
  std::uint64_t passed = 0;
  std::uint64_t digest = 0;
  const std::clock_t began = std::clock();
  for (std::uint64_t seed = o.first; seed < o.first + o.schedules; ++seed) {
    running = static_cast<long>(seed);
    const plan p = plan_for(seed, o);
    const outcome got = world(p, nullptr).run();
    steps += got.steps;
    operations += got.operations;
    moved += got.moved;
    passed += got.passed;
    digest = digest * 1099511628211u + got.digest;
    if (got.failure.empty()) continue;
    ++failures;
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), got.failure.c_str());
    if (o.keep_going) continue;
    if (!o.brief) explain(p);
    return 1;
  }
  if (o.traced) print_trace(plan_for(o.first, o));
  const double took = static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC;
  std::printf("%llu schedules, %llu operations, %llu steps, %llu failures, digest %016llx\n",
              static_cast<unsigned long long>(o.schedules),
              static_cast<unsigned long long>(operations), static_cast<unsigned long long>(steps),
              static_cast<unsigned long long>(failures), static_cast<unsigned long long>(digest));
  std::printf(
      "%.0f schedules a minute of the CPU, %llu sessions on another route, %llu reads of passed "
      "memory\n",
      static_cast<double>(o.schedules) / took * 60, static_cast<unsigned long long>(moved),
      static_cast<unsigned long long>(passed));
  return failures == 0 ? 0 : 1;
}
