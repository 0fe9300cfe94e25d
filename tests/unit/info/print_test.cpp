// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The look of gaudi_info on a server with eight Gaudis and nine NICs.
#include "print.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "../topo/recorded_sysfs.hpp"
#include "collect.hpp"

namespace gaudi::info {
namespace {

using topo::test::recorded_sysfs;

report server() {
  const recorded_sysfs machine("four_switches");
  report r;
  r.nics = collect_nics(machine.root());
  for (auto& n : r.nics) {
    n.driver = "mlx5_core";
    n.link = "ACTIVE";
    n.rate = "200 Gb/sec (4X HDR)";
    n.layer = "InfiniBand";
    n.offered = true;
  }
  int index = 0;
  for (const char* bus_id : {"0000:19:00.0", "0000:1a:00.0", "0000:33:00.0", "0000:34:00.0",
                             "0000:9a:00.0", "0000:9b:00.0", "0000:cc:00.0", "0000:cd:00.0"})
    r.devices.push_back({.index = index++,
                         .name = "Gaudi2",
                         .bus_id = bus_id,
                         .place = topo::place_of_function(bus_id, machine.root()),
                         .module_id = 3,
                         .hbm_total = std::uint64_t{96} << 30,
                         .hbm_free = std::uint64_t{95} << 30,
                         .state = "in use",
                         .mode = owner_mode::other_process,
                         .holders = {{.pid = 4194304, .command = "fifteen_letters"}}});
  r.probed = true;
  for (std::size_t nic = 0; nic < r.nics.size(); ++nic)
    r.probes.push_back({.device = 0,
                        .nic = nic,
                        .zero_copy = nic < 4,
                        .code = nic < 4 ? 0 : -1,
                        .why = nic < 4 ? reg::registration_failure{} : reg::diagnose(-1)});
  return r;
}

std::string text_of(const report& r, bool all = false) {
  testing::internal::CaptureStdout();
  print_text(r, all);
  std::fflush(stdout);
  return testing::internal::GetCapturedStdout();
}

TEST(text, fits_eighty_columns) {
  std::istringstream lines(text_of(server()));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
}

TEST(text, shows_distance_and_path_of_each_pair) {
  const std::string text = text_of(server());
  EXPECT_THAT(text, testing::HasSubstr("mlx5_0"));
  // The first Gaudi was tried with all: its own switch, the other switch of the socket, ...
  EXPECT_THAT(text, testing::ContainsRegex("gaudi0 +PIX Z +PIX Z +NODE Z +NODE Z +NODE S +SYS S"));
  EXPECT_THAT(text,
              testing::ContainsRegex("gaudi7 +SYS +SYS +SYS +SYS +SYS +NODE +NODE +PIX +PIX"));
}

TEST(text, tells_whose_each_device_is) {
  report r = server();
  r.devices.resize(4);
  r.devices[0].holders[0].synapse = true;
  r.devices[0].holders.push_back({.pid = 4194305, .command = "another"});
  r.devices[1].holders.clear();
  r.devices[2].state = "free";
  r.devices[2].mode = owner_mode::owner;
  r.devices[2].holders.clear();
  r.devices[3].state = "needs a reset";
  r.devices[3].mode = owner_mode::none;
  EXPECT_THAT(
      text_of(r),
      testing::HasSubstr(
          "  0     in use           dma    process 4194304 (fifteen_letters, Synapse) and 1 more\n"
          "  1     in use           dma    a process that cannot be seen from here\n"
          "  2     free             dma    none; the provider would open it (owner mode)\n"
          "  3     needs a reset    dma    -\n"));
}

TEST(text, keeps_names_and_values_of_parameters_apart) {
  auto r = server();
  r.parameters = {
      {.variable = "FI_GAUDI_SHORT", .value = "1", .given = false, .valid = true},
      {.variable = "FI_GAUDI_" + std::string(30, 'X'), .value = "2", .given = true, .valid = true}};
  const std::string all = text_of(r, true);
  EXPECT_THAT(all, testing::HasSubstr("FI_GAUDI_SHORT  "));
  EXPECT_THAT(all, testing::HasSubstr("X  2\n"));
  const std::string given = text_of(r);
  EXPECT_THAT(given, testing::Not(testing::HasSubstr("FI_GAUDI_SHORT")));
  EXPECT_THAT(given, testing::HasSubstr("X  2\n"));
  r.parameters[1].given = false;
  EXPECT_THAT(text_of(r), testing::HasSubstr("all at their defaults"));
}

TEST(text, shows_up_to_which_length_a_nic_copies_messages_to_a_device) {
  report r = server();
  r.copies.push_back({.device = 0, .table = {}});
  EXPECT_THAT(text_of(r), testing::ContainsRegex("gaudi0 +h2d .*auto +64K\n"));
  EXPECT_THAT(text_of(r), testing::ContainsRegex("gaudi0 +d2h .*auto +-\n"));
  r.copies[0].table.nic = 0;
  EXPECT_THAT(text_of(r), testing::ContainsRegex("gaudi0 +h2d .*auto +off\n"));
}

TEST(text, tells_a_gaudis_own_ports_from_nics) {
  report r = server();
  r.gaudi_ports = {"hbl_0", "hbl_1"};
  EXPECT_THAT(text_of(r), testing::HasSubstr("own ports, to other Gaudis: hbl_0,"));
}

TEST(text, begins_with_the_verdict_and_what_to_type) {
  testing::internal::CaptureStdout();
  print_verdict({cause::small_bar, "It is so.", "change it", {"sudo change it"}},
                {{severity::stops, "IOMMU", "It stands in the way.", {"one", "two"}}});
  std::fflush(stdout);
  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            "Verdict\n  It is so.\n  To change that: change it.\n    sudo change it\n\n"
            "Also found, the worst first (each with a remedy to paste)\n"
            "  stops: IOMMU: It stands in the way.\n    one\n    two\n\n");
}

TEST(text, says_so_where_there_is_nothing) {
  const std::string text = text_of(report{});
  EXPECT_THAT(text, testing::HasSubstr("Gaudis\n  none\n"));
  EXPECT_THAT(text, testing::HasSubstr("RDMA devices\n  none"));
  EXPECT_THAT(text, testing::HasSubstr("libhl-thunk"));
}

TEST(json, is_a_document_with_all_pairs) {
  report r = server();
  r.copies.push_back({.device = 0, .table = {}});
  const verdict v{cause::peer_to_peer, "finding", "remedy"};
  testing::internal::CaptureStdout();
  print_json(r, &v, {{severity::slows, "MTU", "text", {"command"}}});
  std::fflush(stdout);
  const auto document = nlohmann::json::parse(testing::internal::GetCapturedStdout());
  EXPECT_EQ(document["devices"].size(), 8U);
  EXPECT_EQ(document["devices"][0]["owner_mode"], "other process");
  EXPECT_EQ(document["devices"][0]["holders"],
            nlohmann::json::parse(
                R"([{"pid": 4194304, "command": "fifteen_letters", "synapse": false}])"));
  EXPECT_EQ(document["nics"].size(), 9U);
  EXPECT_EQ(document["ways"].size(), 72U);
  EXPECT_EQ(document["ways"][0]["distance"], "PIX");
  EXPECT_EQ(document["ways"][0]["path"], "zero-copy");
  EXPECT_EQ(document["ways"][8]["path"], "staged");
  EXPECT_FALSE(document["ways"][71].contains("path"));
  EXPECT_EQ(document["verdict"]["code"], 43);
  EXPECT_EQ(
      document["findings"],
      nlohmann::json::parse(
          R"([{"weight": "slows", "subject": "MTU", "finding": "text", "commands": ["command"]}])"));
  EXPECT_EQ(document["copies"].size(), 3U);
  EXPECT_EQ(document["copies"][0]["nic"], 65536);
  EXPECT_FALSE(document["copies"][1].contains("nic"));
}

}  // namespace
}  // namespace gaudi::info
