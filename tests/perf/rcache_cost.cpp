// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The same as perf_cache_cost's "hit", of UCX's registration cache.
//   perf_rcache_cost ENTRIES THREADS COUNT
#include <sys/mman.h>

#include "lookups.hpp"

extern "C" {
#include <ucs/memory/rcache.h>
}

namespace {

constexpr std::size_t page = 4096;

ucs_status_t register_nothing(void*, ucs_rcache_t*, void*, ucs_rcache_region_t*, std::uint16_t) {
  return UCS_OK;
}
void deregister_nothing(void*, ucs_rcache_t*, ucs_rcache_region_t*) {}
void describe_nothing(void*, ucs_rcache_t*, ucs_rcache_region_t*, char*, std::size_t) {}

ucs_rcache_region_t* get(ucs_rcache_t* cache, char* address) {
  ucs_rcache_region_t* region = nullptr;
  if (ucs_rcache_get(cache, address, page, PROT_READ | PROT_WRITE, nullptr, &region) != UCS_OK)
    std::exit(1);
  return region;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: %s ENTRIES THREADS COUNT\n", argv[0]);
    return 2;
  }
  const std::size_t entries = std::strtoul(argv[1], nullptr, 10);
  const ucs_rcache_ops_t ops{register_nothing, deregister_nothing, describe_nothing};
  ucs_rcache_params_t params{};
  params.region_struct_size = sizeof(ucs_rcache_region_t);
  params.alignment = UCS_RCACHE_MIN_ALIGNMENT;
  params.max_alignment = page;
  params.ops = &ops;
  params.max_regions = 2 * entries;
  params.max_size = SIZE_MAX;
  params.max_unreleased = SIZE_MAX;
  ucs_rcache_t* cache = nullptr;
  if (ucs_rcache_create(&params, "perf", nullptr, &cache) != UCS_OK) return 1;
  // Every other page, so that no two regions are one.
  auto* const memory =
      static_cast<char*>(::mmap(nullptr, 2 * entries * page, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  for (std::size_t i = 0; i < entries; ++i)
    ucs_rcache_region_put(cache, get(cache, memory + 2 * i * page));
  gaudi::perf::report(entries, static_cast<unsigned>(std::atoi(argv[2])),
                      std::strtoul(argv[3], nullptr, 10), [&](std::size_t i) {
                        auto* const region = get(cache, memory + 2 * i * page);
                        ucs_rcache_region_put(cache, region);
                        return reinterpret_cast<std::uintptr_t>(region);
                      });
  ucs_rcache_destroy(cache);
}
