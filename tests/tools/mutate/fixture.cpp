// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What mutate_test.py makes mutants of, and a program that looks for some of them.
#include <cassert>
#include <cstdlib>
#include <mutex>

namespace {

static_assert(sizeof(int) == 4);
constexpr int limit = 10;
constexpr int doubled(int value) {
  return value + value;
}

bool fits(int value, int low, int high) {
  return low <= value && value < high;
}

int clamped(int value) {
  assert(value != 1000);
  if (value > limit) return limit;
  return value;
}

int steps_to(int end) {
  int steps = 0;
  while (steps < end) ++steps;
  return steps;
}

struct counter {
  void add(int more) {
    const std::lock_guard lock(mutex);
    total += more;
  }
  std::mutex mutex;
  int total = 0;
};

bool is_odd(int value) {
  switch (value & 1) {
    case 1:
      break;
    default:
      return false;
  }
  return true;
}

int untested(int value) {
  return -value;
}

void check(bool holds) {
  if (!holds) std::exit(1);
}

}  // namespace

int main(int count, char**) {
  check(fits(1, 1, 3) && !fits(3, 1, 3) && !fits(0, 1, 3));
  check(clamped(4) == 4 && clamped(limit + 5) == limit);
  check(steps_to(3) == doubled(2) - 1);
  counter all;
  all.add(2);
  all.add(3);
  check(all.total == 5);
  check(is_odd(3) && !is_odd(4));
  return count > 5 ? untested(count) : 0;
}
