// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What gaudi_top --why says of connections: those that are being made, and those that were lost.
#include <gtest/gtest.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>

#include "evidence_by_hand.hpp"

namespace gaudi::top {
namespace {

using outstanding_phase = base::outstanding::connection_phase;
using base::outstanding::record;
using base::outstanding::record_kind;
using base::outstanding::wait_reason;
using test::now;
using test::one_second;

/// To the endpoint of a process that nobody sees, since three seconds, for ten at most.
record connection(wait_reason why, std::uint16_t port = 300) {
  record c = test::record_of_peer(record_kind::connection, port);
  c.type =
      static_cast<std::uint8_t>(why == wait_reason::reconnection ? outstanding_phase::reconnecting
                                                                 : outstanding_phase::connecting);
  c.wait = why;
  c.since = now - 3 * one_second;
  c.total = now + 7 * one_second;
  return c;
}

evidence idle() {
  evidence known = test::waiting(wait_reason::peer_data);
  known.subject.operations.clear();
  return known;
}

TEST(why_connection, one_that_is_being_made_says_since_when_and_until_when) {
  evidence known = idle();
  known.subject.connections = {connection(wait_reason::handshake)};
  EXPECT_EQ(verdict_of(known).culprit, "handshake");
  EXPECT_EQ(verdict_of(known).text,
            "the connection with 127.0.0.1:300 is being made for 3 s; given up in 7 s");
  record& c = known.subject.connections[0];
  c.counts[base::outstanding::queued_packets] = 2;
  c.total = 0;
  EXPECT_EQ(verdict_of(known).text,
            "the connection with 127.0.0.1:300 is being made for 3 s, 2 messages wait for it");
}

TEST(why_connection, one_that_was_lost_is_told_from_one_that_is_being_made) {
  evidence known = idle();
  known.subject.connections = {connection(wait_reason::reconnection)};
  known.subject.connections[0].done = ECONNRESET;
  EXPECT_EQ(verdict_of(known).culprit, "connection-lost");
  EXPECT_EQ(verdict_of(known).text,
            "the connection with 127.0.0.1:300 was lost 3 s ago (Connection reset by peer) and is "
            "being made again; given up in 7 s");
  known.subject.connections[0].done = 256;
  known.subject.connections[0].total = now - one_second;
  EXPECT_EQ(verdict_of(known).text,
            "the connection with 127.0.0.1:300 was lost 3 s ago and is being made again; given up "
            "in 0 ms");
}

TEST(why_connection, tells_how_many_others_were_lost_with_it) {
  evidence known = idle();
  const record lost = connection(wait_reason::reconnection);
  known.subject.connections = {lost, connection(wait_reason::credit), lost};
  EXPECT_NE(verdict_of(known).text.find("was lost 3 s ago, as was 1 other and"), std::string::npos)
      << verdict_of(known).text;
  known.subject.connections.push_back(lost);
  EXPECT_NE(verdict_of(known).text.find("was lost 3 s ago, as were 2 others and"),
            std::string::npos)
      << verdict_of(known).text;
}

TEST(why_connection, is_what_its_operations_wait_for) {
  evidence known = test::waiting(wait_reason::matching_receive);
  known.subject.connections = {connection(wait_reason::reconnection)};
  EXPECT_EQ(verdict_of(known).culprit, "network") << "the operation has another one";
  known.subject.connections = {connection(wait_reason::reconnection, 200)};
  EXPECT_EQ(verdict_of(known).culprit, "connection-lost");
  EXPECT_EQ(verdict_of(known).text,
            "the connection with 127.0.0.1:200 (process 2, app) was lost 3 s ago and is being made "
            "again, 1 operation waits for it; given up in 7 s");
  known.subject.connections[0].endpoint = 1;
  EXPECT_EQ(verdict_of(known).culprit, "network") << "the connection is another endpoint's";
  known.subject.connections[0].endpoint = 0;
  known.subject.connections[0].wait = wait_reason::credit;
  EXPECT_EQ(verdict_of(known).culprit, "network") << "it was not lost";
  known.subject.connections[0].wait = wait_reason::reconnection;
  known.subject.operations[0].wait = wait_reason::device_copy;
  EXPECT_EQ(verdict_of(known).culprit, "device") << "which needs no connection";
}

TEST(why_connection, is_not_made_by_a_peer_that_does_nothing) {
  for (const wait_reason why : {wait_reason::handshake, wait_reason::reconnection}) {
    evidence known = idle();
    known.subject.connections = {connection(why, 200)};
    known.host[1].state = 'T';
    EXPECT_EQ(verdict_of(known).culprit, "peer-stopped");
    EXPECT_TRUE(verdict_of(known).text.starts_with(
        "the connection with 127.0.0.1:200 (process 2, app), which is stopped (by a signal), "))
        << verdict_of(known).text;
    known.host[1].state = 'S';
    known.host[1].endpoints[0].seen = now - 9 * one_second;
    EXPECT_EQ(verdict_of(known).culprit, "peer-application");
  }
}

TEST(why_connection, that_waits_longest_is_blamed_before_younger_operations) {
  evidence known = test::waiting(wait_reason::device_copy);
  known.subject.connections = {connection(wait_reason::handshake)};
  EXPECT_EQ(verdict_of(known).culprit, "device");
  known.subject.operations[0].since = known.subject.connections[0].since;
  EXPECT_EQ(verdict_of(known).culprit, "device") << "it is not younger";
  known.subject.operations[0].since = known.subject.connections[0].since + 1;
  EXPECT_EQ(verdict_of(known).culprit, "handshake");
}

TEST(why_connection, may_be_kept_by_what_the_peers_end_of_it_lacks) {
  evidence known = test::waiting(wait_reason::matching_receive);
  record c = test::record_of_peer(record_kind::connection, 100);
  c.since = now - 4 * one_second;
  const auto with = [&](wait_reason why) {
    c.wait = why;
    known.host[1].connections = {c};
    return verdict_of(known);
  };
  EXPECT_EQ(with(wait_reason::reconnection).culprit, "connection-lost");
  EXPECT_EQ(with(wait_reason::reconnection).text,
            "1 operation waits for a matching receive at 127.0.0.1:200 (process 2, app), which has "
            "lost its connection with this process 4 s ago");
  EXPECT_EQ(with(wait_reason::memory).culprit, "peer-memory");
  EXPECT_EQ(with(wait_reason::application).culprit, "peer-application");
  EXPECT_EQ(with(wait_reason::credit).culprit, "no-answer");
  c.instance = 101;
  EXPECT_EQ(with(wait_reason::memory).culprit, "network") << "it is with another process";
}

TEST(why_connection, an_endpoint_alone_may_be_forgotten_by_its_application) {
  evidence known = test::waiting(wait_reason::peer_data);
  record other = test::record_of_peer(record_kind::endpoint, 101);
  other.endpoint = 1;
  known.subject.endpoints.push_back(other);
  known.subject.endpoints[0].seen = now - 9 * one_second;
  EXPECT_EQ(verdict_of(known).culprit, "application");
  EXPECT_EQ(verdict_of(known).text,
            "the application progresses other endpoints, and has not progressed the one that waits "
            "for 9 s");
  std::swap(known.subject.endpoints[0].seen, known.subject.endpoints[1].seen);
  EXPECT_EQ(verdict_of(known).culprit, "peer-data") << "nothing waits on the forgotten one";

  known.host[1].endpoints.push_back(record(other));
  known.host[1].endpoints[0].seen = now - 9 * one_second;
  EXPECT_EQ(verdict_of(known).text,
            "1 operation waits for data of 127.0.0.1:200 (process 2, app), whose application has "
            "not progressed that endpoint for 9 s");
  known.host[1].endpoints[1].seen = now - 8 * one_second;
  EXPECT_EQ(verdict_of(known).text,
            "1 operation waits for data of 127.0.0.1:200 (process 2, app), whose application has "
            "not called the provider for 9 s");
}

TEST(why_connection, has_a_word_for_each_phase) {
  constexpr auto last = static_cast<std::uint8_t>(outstanding_phase::resuming);
  const std::vector<std::string> words{"connecting", "accepting", "failed",    "connected",
                                       "closing",    "lost",      "reconnect", "reaccept",
                                       "resuming",   "unknown"};
  for (std::uint8_t phase = 0; phase <= last + 1; ++phase) {
    evidence known = idle();
    known.subject.connections = {connection(wait_reason::reconnection)};
    known.subject.connections[0].type = phase;
    const auto document = nlohmann::json::parse(json_of(known));
    EXPECT_EQ(document["connections"][0]["state"], words.at(phase));
    EXPECT_EQ(document["connections"][0]["waits_for"], "reconnection");
    const std::string text = text_of(known);
    const std::string row = text.substr(text.rfind('\n', text.size() - 2) + 1);
    EXPECT_NE(row.find(words.at(phase)), std::string::npos) << row;
    EXPECT_LE(row.size(), 81U) << row;
  }
}

}  // namespace
}  // namespace gaudi::top
