// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// An allocation that fails leaves tables as they were.
#include <gtest/gtest.h>
#include <rdma/fi_domain.h>

#include <cstdlib>
#include <deque>
#include <new>

#include "reg/key_table.hpp"

namespace {

// Of this thread, so many more.
thread_local long allocations_left = -1;

}  // namespace

[[gnu::noinline]] void* operator new(std::size_t size) {
  if (allocations_left == 0) throw std::bad_alloc();
  if (allocations_left > 0) --allocations_left;
  if (void* bytes = std::malloc(size)) return bytes;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* bytes) noexcept {
  std::free(bytes);
}
[[gnu::noinline]] void operator delete(void* bytes, std::size_t) noexcept {
  std::free(bytes);
}

namespace gaudi::reg {
namespace {

TEST(no_memory, for_more_keys_leaves_those_that_there_are) {
  key_table table;
  std::deque<region> regions;
  int refused = 0;
  for (std::uint64_t key = 1; key <= 300; ++key) {
    region& r = regions.emplace_back();
    r.address = 0x1000 * key;
    r.length = 64;
    r.access = FI_REMOTE_READ;
    r.virtual_address = true;
    allocations_left = 0;
    try {
      EXPECT_TRUE(table.add_requested(r, key));
    } catch (const std::bad_alloc&) {
      ++refused;
    }
    allocations_left = -1;
    for (std::uint64_t known = 1; known < key; ++known)
      ASSERT_TRUE(table.find(known, 0x1000 * known, 64, FI_REMOTE_READ)) << known << " of " << key;
    if (!table.find(key, r.address, 64, FI_REMOTE_READ)) {
      EXPECT_TRUE(table.add_requested(r, key));
    }
  }
  EXPECT_GE(refused, 3) << "the table has to grow";
  for (region& r : regions) table.remove(r);
}

}  // namespace
}  // namespace gaudi::reg
