// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

#include "json.hpp"
#include "openmetrics.hpp"
#include "table.hpp"

namespace gaudi::top {
namespace {

process busy(pid_t pid, std::uint64_t bytes, const std::string& nic = "mlx5_0") {
  process p{pid, 1000, {}};
  p.counters.command = "python3 with a long name";
  subject domain{block_kind::domain, -1, nic, "verbs", {}};
  domain.values[domain_value("direct_bytes").place] = bytes;
  domain.values[domain_value("direct_ops").place] = bytes / 1000;
  domain.values[domain_value("zero_copy_bytes").place] = bytes;
  domain.values[domain_value("endpoints").place] = 2;
  subject gaudi{block_kind::device, static_cast<int>(pid) % 8, "Gaudi2", "0000:33:00.0", {}};
  gaudi.values[device_value("zero_copy_bytes").place] = bytes;
  p.counters.subjects = {domain, gaudi};
  return p;
}

struct two_samples {
  explicit two_samples(std::vector<process> processes) {
    now.processes = std::move(processes);
    now.taken_at += std::chrono::seconds(2);
  }
  sample before, now;
  changes all() const { return between(&before, now); }
};

std::string text_of(const std::vector<line>& lines) {
  std::string text;
  for (const line& l : lines) text += l.text + "\n";
  return text;
}

TEST(short_number, fits_five_characters_whatever_it_is) {
  for (const auto& [value, text] : std::vector<std::pair<double, std::string>>{{0, "0"},
                                                                               {7, "7"},
                                                                               {0.25, "0.2"},
                                                                               {812.4, "812"},
                                                                               {999.6, "1.0k"},
                                                                               {9960, "10k"},
                                                                               {1.25e6, "1.2M"},
                                                                               {34e9, "34G"},
                                                                               {1.8e19, "18E"}})
    EXPECT_EQ(short_number(value), text) << value;
}

TEST(table, tells_of_rails_and_interrupted_sessions_where_there_were_some) {
  process p = busy(1, 20'000'000'000);
  const auto text = [&] {
    const two_samples s({p});
    return text_of(frame_of(s.now, s.all(), "12:00:00", {}));
  };
  value_list& values = p.counters.subjects[0].values;
  EXPECT_EQ(text().find("rails"), std::string::npos) << text();
  EXPECT_EQ(text().find("sessions"), std::string::npos) << text();
  values[domain_value("rails_made").place] = 123'456;
  values[domain_value("rails_lost").place] = 2;
  values[domain_value("rail_bytes").place] = 5'000'000'000;
  EXPECT_NE(text().find("\nrails 123k made, 2 lost, 25% of B/s\n"), std::string::npos) << text();
  values[domain_value("connections_interrupted").place] = 3;
  values[domain_value("connections_resumed").place] = 2;
  EXPECT_NE(text().find("\nrails 123k made, 2 lost, 25% of B/s     sessions 3 interrupted, 2 "
                        "resumed\n"),
            std::string::npos)
      << text();
  EXPECT_EQ(text().find("retransmitted"), std::string::npos) << text();
  values[domain_value("packets_again").place] = 17;
  EXPECT_NE(text().find("\nretransmitted: 17 packets, 0 RMA operations\n"), std::string::npos)
      << text();
}

TEST(table, shows_what_each_rail_carries) {
  process p = busy(1, 20'000'000'000);
  subject rail{block_kind::rail, 2, "mlx5_1", "verbs", {}};
  rail.values[place_of(block_kind::rail, "bytes")] = 5'000'000'000;
  rail.values[place_of(block_kind::rail, "ops")] = 10'000;
  rail.values[place_of(block_kind::rail, "up")] = 3;
  p.counters.subjects.push_back(rail);
  const two_samples s({p});
  const std::string text = text_of(frame_of(s.now, s.all(), "12:00:00", {}));
  EXPECT_NE(text.find(" + 2 mlx5_1        3   2.5G   5.0k\n"), std::string::npos) << text;
}

TEST(table, shows_rates_paths_and_devices) {
  const two_samples s({busy(4711, 20'000'000'000)});
  const auto lines = frame_of(s.now, s.all(), "12:00:00", {});
  const std::string text = text_of(lines);
  EXPECT_NE(text.find("1 process, 1 domain, of the last 2 s"), std::string::npos) << text;
  EXPECT_NE(text.find("10GB/s"), std::string::npos) << text;
  EXPECT_NE(text.find("zero-copy 100%"), std::string::npos) << text;
  EXPECT_NE(text.find("gaudi7"), std::string::npos) << text;
  EXPECT_NE(text.find("   4711 python3 wi+ mlx5_0"), std::string::npos) << text;
}

TEST(table, never_leaves_its_window) {
  std::vector<process> many;
  for (int i = 0; i < 60; ++i)
    many.push_back(busy(100000 + i, 1000 + static_cast<std::uint64_t>(i),
                        "a_nic_of_long_name_" + std::to_string(i)));
  const two_samples s(std::move(many));
  for (const std::size_t rows : {1U, 5U, 13U, 14U, 24U, 100U}) {
    const auto lines = frame_of(s.now, s.all(), "12:00:00", {80, rows});
    EXPECT_LE(lines.size(), rows);
    for (const line& l : lines) EXPECT_LE(l.text.size(), 80U) << l.text;
  }
  const std::string text = text_of(frame_of(s.now, s.all(), "12:00:00", {80, 24}));
  EXPECT_NE(text.find("51 more in a taller window"), std::string::npos) << "of the processes:\n"
                                                                        << text;
  EXPECT_NE(text.find(" 100059 "), std::string::npos) << "the busiest is shown:\n" << text;
  EXPECT_EQ(text.find(" 100000 "), std::string::npos) << "and the idlest is not:\n" << text;
}

TEST(table, says_what_it_means_that_there_is_nothing) {
  const two_samples s({});
  EXPECT_NE(text_of(frame_of(s.now, s.all(), "", {})).find("No process shows its counters"),
            std::string::npos);
}

TEST(json_output, has_counters_and_rates_of_each_subject) {
  const two_samples s({busy(4711, 4000)});
  const auto document = nlohmann::json::parse(json_of(s.now, s.all(), 1.5));
  EXPECT_EQ(document.at("seconds"), 2.0);
  const auto& p = document.at("processes").at(0);
  EXPECT_EQ(p.at("pid"), 4711);
  EXPECT_EQ(p.at("domains").at(0).at("nic"), "mlx5_0");
  EXPECT_EQ(p.at("domains").at(0).at("counters").at("direct_bytes"), 4000);
  EXPECT_EQ(p.at("domains").at(0).at("per_second").at("direct_bytes"), 2000.0);
  EXPECT_FALSE(p.at("domains").at(0).at("per_second").contains("endpoints"));
  EXPECT_EQ(p.at("devices").at(0).at("pci"), "0000:33:00.0");
  EXPECT_TRUE(nlohmann::json::parse(json_of(s.now, between(nullptr, s.now), 1.5))
                  .at("processes")
                  .at(0)
                  .at("domains")
                  .at(0)
                  .at("per_second")
                  .is_null());
}

TEST(openmetrics, has_a_family_for_each_value_and_escapes_labels) {
  process p = busy(1, 77);
  p.counters.command = "a\"b\\";
  const std::string text = openmetrics_of({p});
  EXPECT_NE(text.find("# TYPE gaudi_fi_domain_direct_bytes counter\n"), std::string::npos);
  EXPECT_NE(text.find("gaudi_fi_domain_direct_bytes_total{pid=\"1\",command=\"a\\\"b\\\\\","
                      "nic=\"mlx5_0\",core=\"verbs\"} 77\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("gaudi_fi_domain_endpoints{"), std::string::npos) << "a gauge";
  EXPECT_TRUE(text.ends_with("# EOF\n"));
}

class folder {
 public:
  folder() {
    if (!::mkdtemp(path_.data())) std::abort();
  }
  ~folder() { std::filesystem::remove_all(path_); }
  folder(const folder&) = delete;
  folder& operator=(const folder&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path_), {}));
  }

 private:
  std::string path_ = "/tmp/gaudi-top-XXXXXX";
};

// A reader that has the old file open goes on reading that.
TEST(replace_file, puts_another_file_in_its_place) {
  const folder f;
  replace_file(f / "x.prom", "old old old");
  std::ifstream reader(f / "x.prom");
  replace_file(f / "x.prom", "new");
  std::stringstream seen;
  seen << reader.rdbuf();
  EXPECT_EQ(seen.str(), "old old old");
  std::string now;
  std::getline(std::ifstream(f / "x.prom"), now);
  EXPECT_EQ(now, "new");
  struct stat facts {};
  ASSERT_EQ(::stat((f / "x.prom").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0644U) << "for node_exporter, which is another user";
  EXPECT_EQ(f.files(), 1U);
}

TEST(replace_file, leaves_nothing_behind_where_it_fails) {
  const folder f;
  EXPECT_THROW(replace_file(f / "no/such/folder", ""), std::runtime_error);
  std::filesystem::create_directory(f / "taken");
  EXPECT_THROW(replace_file(f / "taken", "x"), std::runtime_error);
  EXPECT_EQ(f.files(), 1U);
}

}  // namespace
}  // namespace gaudi::top
