// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <thread>

#include "ipc/byte_ring.hpp"
#include "ring_of.hpp"

namespace gaudi::ipc {
namespace {

constexpr std::size_t short_ring = 1024;

TEST(byte_ring_between_threads, carries_packets_in_order) {
  constexpr std::uint64_t count = 200'000;
  // Each time it is full or empty costs a turn of both threads: milliseconds on a busy machine.
  const auto r = std::make_unique<test::ring_of<16 * short_ring>>();
  std::thread writer([&] {
    for (std::uint64_t i = 0; i < count; ++i) {
      while (!r->put(test::packet_of(i, 8 + i % 200))) std::this_thread::yield();
    }
  });
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < count;) {
    const auto got = r->get();
    if (got.empty()) {
      std::this_thread::yield();
      continue;
    }
    wrong += got != test::packet_of(i, 8 + i % 200);
    ++i;
  }
  writer.join();
  EXPECT_EQ(wrong, 0U);
}

// One side polls and sleeps, the other sends: each packet is seen, or its reader is woken for it.
TEST(byte_ring_between_threads, loses_no_wake_up) {
  constexpr int count = 20'000;
  const auto r = std::make_unique<test::ring_of<short_ring>>();
  std::atomic<int> bells{0};
  std::thread writer([&] {
    for (int i = 0; i < count; ++i) {
      std::byte* room = nullptr;
      while (!(room = r->in.reserve(8))) std::this_thread::yield();
      std::memset(room, 1, 8);
      if (r->in.commit(true)) bells.fetch_add(1);
    }
  });
  int got = 0;
  int heard = 0;
  while (got < count) {
    if (!r->get().empty()) {
      ++got;
    } else if (r->out.sleep()) {
      while (bells.load() == heard) std::this_thread::yield();
      heard = bells.load();
    }
  }
  writer.join();
  EXPECT_EQ(got, count);
}

}  // namespace
}  // namespace gaudi::ipc
