// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "base/outstanding_page.hpp"
#include "base/path_reasons.hpp"
#include "evidence_by_hand.hpp"

namespace gaudi::top {
namespace {

namespace outstanding = base::outstanding;
using outstanding::record;
using outstanding::record_kind;
using outstanding::wait_reason;
using test::now;
using test::one_second;
using test::process_at;
using test::record_of_peer;
using test::waiting;

TEST(why, blames_the_peer_for_what_is_seen_to_be_the_matter_with_it) {
  evidence known = waiting(wait_reason::matching_receive);
  EXPECT_EQ(verdict_of(known).text,
            "1 operation waits for a matching receive at 127.0.0.1:200 (process 2, app), which has "
            "not got the message within 12 s");
  EXPECT_EQ(verdict_of(known).culprit, "network");
  known.subject.operations[0].since = now - one_second / 2;
  EXPECT_EQ(verdict_of(known).culprit, "no-answer") << "it may be on its way";
  known.subject.operations[0].since = now - 12 * one_second;
  known.host[1].operations.push_back(record_of_peer(record_kind::operation, 100));
  EXPECT_EQ(verdict_of(known).culprit, "no-answer") << "it has got it";
  known.host[1].endpoints[0].counts[outstanding::unexpected_messages] = 1;
  EXPECT_EQ(verdict_of(known).culprit, "no-receive");
  EXPECT_EQ(verdict_of(known).text,
            "1 operation waits for a matching receive at 127.0.0.1:200 (process 2, app), which has "
            "posted no matching receive");
  record copied = record_of_peer(record_kind::operation, 100);
  copied.wait = wait_reason::device_copy;
  known.host[1].operations.push_back(copied);
  EXPECT_EQ(verdict_of(known).culprit, "peer-device");
  known.host[1].endpoints[0].seen = now - 2 * one_second;
  EXPECT_EQ(verdict_of(known).culprit, "peer-application");
  known.host[1].endpoints[0].flags = outstanding::asleep;
  EXPECT_EQ(verdict_of(known).culprit, "peer-device") << "it sleeps until something comes";
  known.host[1].state = 'T';
  EXPECT_EQ(verdict_of(known).culprit, "peer-stopped");
}

record call_since(std::uint64_t since, outstanding::call_kind kind) {
  record r{};
  r.kind = record_kind::call;
  r.type = static_cast<std::uint8_t>(kind);
  r.device = 3;
  r.total = 64 << 20;
  r.since = since;
  std::memcpy(r.address.data(), "mlx5_0", 7);
  return r;
}

TEST(why, names_a_driver_that_does_not_come_back) {
  evidence known = waiting(wait_reason::matching_receive);
  record& own = known.subject.calls.emplace_back(
      call_since(now - one_second / 2, outstanding::call_kind::register_dmabuf));
  EXPECT_EQ(verdict_of(known).culprit, "network") << "that long it may take";
  own.since = now - 12 * one_second;
  known.subject.endpoints[0].seen = own.since;
  EXPECT_EQ(verdict_of(known).culprit, "driver");
  EXPECT_EQ(
      verdict_of(known).text,
      "a thread has been registering 67M bytes of device memory with mlx5_0 for 12 s: see the "
      "kernel's log (dmesg)");
  EXPECT_NE(text_of(known).find("   12 s registering 67M bytes of device memory with mlx5_0\n"),
            std::string::npos)
      << text_of(known);
  const auto said = nlohmann::json::parse(json_of(known)).at("calls").at(0);
  EXPECT_EQ(said.at("call"), "register_dmabuf");
  EXPECT_EQ(said.at("nic"), "mlx5_0");
  EXPECT_EQ(said.at("bytes"), 64 << 20);
  own = call_since(own.since, outstanding::call_kind::export_memory);
  EXPECT_EQ(verdict_of(known).text.find("a thread has been exporting 67M bytes of gaudi3 as"), 0U);
}

TEST(why, blames_a_peer_that_keeps_others_waiting_for_its_driver) {
  evidence known = waiting(wait_reason::matching_receive);
  known.host[1].calls.push_back(
      call_since(now - 12 * one_second, outstanding::call_kind::open_device));
  EXPECT_EQ(verdict_of(known).culprit, "network") << "another thread of it goes on";
  known.host[1].endpoints[0].flags = outstanding::asleep;
  EXPECT_EQ(verdict_of(known).culprit, "peer-driver");
  known.host[1].endpoints[0].flags = 0;
  known.host[1].endpoints[0].seen = now - 11 * one_second;
  EXPECT_EQ(verdict_of(known).culprit, "peer-driver");
  EXPECT_NE(verdict_of(known).text.find(", where a thread has been opening gaudi3 for 12 s"),
            std::string::npos);
}

TEST(why, says_how_long_a_peer_that_it_cannot_see_was_silent) {
  evidence known = waiting(wait_reason::network);
  known.host.pop_back();
  EXPECT_EQ(verdict_of(known).text,
            "1 operation waits for the network to 127.0.0.1:200, silent for 12 s");
  EXPECT_EQ(verdict_of(known).culprit, "peer-silent");
  known.subject.operations[0].seen = now - one_second / 2;
  EXPECT_EQ(verdict_of(known).culprit, "network");
  known.subject.operations[0].seen = now - 12 * one_second;
  known.subject.operations[0].since = now - one_second / 2;
  EXPECT_EQ(verdict_of(known).culprit, "network") << "nothing was asked of it before";
}

TEST(why, finds_a_peer_by_its_address_as_long_as_it_has_not_said_its_number) {
  evidence known = waiting(wait_reason::peer_data);
  known.subject.operations[0].instance = 0;
  known.host[1].state = 't';
  EXPECT_EQ(verdict_of(known).culprit, "peer-stopped") << "by a debugger";
}

TEST(why, counts_those_that_wait_for_the_same_and_for_the_same_peer) {
  evidence known = waiting(wait_reason::peer_data);
  const record oldest = known.subject.operations[0];
  known.subject.operations.push_back(oldest);
  known.subject.operations.push_back(record_of_peer(record_kind::operation, 300));
  known.subject.operations.back().wait = wait_reason::peer_data;
  known.subject.operations.push_back(oldest);
  known.subject.operations.back().wait = wait_reason::network;
  EXPECT_EQ(verdict_of(known).text.substr(0, 34), "2 operations wait for data of 127.");
  for (record& r : known.subject.operations) r.wait = wait_reason::staging;
  EXPECT_EQ(verdict_of(known).text.substr(0, 43), "4 operations wait for staging memory of thi")
      << "whoever the peer is";
}

TEST(why, gives_an_application_a_second_between_two_calls) {
  evidence known = waiting(wait_reason::peer_data);
  known.subject.endpoints[0].seen = now - one_second + 1;
  known.host[1].endpoints[0].seen = now - one_second + 1;
  EXPECT_EQ(verdict_of(known).culprit, "peer-data");
  known.host[1].endpoints[0].seen = now - one_second;
  EXPECT_EQ(verdict_of(known).culprit, "peer-application");
  known.subject.endpoints[0].seen = now - one_second;
  EXPECT_EQ(verdict_of(known).culprit, "application");
}

TEST(why, tells_of_the_last_loss_of_all_endpoints) {
  evidence known = waiting(wait_reason::peer_data);
  known.subject.operations.clear();
  for (const std::uint64_t ago : {9, 4, 7}) {
    record e = known.subject.endpoints[0];
    e.total = ago;
    e.done = now - ago * one_second;
    known.subject.endpoints.push_back(e);
  }
  EXPECT_EQ(verdict_of(known).text,
            "4 devices lost by reset, hang or removal, the last 4 s ago: what was there failed");
}

TEST(why, blames_the_process_itself_first) {
  evidence known = waiting(wait_reason::peer_data);
  known.subject.operations[0].flags = outstanding::device_lost;
  known.subject.operations[0].device = 3;
  EXPECT_EQ(verdict_of(known).culprit, "device-lost");
  known.subject.endpoints[0].seen = now - 7 * one_second;
  EXPECT_EQ(verdict_of(known).text,
            "the application has not called the provider for 7 s, 1 operation outstanding");
  known.subject.state = 'T';
  EXPECT_EQ(verdict_of(known).culprit, "stopped");
}

TEST(why, goes_by_connections_receives_and_losses_where_no_operation_is_outstanding) {
  evidence known = waiting(wait_reason::credit);
  known.subject.connections = std::exchange(known.subject.operations, {});
  EXPECT_EQ(verdict_of(known).culprit, "credit");
  known.subject.connections[0].wait = wait_reason::application;
  EXPECT_EQ(verdict_of(known).culprit, "application");
  known.subject.connections.clear();
  EXPECT_EQ(verdict_of(known).culprit, "nothing");
  known.subject.endpoints[0].counts[outstanding::posted_receives] = 2;
  EXPECT_EQ(verdict_of(known).culprit, "no-message");
  known.subject.endpoints[0].total = 1;
  known.subject.endpoints[0].done = now - one_second;
  EXPECT_EQ(verdict_of(known).culprit, "device-lost");
}

TEST(why, prints_the_verdict_first_in_80_columns_and_the_same_as_json) {
  evidence known = waiting(wait_reason::peer_data);
  known.subject.endpoints[0].counts[outstanding::operations] = 3;
  known.subject.connections.push_back(known.subject.operations[0]);
  const std::string text = text_of(known);
  EXPECT_EQ(text.substr(0, text.find('\n')), verdict_of(known).text);
  std::size_t at = text.find('\n') + 1;
  for (std::size_t end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
    EXPECT_LE(end - at, 80U) << text.substr(at, end - at);
  EXPECT_NE(text.find("2 operations more"), std::string::npos);
  const auto document = nlohmann::json::parse(json_of(known));
  EXPECT_EQ(document["culprit"], "peer-data");
  EXPECT_EQ(document["operations"][0]["bytes"], 1 << 20);
  EXPECT_EQ(document["operations"][0]["waits_for"], "peer_data");
  EXPECT_EQ(document["unlisted"], 2);
  known.subject.endpoints[0].counts[outstanding::operations] = 0;
  EXPECT_EQ(nlohmann::json::parse(json_of(known))["unlisted"], 0) << "begun after it was counted";
}

TEST(why, breaks_a_long_verdict_at_blanks) {
  evidence known = waiting(wait_reason::matching_receive);
  const std::string text = text_of(known);
  EXPECT_EQ(text.substr(0, text.find("\n\n")),
            "1 operation waits for a matching receive at 127.0.0.1:200 (process 2, app),\n"
            "  which has not got the message within 12 s");
  for (int length = 1; length < 100; ++length) {
    known.host[1].command += length % 10 == 0 ? ' ' : 'x';
    std::istringstream lines(text_of(known));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
  }
}

TEST(why, shows_rows_that_differ_in_their_age_alone_once) {
  evidence known = waiting(wait_reason::peer_data);
  record r = known.subject.operations[0];
  const auto rows = [&] {
    const std::string text = text_of(known);
    return text.substr(text.find("WAITS FOR\n") + 10);
  };
  const std::string one = rows();
  for (int i = 0; i < 2; ++i) {
    r.since += one_second;
    known.subject.operations.push_back(r);
  }
  EXPECT_EQ(rows(), one + "      2 more like this\n");
  r.done = 4096;
  known.subject.operations.push_back(r);
  r.done = 0;
  known.subject.operations.push_back(r);
  const std::string text = rows();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4) << text;
  EXPECT_EQ(text.find("2 more like this\n"), one.size() + 6) << text;
}

TEST(why, says_once_for_each_path_why_it_is_taken) {
  evidence known = waiting(wait_reason::peer_data);
  record& staged = known.subject.operations[0];
  staged.path = outstanding::path_kind::staged;
  staged.counts[outstanding::path_reason_code] =
      static_cast<std::uint64_t>(base::path_reason::device_is_not_reached);
  known.subject.operations.push_back(staged);
  const std::string line = "staged   no NIC has this device memory registered\n";
  const std::string text = text_of(known);
  ASSERT_NE(text.find(line), std::string::npos) << text;
  EXPECT_EQ(text.find(line, text.find(line) + 1), std::string::npos) << text;
  const auto document = nlohmann::json::parse(json_of(known));
  EXPECT_EQ(document["operations"][1]["path_reason"], "no NIC has this device memory registered");
}

TEST(why, says_nothing_of_a_path_that_the_other_end_has_chosen) {
  const std::string text = text_of(waiting(wait_reason::matching_receive));
  EXPECT_EQ(text.find("PATH, and why"), std::string::npos) << text;
}

TEST(age_text, is_short_whatever_it_is) {
  EXPECT_EQ(age_text(4'000'000), "4 ms");
  EXPECT_EQ(age_text(12 * one_second), "12 s");
  EXPECT_EQ(age_text(600 * one_second), "10 min");
  EXPECT_EQ(age_text(10000 * one_second), "2 h");
}

/// A page whose every byte a test may change.
class crafted_outstanding_page {
 public:
  crafted_outstanding_page()
      : fd_(::memfd_create(outstanding::page_name, MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
    outstanding::page_header h{};
    h.magic = outstanding::magic;
    h.version = outstanding::version;
    h.header_size = outstanding::header_size;
    h.page_size = outstanding::page_size;
    h.record_size = sizeof(record);
    h.record_count = outstanding::record_count;
    h.pid = ::getpid();
    EXPECT_EQ(::ftruncate(fd_.get(), outstanding::page_size), 0);
    put(0, h);
    EXPECT_EQ(::fcntl(fd_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
  }
  template <class T>
  void put(std::size_t offset, const T& value) {
    EXPECT_EQ(::pwrite(fd_.get(), &value, sizeof value, static_cast<off_t>(offset)),
              static_cast<ssize_t>(sizeof value));
  }
  void put_record(std::size_t i, const record& r) {
    put(outstanding::header_size + i * sizeof r, r);
  }
  outstanding_result read() const { return read_outstanding(fd_.get(), ::getpid()); }

 private:
  base::scoped_fd fd_;
};

TEST(outstanding_page_reader, takes_no_call_that_is_not_written_yet) {
  crafted_outstanding_page page;
  page.put_record(0, call_since(0, outstanding::call_kind::open_device));
  page.put_record(1, call_since(7, outstanding::call_kind::open_device));
  const auto seen = page.read();
  ASSERT_EQ(seen.found.size(), 1U);
  ASSERT_EQ(seen.found[0].calls.size(), 1U);
  EXPECT_EQ(seen.found[0].calls[0].since, 7U);
}

TEST(outstanding_reader, takes_whole_records_the_oldest_first_and_counts_torn_ones) {
  crafted_outstanding_page page;
  record r = record_of_peer(record_kind::operation, 1);
  r.sequence = 2;
  r.since = 9;
  page.put_record(0, r);
  r.since = 4;
  page.put_record(outstanding::max_operations - 1, r);
  r.sequence = 3;
  page.put_record(1, r);
  const auto seen = page.read();
  ASSERT_EQ(seen.found.size(), 1U) << seen.error;
  ASSERT_EQ(seen.found[0].operations.size(), 2U);
  EXPECT_EQ(seen.found[0].operations[0].since, 4U);
  EXPECT_EQ(seen.found[0].unread, 1U);
}

TEST(outstanding_reader, takes_no_page_of_another_layout_or_process) {
  crafted_outstanding_page page;
  page.put(offsetof(outstanding::page_header, version), outstanding::version + 1);
  EXPECT_EQ(page.read().error, "the page has layout version 2, this tool knows 1");
  page.put(offsetof(outstanding::page_header, version), outstanding::version);
  page.put(offsetof(outstanding::page_header, record_count), 1 << 20);
  EXPECT_EQ(page.read().error, "the page's sizes contradict each other");
  page.put(offsetof(outstanding::page_header, pid), ::getpid() + 1);
  EXPECT_TRUE(page.read().found.empty());
  page.put(0, std::uint64_t{0});
  EXPECT_EQ(page.read().error, "not a page of outstanding operations");
}

TEST(outstanding_reader, finds_what_this_process_shows) {
  outstanding::record_owner own(record_kind::operation);
  ASSERT_TRUE(own);
  record r{};
  EXPECT_TRUE(find_outstanding(::getpid()).found[0].operations.empty()) << "nothing is written yet";
  r.since = 1;
  r.total = 4711;
  own.write(r);
  const auto seen = find_outstanding(::getpid());
  ASSERT_EQ(seen.found.size(), 1U) << seen.error;
  ASSERT_EQ(seen.found[0].operations.size(), 1U);
  EXPECT_EQ(seen.found[0].operations[0].total, 4711U);
  own.clear();
  EXPECT_TRUE(find_outstanding(::getpid()).found[0].operations.empty());
  own.reset();
  EXPECT_TRUE(find_outstanding(::getpid()).found[0].operations.empty());
}

}  // namespace
}  // namespace gaudi::top
