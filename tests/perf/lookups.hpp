// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

namespace gaudi::perf {

/// Calls look_up(i) for each of `order`; callgrind counts from its start to its end.
template <class LookUp>
__attribute__((noinline)) std::uintptr_t counted(const std::vector<std::uint32_t>& order,
                                                 LookUp&& look_up) {
  std::uintptr_t all = 0;
  for (const std::uint32_t i : order) all += look_up(i);
  return all;
}

/// Prints the nanoseconds of one look_up(i), i below `entries` in random order: `count` times in
/// each of some batches, of which the best counts. Several threads at once: how long one waits for
/// its own.
template <class LookUp>
void report(std::size_t entries, unsigned threads, std::size_t count, LookUp&& look_up) {
  using clock = std::chrono::steady_clock;
  constexpr int batches = 15;
  std::vector<double> best(threads, 1e9);
  std::atomic<unsigned> ready{0};
  std::atomic<std::uintptr_t> sink{0};
  const auto work = [&](unsigned id) {
    std::mt19937 random(id);
    std::vector<std::uint32_t> order(count);
    for (auto& i : order) i = static_cast<std::uint32_t>(random() % entries);
    for (int batch = 0; batch < batches; ++batch) {
      ++ready;
      while (ready < threads * static_cast<unsigned>(batch + 1)) {
      }
      const auto start = clock::now();
      sink += counted(order, look_up);
      const std::chrono::duration<double, std::nano> took = clock::now() - start;
      best[id] = std::min(best[id], took.count() / static_cast<double>(count));
    }
  };
  std::vector<std::thread> others;
  for (unsigned id = 1; id < threads; ++id) others.emplace_back(work, id);
  work(0);
  for (auto& other : others) other.join();
  std::printf("%.2f\n", *std::max_element(best.begin(), best.end()));
}

}  // namespace gaudi::perf
