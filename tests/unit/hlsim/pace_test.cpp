// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <algorithm>
#include <chrono>

#include "simulation.hpp"

// The cost model. Times are compared with each other, never with a constant.

namespace hlsim_test {
namespace {

using clock = std::chrono::steady_clock;

/// Seconds that a stream of copies takes from `source` to `destination`.
double stream_once(int device, uint64_t source, uint64_t destination, uint32_t chunk, int count,
                   const std::vector<uint32_t>& queues) {
  command c(device, {{chunk, lin_dma_control, source, destination}});
  std::vector<uint64_t> seqs(static_cast<size_t>(count));
  const auto begin = clock::now();
  for (int i = 0; i < count; ++i)
    EXPECT_EQ(
        c.submit(queues[static_cast<size_t>(i) % queues.size()], seqs[static_cast<size_t>(i)]), 0);
  for (const uint64_t seq : seqs) wait_status(device, seq);
  return std::chrono::duration<double>(clock::now() - begin).count();
}

/// The shortest of some: other work on the machine can only lengthen a stream.
double stream(int device, uint64_t source, uint64_t destination, uint32_t chunk, int count,
              const std::vector<uint32_t>& queues) {
  constexpr int tries = 4;
  double best = stream_once(device, source, destination, chunk, count, queues);
  for (int i = 1; i < tries; ++i)
    best = std::min(best, stream_once(device, source, destination, chunk, count, queues));
  return best;
}

TEST(rates, hold_per_direction) {
  simulate({{"HLSIM_H2D_GBPS", "0.2"}, {"HLSIM_D2H_GBPS", "0.1"}}, [] {
    const open_device device;
    const device_page hbm(device);
    const host_buffer host(device, 512 << 10);
    const double down = stream(device, host.va(), hbm.va, 512 << 10, 20, {0});
    const double up = stream(device, hbm.va, host.va(), 512 << 10, 20, {4});
    EXPECT_GT(up / down, 1.6);
    EXPECT_LT(up / down, 2.5);
  });
}

TEST(rates, are_shared_by_the_queues_of_a_direction) {
  simulate({{"HLSIM_H2D_GBPS", "0.2"}}, [] {
    const open_device device;
    const device_page hbm(device);
    const host_buffer host(device, 512 << 10);
    const double one = stream(device, host.va(), hbm.va, 512 << 10, 20, {0});
    const double two = stream(device, host.va(), hbm.va, 512 << 10, 20, {0, 4});
    EXPECT_GT(two / one, 0.8);
    EXPECT_LT(two / one, 1.3);
  });
}

TEST(rates, latency_overlaps_in_a_stream) {
  simulate({{"HLSIM_LATENCY_US", "20000"}}, [] {
    const open_device device;
    const device_page hbm(device);
    const host_buffer host(device, 4096);
    const double one = stream(device, host.va(), hbm.va, 4096, 1, {0});
    const double many = stream(device, host.va(), hbm.va, 4096, 16, {0});
    EXPECT_LT(many / one, 8);
  });
}

}  // namespace
}  // namespace hlsim_test
