// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the device's copy engine carries, as an application sees it: fi_gaudi_ops.copy_async,
// several in flight.
//   perf_copy_rate BYTES ROUNDS      prints "H2D D2H" in 10^6 bytes/s
#include <rdma/fi_ext_gaudi.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <vector>

#include "fabric.hpp"

namespace {

using gaudi::perf::must;
using clock_type = std::chrono::steady_clock;

constexpr std::size_t chunk = 512 * 1024;
constexpr std::size_t in_flight = 8;

double rate(fid_domain* d, fi_gaudi_ops* ops, std::uint64_t device, std::uint64_t host,
            std::size_t bytes, int rounds, fi_gaudi_copy_dir dir) {
  const bool to_device = dir == FI_GAUDI_HOST_TO_DEVICE;
  std::deque<std::uint64_t> pending;
  const auto finish_oldest = [&] {
    must(ops->copy_wait(d, pending.front(), -1), "copy_wait");
    pending.pop_front();
  };
  const auto start = clock_type::now();
  for (int i = 0; i < rounds; ++i) {
    for (std::size_t at = 0; at < bytes; at += chunk) {
      if (pending.size() == in_flight) finish_oldest();
      std::uint64_t ticket = 0;
      const std::size_t length = std::min(chunk, bytes - at);
      must(ops->copy_async(d, (to_device ? device : host) + at, (to_device ? host : device) + at,
                           length, dir, &ticket),
           "copy_async");
      pending.push_back(ticket);
    }
  }
  while (!pending.empty()) finish_oldest();
  const std::chrono::duration<double> took = clock_type::now() - start;
  return static_cast<double>(bytes) * rounds / took.count() / 1e6;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s BYTES ROUNDS\n", argv[0]);
    return 2;
  }
  const auto bytes = static_cast<std::size_t>(std::atoll(argv[1]));
  const int rounds = std::atoi(argv[2]);
  gaudi::perf::rdm fabric("gaudi", true);
  fi_gaudi_ops* ops = nullptr;
  fid_domain* d = fabric.domain.get();
  must(fi_open_ops(&d->fid, FI_GAUDI_DOMAIN_OPS, 0, reinterpret_cast<void**>(&ops), nullptr),
       "fi_open_ops");
  std::uint64_t device = 0;
  must(ops->alloc(d, bytes, &device), "alloc");
  std::vector<char> host(bytes, 1);
  const auto host_address = reinterpret_cast<std::uint64_t>(host.data());
  rate(d, ops, device, host_address, bytes, 1, FI_GAUDI_HOST_TO_DEVICE);
  const double h2d = rate(d, ops, device, host_address, bytes, rounds, FI_GAUDI_HOST_TO_DEVICE);
  const double d2h = rate(d, ops, device, host_address, bytes, rounds, FI_GAUDI_DEVICE_TO_HOST);
  std::printf("%.1f %.1f\n", h2d, d2h);
  must(ops->free(d, device), "free");
}
