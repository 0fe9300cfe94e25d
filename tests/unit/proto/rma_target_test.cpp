// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// One-sided requests as they come from a peer: which memory they may touch, what the peer and the
// application are told, and that each request's credit goes back.
#include "proto/rma/rma_target.hpp"

#include <rdma/fi_atomic.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../base/scarce_memory.hpp"
#include "peer_by_hand.hpp"

namespace gaudi::proto {
namespace {

using test::endpoint_by_itself;
using test::packet_way;
using test::peer_by_hand;

constexpr std::uint64_t operation_of_initiator = 4712;
constexpr std::uint64_t requested_key = 5;
constexpr std::size_t region_length = 20'000;

/// A packet of several parts.
struct long_packet {
  template <class Part>
  void put(std::size_t offset, const Part& part) {
    std::memcpy(reinterpret_cast<std::byte*>(this) + offset, &part, sizeof part);
  }
  wire::header head{};
  std::array<std::byte, 1000> rest{};
};

/// A region of host memory that peers may read and write, in the middle of bytes that they may not.
class requests_of_a_peer : public testing::TestWithParam<packet_way> {
 protected:
  explicit requests_of_a_peer(packet_way way) : peer(v, way) {
    expose(FI_REMOTE_READ | FI_REMOTE_WRITE);
    v.ep->count_peers({&read_here, &written_here});
  }
  requests_of_a_peer() : requests_of_a_peer(GetParam()) {}
  ~requests_of_a_peer() override {
    v.keys.remove(region);
    v.ep.reset();
    region.leave_core();
  }

  static endpoint::settings settings() {
    auto s = test::small_settings();
    s.kernel = &ipc::host_kernel::real();
    s.rx_buffers = 16;
    return s;
  }
  void expose(std::uint64_t access) {
    region.address = reinterpret_cast<std::uint64_t>(bytes.data() + before);
    region.length = region_length;
    region.access = access;
    region.virtual_address = true;
    region.peers_read = &region_read;
    region.peers_wrote = &region_written;
    auto known = v.core->register_memory(bytes.data() + before, region_length, access);
    ASSERT_TRUE(known);
    region.core = std::move(*known);
    ASSERT_TRUE(v.keys.add_requested(region, requested_key));
  }

  /// A request for so many bytes from `offset` in the region on.
  [[nodiscard]] wire::rma_fields request(std::size_t offset, std::uint64_t length) const {
    wire::rma_fields fields{};
    fields.operation = operation_of_initiator;
    fields.address = region.address + offset;
    fields.key = requested_key;
    fields.length = length;
    fields.data = 99;
    return fields;
  }
  void say_write(const wire::rma_fields& fields, std::string_view payload, std::uint8_t flags = 0) {
    long_packet packet;
    packet.put(0, fields);
    std::memcpy(packet.rest.data() + sizeof fields - sizeof packet.head, payload.data(),
                payload.size());
    peer.say(wire::kind::write, packet, sizeof fields + payload.size(), flags);
    peer.settle();
  }
  void say_long_write(const wire::rma_fields& fields, std::span<std::byte> data,
                      std::uint64_t length) {
    announce_write(fields, data, length);
    peer.settle();
  }
  void announce_write(const wire::rma_fields& fields, std::span<std::byte> data,
                      std::uint64_t length) {
    long_packet packet;
    const wire::rts_fields rts{.operation = operation_of_initiator,
                               .length = length,
                               .segment_count = 1,
                               .reserved = 0,
                               .segments = {peer.expose(data)}};
    packet.put(0, fields);
    packet.put(sizeof fields, rts);
    peer.say(wire::kind::write_rts, packet,
             sizeof fields + offsetof(wire::rts_fields, segments) + sizeof(wire::segment),
             wire::want_fin);
  }
  void say_read(const wire::rma_fields& fields) {
    peer.say(wire::kind::read, fields);
    peer.settle();
  }

  /// The one answer that the peer has got is this one.
  void expect_fin(int status) {
    const auto fin = peer.heard<wire::fin_fields>(wire::kind::fin);
    ASSERT_TRUE(fin);
    EXPECT_EQ(fin->operation, operation_of_initiator);
    EXPECT_EQ(fin->status, status);
    EXPECT_EQ(peer.waiting(wire::kind::fin), 0U);
    EXPECT_EQ(peer.waiting(wire::kind::read_reply), 0U);
    EXPECT_EQ(peer.waiting(wire::kind::read_rts), 0U);
  }
  void expect_untouched() const {
    EXPECT_EQ(std::count(bytes.begin(), bytes.end(), std::byte{'.'}),
              static_cast<std::ptrdiff_t>(bytes.size()));
  }
  [[nodiscard]] std::string_view text(std::size_t offset, std::size_t length) const {
    return {reinterpret_cast<const char*>(bytes.data()) + before + offset, length};
  }

  static constexpr std::size_t before = 1000;
  std::vector<std::byte> bytes = std::vector<std::byte>(region_length + 2 * before, std::byte{'.'});
  base::counter read_here;
  base::counter written_here;
  base::counter region_read;
  base::counter region_written;
  reg::region region;
  endpoint_by_itself v{settings()};
  peer_by_hand peer;
};

TEST_P(requests_of_a_peer, write_where_they_say_and_are_answered_once) {
  say_write(request(10, 5), "hello");
  EXPECT_EQ(text(9, 7), ".hello.");
  expect_fin(0);
  EXPECT_TRUE(v.queue.empty()) << "only data of its own tells the application of it";
  EXPECT_EQ(written_here.value(), 1U);
  EXPECT_EQ(region_written.value(), 1U);
  EXPECT_EQ(read_here.value() + region_read.value(), 0U);
}

TEST_P(requests_of_a_peer, tell_of_a_write_with_data_once) {
  say_write(request(0, 5), "hello", wire::cq_data);
  const cq_entry entry = v.take();
  EXPECT_EQ(entry.error, 0);
  EXPECT_EQ(entry.flags, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
  EXPECT_EQ(entry.data, 99U);
  EXPECT_EQ(entry.length, 5U);
  EXPECT_TRUE(v.queue.empty());
  expect_fin(0);
}

TEST_P(requests_of_a_peer, read_what_they_say) {
  std::memcpy(bytes.data() + before + 10, "hello", 5);
  say_read(request(9, 7));
  const auto answer = peer.heard_whole(wire::kind::read_reply);
  ASSERT_TRUE(answer);
  wire::fin_fields fields{};
  std::memcpy(&fields, answer->data(), sizeof fields);
  EXPECT_EQ(fields.operation, operation_of_initiator);
  EXPECT_EQ(fields.status, 0);
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(answer->data()) + sizeof fields,
                             answer->size() - sizeof fields),
            ".hello.");
  EXPECT_EQ(peer.waiting(wire::kind::fin), 0U);
  EXPECT_EQ(read_here.value(), 1U);
  EXPECT_EQ(region_read.value(), 1U);
  EXPECT_EQ(written_here.value() + region_written.value(), 0U);
}

// Its peer reads it by itself, and says when it has.
TEST_P(requests_of_a_peer, for_more_than_a_packet_are_answered_with_the_place) {
  say_read(request(0, region_length));
  const auto answer = peer.heard_whole(wire::kind::read_rts);
  ASSERT_TRUE(answer);
  wire::fin_fields fields{};
  std::memcpy(&fields, answer->data(), sizeof fields);
  EXPECT_EQ(fields.operation, operation_of_initiator);
  wire::rts_fields rts{};
  ASSERT_EQ(answer->size(),
            sizeof fields + offsetof(wire::rts_fields, segments) + sizeof(wire::segment));
  std::memcpy(&rts, answer->data() + sizeof fields, answer->size() - sizeof fields);
  EXPECT_EQ(rts.length, region_length);
  EXPECT_EQ(rts.segments[0].address, region.address);
  EXPECT_EQ(rts.segments[0].length, region_length);
  EXPECT_EQ(read_here.value(), 0U) << "the peer has not read it";
  peer.say(wire::kind::fin,
           wire::fin_fields{.head = {}, .operation = rts.operation, .status = 0, .reserved = 0});
  peer.settle();
  EXPECT_EQ(read_here.value(), 1U);
  EXPECT_EQ(peer.waiting(wire::kind::fin), 0U);
}

TEST_P(requests_of_a_peer, that_are_answered_with_the_place_end_with_the_region) {
  say_read(request(0, region_length));
  ASSERT_TRUE(peer.heard<wire::fin_fields>(wire::kind::read_rts));
  v.ep->quiesce_region(region);
  peer.settle();
  expect_fin(FI_ECANCELED);
  EXPECT_EQ(read_here.value(), 0U);
}

TEST_P(requests_of_a_peer, write_more_than_a_packet_as_well) {
  std::vector<std::byte> data = test::counting(region_length);
  say_long_write(request(0, region_length), data, region_length);
  expect_fin(0);
  EXPECT_EQ(std::memcmp(bytes.data() + before, data.data(), region_length), 0);
  EXPECT_EQ(bytes[before - 1], std::byte{'.'});
  EXPECT_EQ(bytes[before + region_length], std::byte{'.'});
  EXPECT_EQ(written_here.value(), 1U);
}

TEST_P(requests_of_a_peer, that_announce_another_length_than_they_ask_for_end_the_connection) {
  std::vector<std::byte> data = test::counting(region_length);
  say_long_write(request(0, region_length - 1), data, region_length);
  EXPECT_TRUE(peer.is_cut_off());
  expect_untouched();
}

TEST_P(requests_of_a_peer, for_no_bytes_are_answered) {
  say_write(request(region_length, 0), "");
  expect_fin(0);
  say_read(request(region_length, 0));
  EXPECT_TRUE(peer.heard<wire::fin_fields>(wire::kind::read_reply));
}

TEST_P(requests_of_a_peer, whose_payload_has_another_length_end_the_connection) {
  say_write(request(0, 5), "four");
  EXPECT_TRUE(peer.is_cut_off());
  expect_untouched();
}

TEST_P(requests_of_a_peer, whose_payload_is_longer_than_they_say_end_the_connection) {
  say_write(request(0, 5), "sixsix");
  EXPECT_TRUE(peer.is_cut_off());
  expect_untouched();
}

TEST_P(requests_of_a_peer, that_only_may_read_do_not_write) {
  v.keys.remove(region);
  expose(FI_REMOTE_READ);
  say_write(request(0, 5), "hello");
  expect_fin(FI_EACCES);
  expect_untouched();
  say_read(request(0, 5));
  EXPECT_TRUE(peer.heard<wire::fin_fields>(wire::kind::read_reply));
}

TEST_P(requests_of_a_peer, that_only_may_write_do_not_read) {
  v.keys.remove(region);
  expose(FI_REMOTE_WRITE);
  say_read(request(0, 5));
  expect_fin(FI_EACCES);
  say_write(request(0, 5), "hello");
  expect_fin(0);
}

TEST_P(requests_of_a_peer, for_a_region_that_has_ended_are_refused) {
  v.keys.remove(region);
  say_write(request(0, 5), "hello");
  expect_fin(FI_EACCES);
  say_read(request(0, 5));
  expect_fin(FI_EACCES);
  expect_untouched();
}

// All of it is lent to the peer again, whatever became of its requests: four times what it has.
TEST_P(requests_of_a_peer, give_their_credits_back) {
  std::vector<std::byte> data = test::counting(region_length);
  const unsigned rounds = 4 * peer.data_window();
  for (unsigned i = 0; i < rounds; i += 4) {
    say_write(request(0, 5), "hello");
    say_write(request(region_length, 5), "hello");  // outside
    say_read(request(0, 5));
    say_read(request(region_length, 5));
  }
  EXPECT_FALSE(peer.is_cut_off());
  EXPECT_LE(peer.data_credits(), rounds);
  EXPECT_GE(peer.data_credits() + peer.data_window() / 2, rounds);
}

// Not before: the peer would ask for more than there is room to answer.
TEST_P(requests_of_a_peer, that_are_read_for_have_their_credit_back_with_the_answer) {
  wire::header credits{wire::kind::credit, 0, 0, 0, 0};
  for (unsigned i = 0; i < 64; ++i) say_read(request(0, region_length + 1));  // refusals
  const unsigned back = peer.data_credits();
  EXPECT_EQ(peer.waiting(wire::kind::fin), 64U) << "all that the peer has room for";
  for (unsigned i = 0; i < peer.data_window() / 2; ++i) say_read(request(0, 5));
  EXPECT_EQ(peer.waiting(wire::kind::read_reply), 0U);
  EXPECT_LE(peer.data_credits() - back, peer.data_window() / 2);
  credits.connection = peer.known_as();
  credits.control_credits = 64;
  peer.say_as_it_is(&credits, sizeof credits);
  peer.settle();
  EXPECT_EQ(peer.waiting(wire::kind::read_reply), peer.data_window() / 2);
}

TEST_P(requests_of_a_peer, for_a_flush_are_answered_once) {
  peer.say(wire::kind::flush,
           wire::event_fields{
               .head = {}, .data = operation_of_initiator, .length = 5, .address = region.address});
  peer.settle();
  expect_fin(0);
  EXPECT_TRUE(v.queue.empty());
}

TEST_P(requests_of_a_peer, report_writes_of_its_core_once) {
  peer.say(wire::kind::event,
           wire::event_fields{.head = {}, .data = 7, .length = 5, .address = region.address});
  peer.settle();
  const cq_entry entry = v.take();
  EXPECT_EQ(entry.flags, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
  EXPECT_EQ(entry.data, 7U);
  EXPECT_EQ(entry.length, 5U);
  EXPECT_TRUE(v.queue.empty());
  EXPECT_EQ(peer.waiting(wire::kind::fin), 0U);
}

TEST_P(requests_of_a_peer, report_to_nobody_where_there_is_no_queue) {
  v.ep->messages().use_queue(nullptr, false);
  for (unsigned i = 0; i < 3U * wire::control_window; ++i) {
    peer.say(wire::kind::event,
             wire::event_fields{.head = {}, .data = 7, .length = 5, .address = region.address});
    peer.settle();
  }
  say_write(request(0, 5), "hello", wire::cq_data);
  expect_fin(0);
  EXPECT_FALSE(peer.is_cut_off());
  EXPECT_TRUE(v.queue.empty());
}

std::string name_of_way(const testing::TestParamInfo<packet_way>& way) {
  return way.param == packet_way::core ? "by_core" : "by_ring";
}
INSTANTIATE_TEST_SUITE_P(ways, requests_of_a_peer,
                         testing::Values(packet_way::core, packet_way::ring), name_of_way);

/// Where no request may reach: beside the region, and around the end of all addresses.
struct wrong_place {
  const char* what;
  std::uint64_t offset;
  std::uint64_t length;
  std::uint64_t key;
};
class requests_beside_it : public requests_of_a_peer {
 protected:
  requests_beside_it() : requests_of_a_peer(packet_way::core) {}
};

constexpr wrong_place wrong_places[] = {
    {"before it", UINT64_MAX, 5, requested_key},
    {"behind it", region_length, 5, requested_key},
    {"over its end", region_length - 4, 5, requested_key},
    {"longer than it", 0, region_length + 1, requested_key},
    {"around all addresses", 0, UINT64_MAX, requested_key},
    {"of another key", 0, 5, requested_key + 1},
    {"of the core's key", 0, 5, 0},
};

TEST_F(requests_beside_it, read_nothing) {
  for (const wrong_place& place : wrong_places) {
    SCOPED_TRACE(place.what);
    auto fields = request(place.offset, place.length);
    fields.key = place.key;
    say_read(fields);
    expect_fin(FI_EACCES);
  }
  EXPECT_FALSE(peer.is_cut_off());
  EXPECT_EQ(read_here.value(), 0U);
}

TEST_F(requests_beside_it, write_nothing) {
  for (const wrong_place& place : wrong_places) {
    if (place.length != 5) continue;  // no packet has it
    SCOPED_TRACE(place.what);
    auto fields = request(place.offset, place.length);
    fields.key = place.key;
    say_write(fields, "hello", wire::cq_data);
    expect_fin(FI_EACCES);
  }
  EXPECT_FALSE(peer.is_cut_off());
  expect_untouched();
  EXPECT_TRUE(v.queue.empty());
  EXPECT_EQ(written_here.value() + written_here.errors(), 0U);
}

TEST_F(requests_beside_it, write_nothing_in_many_packets) {
  std::vector<std::byte> data = test::counting(region_length);
  say_long_write(request(1, region_length), data, region_length);
  expect_fin(FI_EACCES);
  expect_untouched();
}

// Of each kind, one byte of the fields is missing.
TEST_F(requests_beside_it, that_lack_their_end_end_the_connection) {
  struct {
    wire::kind what;
    std::size_t length;
  } const kinds[] = {
      {wire::kind::write, sizeof(wire::rma_fields)},
      {wire::kind::write_rts, sizeof(wire::rma_fields)},
      {wire::kind::write_rts, sizeof(wire::rma_fields) + offsetof(wire::rts_fields, segments)},
      {wire::kind::read, sizeof(wire::rma_fields)},
      {wire::kind::event, sizeof(wire::event_fields)},
      {wire::kind::flush, sizeof(wire::event_fields)}};
  for (unsigned i = 0; i < std::size(kinds); ++i) {
    SCOPED_TRACE("kind " + std::to_string(static_cast<unsigned>(kinds[i].what)));
    peer_by_hand other(v, packet_way::core, 10 + i);
    other.say(kinds[i].what, long_packet{}, kinds[i].length - 1);
    other.settle();
    EXPECT_TRUE(other.is_cut_off());
    EXPECT_EQ(other.waiting(wire::kind::fin), 0U);
  }
  EXPECT_TRUE(v.queue.empty());
  EXPECT_FALSE(peer.is_cut_off());
}

/// The time passes while the endpoint waits for it.
class requests_that_take_long : public requests_beside_it {
 protected:
  static constexpr unsigned far_too_often = 1000;

  void pass() {
    v.clock.at += std::chrono::milliseconds(100);
    if (++asked == far_too_often) throw std::logic_error("the endpoint waits for ever");
    v.clock.when_asked = [this] { pass(); };
  }
  unsigned asked = 0;
};

// The core does not give the region back while it waits for the peer's bytes.
TEST_F(requests_that_take_long, end_with_their_connection_where_their_region_goes) {
  std::vector<std::byte> data = test::counting(region_length);
  announce_write(request(0, region_length), data, region_length);
  v.net.advance(10'000'000);
  ASSERT_TRUE(v.net.silence_connection(0, 1, 0));
  v.progress();
  pass();
  v.ep->quiesce_region(region);
  v.clock.when_asked = nullptr;
  EXPECT_EQ(v.paths.connections.lost, 1U);
  expect_untouched();
}

class atomics_of_a_peer : public requests_of_a_peer {
 protected:
  atomics_of_a_peer() : requests_of_a_peer(packet_way::ring) {}

  wire::atomic_fields adding(std::uint32_t count) const {
    wire::atomic_fields fields{};
    fields.operation = operation_of_initiator;
    fields.address = region.address;
    fields.key = requested_key;
    fields.count = count;
    fields.type = FI_UINT8;
    fields.op = FI_SUM;
    fields.group = static_cast<std::uint8_t>(atomic_math::call::plain);
    return fields;
  }
};

TEST_F(atomics_of_a_peer, fail_where_there_is_no_memory_for_their_answers) {
  long_packet packet;
  packet.put(0, adding(4));
  peer.say(wire::kind::atomic, packet, sizeof(wire::atomic_fields) + 4);
  {
    const gaudi::test::scarce_memory none(0);
    v.progress();
  }
  peer.settle();
  expect_fin(FI_ENOMEM);
  expect_untouched();
  EXPECT_FALSE(peer.is_cut_off());
}

}  // namespace
}  // namespace gaudi::proto
