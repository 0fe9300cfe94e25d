// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "latencies.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "crafted_page.hpp"
#include "json.hpp"
#include "openmetrics.hpp"
#include "page_reader.hpp"
#include "table.hpp"

namespace gaudi::top {
namespace {

using base::counters::latency_kind;

subject timed(latency_kind kind, std::initializer_list<std::uint64_t> times) {
  histogram h;
  for (const std::uint64_t took : times) h.add(took);
  subject s{block_kind::latency, static_cast<int>(kind), "nic0", "verbs", {}};
  std::memcpy(s.values.data(), &h, sizeof h);
  return s;
}

process with(std::vector<subject> subjects, pid_t pid = 4711) {
  process p{pid, 1000, {}};
  p.counters.command = "app";
  p.counters.subjects = std::move(subjects);
  return p;
}

struct earlier_and_later {
  earlier_and_later(std::vector<process> earlier, std::vector<process> later) {
    before.processes = std::move(earlier);
    now.processes = std::move(later);
    now.taken_at += std::chrono::seconds(2);
  }
  changes all() const { return between(&before, now); }
  sample before, now;
};

TEST(latencies, have_quantiles_as_far_as_buckets_tell) {
  histogram h;
  EXPECT_EQ(quantile_of(h, 0.5), std::nullopt);
  for (int i = 0; i < 98; ++i) h.add(1000);
  h.add(5000);
  h.add(70000);
  EXPECT_EQ(quantile_of(h, 0), 1024U);
  EXPECT_EQ(quantile_of(h, 0.5), 1024U);
  EXPECT_EQ(quantile_of(h, 0.98), 1024U);
  EXPECT_EQ(quantile_of(h, 0.99), 8192U);
  EXPECT_EQ(quantile_of(h, 1), 131072U);
}

TEST(latencies, are_short_as_text) {
  for (const auto& [time, text] :
       std::vector<std::pair<std::uint64_t, std::string>>{{1, "1ns"},
                                                          {512, "512ns"},
                                                          {1024, "1.0us"},
                                                          {16384, "16us"},
                                                          {999'600, "1.0ms"},
                                                          {1U << 30U, "1.1s"},
                                                          {500'000'000'000, "500s"}})
    EXPECT_EQ(duration_text(time), text);
}

TEST(latencies, are_those_of_late_and_of_all_processes) {
  const earlier_and_later s(
      {with({timed(latency_kind::message, {100, 100}), timed(latency_kind::rma_read, {9})})},
      {with({timed(latency_kind::message, {100, 100, 3000}), timed(latency_kind::rma_read, {9}),
             timed(latency_kind::rma_write, {})}),
       with({timed(latency_kind::message, {3000})}, 4712)});
  const auto found = latencies_of(s.all());
  ASSERT_EQ(found.size(), 2U) << "nothing of what was not timed";
  EXPECT_EQ(found[0].number, 0);
  EXPECT_EQ(count_of(found[0].times), 2U);
  EXPECT_EQ(quantile_of(found[0].times, 0.5), 4096U);
  EXPECT_EQ(quantile_of(found[1].times, 0.5), 16U) << "none of late: of all time";
}

TEST(latencies, come_out_of_a_page) {
  test::crafted_page p;
  histogram h;
  h.add(77);
  auto& block = p.add(0, block_kind::latency, "nic0", "verbs", 4);
  std::memcpy(block.values.data(), &h, sizeof h);
  const page_result read = parse_page(p.bytes());
  ASSERT_TRUE(read.found) << read.error;
  ASSERT_EQ(read.found->subjects.size(), 1U);
  const histogram seen = histogram_of(read.found->subjects[0].values);
  EXPECT_EQ(seen.sum, 77U);
  EXPECT_EQ(seen.buckets, h.buckets);
  EXPECT_EQ(operation_name(read.found->subjects[0].number), "rma_read");
  EXPECT_EQ(operation_name(99), "other");
}

TEST(latencies, are_in_the_table_where_there_is_room) {
  const earlier_and_later s({}, {with({timed(latency_kind::message, {100, 3000}),
                                       timed(latency_kind::device_copy, {1'500'000}),
                                       timed(latency_kind::rma_read, {9})})});
  const auto text_of = [&](std::size_t rows) {
    std::string text;
    for (const line& l : frame_of(s.now, s.all(), "12:00:00", {80, rows})) {
      EXPECT_LE(l.text.size(), 80U);
      text += l.text + "\n";
    }
    return text;
  };
  const std::string text = text_of(24);
  EXPECT_NE(text.find("message             128ns  4.1us  4.1us"), std::string::npos) << text;
  EXPECT_NE(text.find("device_copy         2.1ms  2.1ms  2.1ms"), std::string::npos) << text;
  EXPECT_EQ(text_of(9).find("LATENCY"), std::string::npos);
}

TEST(latencies, are_in_json_with_the_ends_of_their_buckets) {
  const earlier_and_later s({},
                            {with({timed(latency_kind::message, {100, 3000, UINT64_MAX >> 1U})})});
  const auto found =
      nlohmann::json::parse(json_of(s.now, s.all(), 0)).at("processes").at(0).at("latencies").at(0);
  EXPECT_EQ(found.at("operation"), "message");
  EXPECT_EQ(found.at("nic"), "nic0");
  EXPECT_EQ(found.at("count"), 3);
  EXPECT_EQ(found.at("buckets"),
            nlohmann::json::parse(R"([{"le_ns":128,"count":1},{"le_ns":4096,"count":1},
                                      {"le_ns":null,"count":1}])"));
}

TEST(latencies, are_a_histogram_of_openmetrics) {
  const std::string text =
      openmetrics_of({with({timed(latency_kind::message, {2, 100, 3000, UINT64_MAX >> 1U}),
                            timed(latency_kind::rma_read, {})})});
  const std::string labels =
      "{pid=\"4711\",command=\"app\",nic=\"nic0\",core=\"verbs\","
      "operation=\"message\"";
  const std::string name = "gaudi_fi_domain_latency_seconds";
  for (const std::string& expected :
       {"# TYPE " + name + " histogram\n", name + "_bucket" + labels + ",le=\"1.28e-07\"} 2\n",
        name + "_bucket" + labels + ",le=\"4.096e-06\"} 3\n",
        name + "_bucket" + labels + ",le=\"+Inf\"} 4\n", name + "_count" + labels + "} 4\n"})
    EXPECT_NE(text.find(expected), std::string::npos) << expected << "\nin\n" << text;
  EXPECT_EQ(text.find("rma_read"), std::string::npos) << "nothing of what was not timed";
  EXPECT_EQ(text.find("# EOF"), text.size() - 6);
}

}  // namespace
}  // namespace gaudi::top
