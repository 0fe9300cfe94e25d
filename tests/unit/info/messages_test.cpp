// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "messages.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace gaudi::info {
namespace {

using base::path_reason;
using testing::ElementsAre;
using testing::IsEmpty;

/// Two Gaudis and a NIC.
report over(std::string core) {
  report r;
  r.software.core = std::move(core);
  r.devices.resize(2);
  r.nics.resize(1);
  return r;
}

report tried(bool first, bool second) {
  report r = over("verbs");
  r.probed = true;
  r.probes.push_back({.device = 0, .nic = 0, .zero_copy = first});
  r.probes.push_back({.device = 1, .nic = 0, .zero_copy = second});
  return r;
}

/// "host>Gaudi read by the receiver" and so on.
std::vector<std::string> ways(const report& r, const base::params& params = {}) {
  std::vector<std::string> all;
  for (const message_fact& m : expected_messages(r, params))
    all.push_back(m.from + ">" + m.to + " " + way_text(m.chosen.path));
  return all;
}

path_reason reason(const report& r, const std::string& from, const std::string& to,
                   const base::params& params = {}) {
  for (const message_fact& m : expected_messages(r, params))
    if (m.from == from && m.to == to) return m.chosen.reason;
  return path_reason::undecided;
}

TEST(expected_messages, are_staged_over_tcp) {
  const report r = over("tcp");
  EXPECT_THAT(
      ways(r),
      ElementsAre("host>host read by the receiver", "host>Gaudi read by the receiver",
                  "Gaudi>host written by the sender", "Gaudi>Gaudi through staging buffers"));
  EXPECT_EQ(reason(r, "Gaudi", "host"), path_reason::source_asks_to_write);
  EXPECT_EQ(reason(r, "Gaudi", "Gaudi"), path_reason::device_is_not_reached);
}

TEST(expected_messages, are_not_read_over_an_old_tcp) {
  report r = over("tcp");
  r.software.core_reads = false;
  EXPECT_THAT(
      ways(r),
      ElementsAre("host>host written by the sender", "host>Gaudi through staging buffers",
                  "Gaudi>host written by the sender", "Gaudi>Gaudi through staging buffers"));
  EXPECT_EQ(reason(r, "host", "host"), path_reason::core_reads_badly);
}

TEST(expected_messages, are_read_where_a_nic_reaches_the_gaudis) {
  EXPECT_THAT(ways(tried(true, true)),
              ElementsAre("host>host read by the receiver", "host>Gaudi read by the receiver",
                          "Gaudi>host read by the receiver", "Gaudi>Gaudi read by the receiver"));
}

TEST(expected_messages, differ_where_some_gaudis_are_not_reached) {
  const report r = tried(true, false);
  EXPECT_EQ(ways(r).size(), 9U);
  EXPECT_EQ(reason(r, "Gaudi Z", "Gaudi S"), path_reason::source_can_be_read);
  EXPECT_EQ(reason(r, "Gaudi S", "Gaudi Z"), path_reason::source_asks_to_write);
  EXPECT_EQ(reason(r, "Gaudi S", "Gaudi S"), path_reason::device_is_not_reached);
}

TEST(expected_messages, follow_the_parameters) {
  const report r = tried(true, true);
  base::params staged;
  staged.rndv = base::rendezvous_choice::staged;
  EXPECT_EQ(reason(r, "Gaudi", "Gaudi", staged), path_reason::staging_is_chosen);
  EXPECT_EQ(reason(r, "host", "host", staged), path_reason::source_can_be_read);
  base::params written;
  written.rndv = base::rendezvous_choice::write;
  EXPECT_EQ(reason(r, "Gaudi", "Gaudi", written), path_reason::source_asks_to_write);
  base::params without;
  without.dmabuf = base::dmabuf_choice::off;
  EXPECT_EQ(reason(r, "Gaudi", "Gaudi", without), path_reason::device_is_not_reached);
}

TEST(expected_messages, are_told_of_what_is_known_only) {
  EXPECT_THAT(expected_messages(over("verbs"), {}), IsEmpty()) << "nobody has tried";
  EXPECT_THAT(expected_messages(over(""), {}), IsEmpty()) << "no core";
  report r = over("tcp");
  r.devices.clear();
  EXPECT_THAT(expected_messages(r, {}), IsEmpty()) << "no Gaudi";
}

TEST(expected_messages, say_nothing_of_a_gaudi_that_could_not_be_tried) {
  report r = tried(true, true);
  r.probes.pop_back();
  EXPECT_EQ(ways(r), ways(tried(true, true))) << "the other one is taken for both";
  r.probes.clear();
  EXPECT_THAT(expected_messages(r, {}), IsEmpty());
}

TEST(expected_messages, leave_out_what_nothing_can_move) {
  report r = over("tcp");
  for (device_fact& d : r.devices) d.copies = false;
  EXPECT_THAT(ways(r), ElementsAre("host>host read by the receiver"));
  r = tried(true, true);
  for (device_fact& d : r.devices) d.copies = false;
  EXPECT_EQ(ways(r).size(), 4U);
}

}  // namespace
}  // namespace gaudi::info
