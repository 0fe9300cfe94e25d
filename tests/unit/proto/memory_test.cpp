// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/operation/memory.hpp"

#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "device_by_hand.hpp"
#include "logged_warnings.hpp"

namespace gaudi::proto {
namespace {

constexpr std::uint64_t device_address = 0x1001001800000000;

struct with_no_device {
  device::device_registry& devices() noexcept { return none; }
  device::device_registry none;
};
// Nobody's address is known there.
template <class... Named>
base::result<local_memory> memory_without_devices(Named... named) {
  with_no_device owner;
  return local_memory::from(named..., owner);
}

std::vector<std::byte> counting(std::size_t length) {
  std::vector<std::byte> bytes(length);
  for (std::size_t i = 0; i < length; ++i) bytes[i] = static_cast<std::byte>(i * 7 + 1);
  return bytes;
}

TEST(local_memory, one_host_buffer_is_known_as_such) {
  char buffer[10]{};
  const auto m = memory_without_devices(buffer, sizeof buffer, nullptr);
  ASSERT_TRUE(m);
  EXPECT_EQ(m->length(), 10U);
  EXPECT_EQ(m->single_host(), reinterpret_cast<std::byte*>(buffer));
  EXPECT_FALSE(m->on_device());
}

TEST(local_memory, of_one_part_is_where_that_is) {
  reg::region imported;
  imported.imported = true;
  const auto of = [](const reg::region* registered) {
    return local_memory::of({device_address, 10, registered, nullptr});
  };
  EXPECT_FALSE(of(nullptr).on_device());
  EXPECT_NE(of(nullptr).single_host(), nullptr);
  EXPECT_TRUE(of(&imported).on_device());
  EXPECT_EQ(of(&imported).single_host(), nullptr);
}

TEST(local_memory, nothing_at_all_is_valid) {
  const auto empty = memory_without_devices(nullptr, nullptr, 0);
  ASSERT_TRUE(empty);
  EXPECT_EQ(empty->length(), 0U);
  empty->read(0, nullptr, 0);
  const auto null = memory_without_devices(nullptr, 0, nullptr);
  ASSERT_TRUE(null);
  EXPECT_EQ(null->length(), 0U);
}

TEST(local_memory, more_segments_than_offered_are_refused) {
  const std::vector<iovec> iov(local_memory::max_segments + 1);
  EXPECT_EQ(memory_without_devices(iov.data(), nullptr, iov.size()).code(), -FI_EINVAL);
}

TEST(local_memory, a_device_address_that_nobody_knows_is_refused_not_read) {
  const auto m = memory_without_devices(reinterpret_cast<void*>(device_address), 64, nullptr);
  EXPECT_EQ(m.code(), -FI_EINVAL);
}

/// What is said, at the level of warnings, about a buffer with that descriptor.
std::string refusal(void* buffer, void* descriptor) {
  const test::logged_warnings said;
  EXPECT_EQ(memory_without_devices(buffer, 64, descriptor).code(), -FI_EINVAL);
  return said.text();
}

// Most often a key or an fid_mr, instead of its descriptor.
TEST(local_memory, what_is_no_descriptor_is_called_so) {
  std::vector<std::uint64_t> something(64, 0x4141'4141'4141'4141);
  const auto said = refusal(something.data(), something.data());
  EXPECT_NE(said.find("is no descriptor"), std::string::npos) << said;
  EXPECT_NE(said.find("fi_mr_desc"), std::string::npos) << said;
  EXPECT_EQ(said.find("outside its memory region"), std::string::npos) << said;
}

TEST(local_memory, a_descriptor_of_other_device_memory_is_told_from_that) {
  reg::region other;
  other.address = device_address;
  other.length = 4096;
  other.imported = true;
  const auto said = refusal(reinterpret_cast<void*>(device_address + 8192), &other);
  EXPECT_NE(said.find("outside its memory region"), std::string::npos) << said;
}

// Any split of the same bytes reads and writes as the whole does.
TEST(local_memory, segments_make_one_range) {
  std::mt19937 random(5);
  const auto pattern = counting(1000);
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::byte> memory(1000);
    std::vector<iovec> iov;
    std::size_t used = 0;
    for (std::size_t i = 0; i < 1 + random() % local_memory::max_segments; ++i) {
      const std::size_t length = random() % 250;
      iov.push_back({memory.data() + used, length});
      used += length;
    }
    const auto m = memory_without_devices(iov.data(), nullptr, iov.size());
    ASSERT_TRUE(m);
    ASSERT_EQ(m->length(), used);
    if (used == 0) continue;
    const std::size_t offset = random() % used;
    const std::size_t length = 1 + random() % (used - offset);
    m->write(offset, pattern.data(), length);
    ASSERT_EQ(std::memcmp(memory.data() + offset, pattern.data(), length), 0);
    const auto zeros = std::count(memory.begin(), memory.end(), std::byte{0});
    ASSERT_GE(zeros, static_cast<std::ptrdiff_t>(memory.size() - length));
    std::vector<std::byte> back(length);
    m->read(offset, back.data(), length);
    ASSERT_EQ(std::memcmp(back.data(), pattern.data(), length), 0);
    const auto place = m->at(offset);
    ASSERT_EQ(place.address(), reinterpret_cast<std::uint64_t>(memory.data() + offset));
    ASSERT_GE(place.left(), 1U);
  }
}

TEST(local_memory, truncation_keeps_the_beginning) {
  char a[10];
  char b[10];
  const iovec iov[] = {{a, 10}, {b, 10}};
  auto m = *memory_without_devices(iov, nullptr, 2);
  m.truncate(15);
  EXPECT_EQ(m.length(), 15U);
  EXPECT_EQ(m.count(), 2U);
  EXPECT_EQ(m[1].length, 5U);
  m.truncate(10);
  EXPECT_EQ(m.count(), 1U);
  m.truncate(100);
  EXPECT_EQ(m.length(), 10U);
  m.truncate(0);
  EXPECT_EQ(m.length(), 0U);
}

TEST(local_memory, a_part_of_a_region_is_addressed_as_its_mode_says) {
  reg::region r;
  r.address = 0x5000;
  r.length = 100;
  r.virtual_address = true;
  EXPECT_EQ(local_memory::inside(r, 0x5010, 4)[0].address, 0x5010U);
  r.virtual_address = false;
  EXPECT_EQ(local_memory::inside(r, 0x10, 4)[0].address, 0x5010U);
}

TEST(local_memory, is_lost_with_the_device_of_any_of_its_parts) {
  test::device_by_hand dev;
  std::byte host[8];
  const iovec parts[] = {{host, sizeof host}, {reinterpret_cast<void*>(dev.memory.address), 8}};
  void* const descriptors[] = {nullptr, &dev.memory};
  with_no_device owner;
  const auto m = local_memory::from(parts, descriptors, std::size(parts), owner);
  ASSERT_TRUE(m);
  EXPECT_EQ(m->loss(), 0);
  dev.gaudi->lose(-FI_EIO, "of the test");
  EXPECT_EQ(m->loss(), FI_EIO);
}

}  // namespace
}  // namespace gaudi::proto
