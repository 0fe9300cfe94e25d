// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "rates.hpp"

#include <gtest/gtest.h>

namespace gaudi::top {
namespace {

using std::chrono::seconds;

subject domain(const std::string& nic, std::uint64_t eager_bytes, std::uint64_t endpoints = 0) {
  subject s{block_kind::domain, -1, nic, "tcp", {}};
  s.values[domain_value("eager_bytes").place] = eager_bytes;
  s.values[domain_value("endpoints").place] = endpoints;
  return s;
}

process with(pid_t pid, std::uint64_t start_time, std::vector<subject> subjects) {
  process p{pid, 0, {}};
  p.counters.start_time = start_time;
  p.counters.subjects = std::move(subjects);
  return p;
}

sample at(int second, std::vector<process> processes) {
  return {std::chrono::steady_clock::time_point(seconds(second)), std::move(processes)};
}

std::uint64_t eager(const change& c) {
  return get(c.counted, "eager_bytes");
}

TEST(rates, are_what_was_counted_between_two_samples) {
  const sample before = at(10, {with(1, 5, {domain("nic0", 100)})});
  const sample now = at(12, {with(1, 5, {domain("nic0", 350, 3)})});
  const changes all = between(&before, now);
  EXPECT_EQ(all.seconds, 2.0);
  ASSERT_EQ(all.subjects.size(), 1U);
  EXPECT_EQ(eager(all.subjects[0]), 250U);
  EXPECT_EQ(get(all.subjects[0].counted, "endpoints"), 0U) << "a level has no rate";
}

TEST(rates, of_what_is_new_begin_at_0) {
  const sample before = at(0, {with(1, 5, {domain("nic0", 100)})});
  const sample now = at(
      1, {with(1, 5, {domain("nic0", 100), domain("nic1", 40)}), with(2, 9, {domain("nic0", 70)})});
  const changes all = between(&before, now);
  ASSERT_EQ(all.subjects.size(), 3U);
  EXPECT_EQ(eager(all.subjects[0]), 0U);
  EXPECT_EQ(eager(all.subjects[1]), 40U);
  EXPECT_EQ(eager(all.subjects[2]), 70U);
}

TEST(rates, take_no_process_for_an_earlier_one_of_its_number) {
  const sample before = at(0, {with(1, 5, {domain("nic0", 100)})});
  const sample now = at(1, {with(1, 6, {domain("nic0", 130)})});
  EXPECT_EQ(eager(between(&before, now).subjects[0]), 130U);
}

TEST(rates, are_never_below_0) {
  const sample before = at(0, {with(1, 5, {domain("nic0", 100)})});
  const sample now = at(1, {with(1, 5, {domain("nic0", 90)})});
  EXPECT_EQ(eager(between(&before, now).subjects[0]), 0U);
}

TEST(rates, of_one_sample_are_not_known) {
  const sample now = at(1, {with(1, 5, {domain("nic0", 90)})});
  EXPECT_FALSE(between(nullptr, now).seconds);
}

TEST(rates, add_up_by_nic_and_by_device) {
  subject gaudi{block_kind::device, 1, "Gaudi2", "0000:33:00.0", {}};
  gaudi.values[device_value("zero_copy_bytes").place] = 8;
  subject first = gaudi;
  first.number = 0;
  const sample now = at(1, {with(1, 5, {domain("nic1", 90, 1), gaudi, first}),
                            with(2, 5, {domain("nic1", 10, 2), domain("nic0", 1), gaudi})});
  const changes all = between(nullptr, now);
  const auto nics = totals_of(all, block_kind::domain);
  ASSERT_EQ(nics.size(), 2U);
  EXPECT_EQ(nics[0].name, "nic0");
  EXPECT_EQ(get(nics[1].counted, "eager_bytes"), 100U);
  EXPECT_EQ(get(nics[1].levels, "endpoints"), 3U);
  const auto devices = totals_of(all, block_kind::device);
  ASSERT_EQ(devices.size(), 2U);
  EXPECT_EQ(devices[0].number, 0);
  EXPECT_EQ(get_of_device(devices[1].counted, "zero_copy_bytes"), 16U);
}

TEST(path_shares, are_parts_of_all_bytes_and_count_none_twice) {
  value_list counted{};
  const auto set = [&](domain_value which, std::uint64_t bytes) { counted[which.place] = bytes; };
  EXPECT_EQ(shares_of(counted).eager, 0);
  set("eager_bytes", 10);
  set("direct_bytes", 60);
  set("zero_copy_bytes", 40);   // of the direct ones, as are
  set("dmabuf_ipc_bytes", 40);  // these
  set("staged_bytes", 20);
  set("cma_bytes", 7);
  set("engine_bytes", 3);
  EXPECT_EQ(bytes_of(counted), 100U);
  const path_shares s = shares_of(counted);
  EXPECT_DOUBLE_EQ(s.zero_copy, 0.4);
  EXPECT_DOUBLE_EQ(s.direct, 0.2);
  EXPECT_DOUBLE_EQ(s.staged, 0.2);
  EXPECT_DOUBLE_EQ(s.eager, 0.1);
  EXPECT_DOUBLE_EQ(s.local, 0.1);
}

TEST(hit_rate, is_of_what_was_looked_up) {
  value_list counted{};
  EXPECT_FALSE(hit_rate_of(counted));
  counted[domain_value("mr_cache_hits").place] = 3;
  counted[domain_value("mr_cache_misses").place] = 1;
  EXPECT_DOUBLE_EQ(*hit_rate_of(counted), 0.75);
}

}  // namespace
}  // namespace gaudi::top
