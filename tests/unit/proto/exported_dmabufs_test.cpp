// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/transfer/exported_dmabufs.hpp"

#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <thread>

#include "../device/fake_driver.hpp"

namespace gaudi::proto {
namespace {

struct given_dmabufs_ : testing::Test {
  given_dmabufs_() {
    auto opened = device::device::open(driver.thunk(), {});
    EXPECT_TRUE(opened);
    if (opened) on = *opened;
  }
  std::uint64_t allocate() {
    const auto a = on->allocate(4096);
    EXPECT_TRUE(a);
    return a ? *a : 0;
  }
  std::uint64_t number_of(std::uint64_t address) { return on->find(address, 1)->allocation_id; }

  test::fake_driver driver;
  std::shared_ptr<device::device> on;
  exported_dmabufs given;
};

TEST_F(given_dmabufs_, tells_of_freed_memory_those_who_have_it) {
  const auto a = allocate();
  const auto b = allocate();
  const auto number = number_of(a);
  given.add(*on, number, 1);
  given.add(*on, number, 2);
  given.add(*on, number_of(b), 1);
  EXPECT_TRUE(given.has(number, 2));
  EXPECT_FALSE(given.has(number_of(b), 2));
  EXPECT_FALSE(given.any_freed());
  ASSERT_TRUE(on->free(a));
  EXPECT_TRUE(given.any_freed());
  EXPECT_FALSE(given.has(number, 2));
  const auto freed = given.take_freed();
  ASSERT_EQ(freed.size(), 2U);
  for (const std::uint32_t connection : {1, 2})
    EXPECT_TRUE(std::any_of(freed.begin(), freed.end(), [&](const auto& g) {
      return g.allocation == number && g.connection == connection;
    }));
  EXPECT_FALSE(given.any_freed());
  EXPECT_TRUE(given.take_freed().empty());
  EXPECT_TRUE(given.has(number_of(b), 1));
}

// What peers keep of it keeps a lost device open, too.
TEST_F(given_dmabufs_, tells_of_a_device_that_is_lost) {
  const auto a = allocate();
  const auto b = allocate();
  given.add(*on, number_of(a), 1);
  given.add(*on, number_of(b), 2);
  on->lose(-FI_EIO, "of the test");
  EXPECT_TRUE(given.any_freed());
  EXPECT_EQ(given.take_freed().size(), 2U);
  given.add(*on, number_of(a), 3);
  EXPECT_EQ(given.take_freed().size(), 1U) << "one that was on its way at the loss";
}

TEST_F(given_dmabufs_, tells_nothing_to_a_connection_that_is_gone) {
  const auto a = allocate();
  given.add(*on, number_of(a), 1);
  given.forget_connection(1);
  ASSERT_TRUE(on->free(a));
  EXPECT_TRUE(given.take_freed().empty());
}

TEST_F(given_dmabufs_, hears_of_frees_on_other_threads) {
  constexpr int count = 1000;
  std::vector<std::uint64_t> all;
  for (int i = 0; i < count; ++i) {
    all.push_back(allocate());
    given.add(*on, number_of(all.back()), 1);
  }
  std::thread other([&] {
    for (const std::uint64_t a : all) static_cast<void>(on->free(a));
  });
  std::size_t told = 0;
  while (told < count) {
    if (given.any_freed()) told += given.take_freed().size();
  }
  other.join();
  EXPECT_EQ(told, static_cast<std::size_t>(count));
}

TEST_F(given_dmabufs_, tells_of_each_of_several_devices) {
  given.add(*on, number_of(allocate()), 1);
  driver.bus_id = "0000:1a:00.0";
  const auto other = device::device::open(driver.thunk(), {});
  ASSERT_TRUE(other);
  given.add(**other, 4711, 2);
  (*other)->lose(-FI_EIO, "of the test");
  const auto freed = given.take_freed();
  ASSERT_EQ(freed.size(), 1U);
  EXPECT_EQ(freed[0].connection, 2U);
  EXPECT_EQ(freed[0].allocation, 4711U);
}

}  // namespace
}  // namespace gaudi::proto
