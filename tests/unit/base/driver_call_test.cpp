// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/driver_call.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gaudi::base::outstanding {
namespace {

/// The calls that another process would find in this one's page.
std::vector<record> calls_seen() {
  std::vector<record> all(record_count);
  const auto size = static_cast<ssize_t>(all.size() * sizeof(record));
  EXPECT_EQ(::pread(page::instance().fd(), all.data(), all.size() * sizeof(record), header_size),
            size);
  std::erase_if(all, [](const record& r) { return r.kind != record_kind::call; });
  return all;
}

std::string nic_in(const record& r) {
  return reinterpret_cast<const char*>(r.address.data());
}

TEST(driver_call, is_seen_while_it_lives) {
  {
    const driver_call one(call_kind::register_dmabuf, 3, 4096, "mlx5_0");
    const auto seen = calls_seen();
    ASSERT_EQ(seen.size(), 1U);
    EXPECT_EQ(seen[0].type, static_cast<std::uint8_t>(call_kind::register_dmabuf));
    EXPECT_EQ(seen[0].device, 3);
    EXPECT_EQ(seen[0].total, 4096U);
    EXPECT_NE(seen[0].since, 0U);
    EXPECT_EQ(nic_in(seen[0]), "mlx5_0");
  }
  EXPECT_TRUE(calls_seen().empty());
}

TEST(driver_call, cuts_a_long_name) {
  const driver_call one(call_kind::register_memory, -1, 1, std::string(100, 'x'));
  const auto seen = calls_seen();
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_EQ(nic_in(seen[0]), std::string(27, 'x'));
}

TEST(driver_call, does_without_a_record_where_none_is_left) {
  std::vector<std::unique_ptr<driver_call>> all;
  for (std::size_t i = 0; i < max_calls; ++i)
    all.push_back(std::make_unique<driver_call>(call_kind::open_device, 0, 0));
  EXPECT_EQ(calls_seen().size(), max_calls);
  {
    const driver_call more(call_kind::open_device, 0, 0);
    EXPECT_EQ(calls_seen().size(), max_calls);
  }
  all.clear();
  EXPECT_TRUE(calls_seen().empty());
}

}  // namespace
}  // namespace gaudi::base::outstanding
