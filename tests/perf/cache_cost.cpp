// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What it costs to find what is known, without anything around it. Nanoseconds each, of the best of
// some batches; what disturbs only adds.
//   perf_cache_cost hit ENTRIES THREADS COUNT   a user of a registration in the MR cache, and its
//   end perf_cache_cost lookup ALLOCATIONS COUNT    the allocation that holds an address
#include <rdma/fi_domain.h>

#include <cstring>
#include <deque>

#include "device/address_map.hpp"
#include "lookups.hpp"
#include "reg/registration_cache.hpp"

namespace {

using namespace gaudi;

/// The core's registration of something, which does nothing.
core::inner_mr nothing() {
  static fi_ops ops{.size = sizeof(fi_ops),
                    .close = [](fid_t) { return 0; },
                    .bind = nullptr,
                    .control = nullptr,
                    .ops_open = nullptr,
                    .tostr = nullptr,
                    .ops_set = nullptr};
  static std::deque<fid_mr> all;
  all.emplace_back().fid.ops = &ops;
  return core::inner_mr(core::unique_fid<fid_mr>(&all.back()));
}

void hits(std::size_t entries, unsigned threads, std::size_t count) {
  reg::registration_cache cache({.count = entries, .bytes = UINT64_MAX});
  for (std::size_t g = 1; g <= entries; ++g) cache.add({g, 0}, 1, nothing());
  perf::report(entries, threads, count, [&](std::size_t i) {
    const auto user = cache.find({i + 1, 0});
    return reinterpret_cast<std::uintptr_t>(user.get());
  });
}

void lookups(std::size_t allocations, std::size_t count) {
  constexpr std::uint64_t first = 0x1001001800000000;
  constexpr std::uint64_t length = 1 << 20;
  device::address_map map;
  for (std::size_t i = 0; i < allocations; ++i)
    map.insert({.base = first + i * length, .len = length, .allocation_id = i + 1});
  perf::report(allocations, 1, count, [&](std::size_t i) {
    return static_cast<std::uintptr_t>(map.find(first + i * length + 77, 100)->allocation_id);
  });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 5 && std::strcmp(argv[1], "hit") == 0) {
    hits(std::strtoul(argv[2], nullptr, 10), static_cast<unsigned>(std::atoi(argv[3])),
         std::strtoul(argv[4], nullptr, 10));
  } else if (argc == 4 && std::strcmp(argv[1], "lookup") == 0) {
    lookups(std::strtoul(argv[2], nullptr, 10), std::strtoul(argv[3], nullptr, 10));
  } else {
    std::fprintf(stderr, "usage: %s hit ENTRIES THREADS COUNT | lookup ALLOCATIONS COUNT\n",
                 argv[0]);
    return 2;
  }
}
