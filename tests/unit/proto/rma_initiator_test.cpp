// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// One-sided operations of an application, towards a peer whose every answer the test makes: what is
// asked for, when the operation ends, and that it ends once.
#include "proto/rma/rma_initiator.hpp"

#include <array>
#include <cstddef>
#include <cstring>
#include <vector>

#include "peer_by_hand.hpp"
#include "reg/key_table.hpp"

namespace gaudi::proto {
namespace {

using test::endpoint_by_itself;
using test::memory_of;
using test::peer_by_hand;

// The peer's provider answers for this one, and its core for the others.
constexpr std::uint64_t software_key = reg::key_table::software_bit + 5;

class rma_of_ours : public testing::Test {
 protected:
  static endpoint::settings settings() {
    auto s = test::small_settings();
    s.kernel = nullptr;
    return s;
  }
  rma_access access(std::uint64_t address, std::uint64_t key) {
    return {.target = peer.address(), .address = address, .key = key, .completion = v.completion()};
  }
  local_memory memory(std::size_t length) { return memory_of(bytes.data(), length); }
  /// What the peer was asked for.
  wire::rma_fields asked(wire::kind what) {
    peer.settle();
    const auto fields = peer.heard<wire::rma_fields>(what);
    EXPECT_TRUE(fields);
    return fields.value_or(wire::rma_fields{});
  }
  void say_fin(std::uint64_t operation, int status) {
    peer.say(wire::kind::fin,
             wire::fin_fields{.head = {}, .operation = operation, .status = status, .reserved = 0});
    peer.settle();
  }
  /// The answer to a read, of so many bytes.
  void say_reply(std::uint64_t operation, std::size_t length) {
    struct {
      wire::header head{};
      std::uint64_t operation = 0;
      std::uint64_t status = 0;
      std::array<char, 100> bytes{};
    } reply;
    reply.operation = operation;
    reply.bytes.fill('x');
    peer.say(wire::kind::read_reply, reply, sizeof(wire::fin_fields) + length);
    peer.settle();
  }
  void expect_end(int error) {
    EXPECT_EQ(v.take().error, error);
    EXPECT_TRUE(v.queue.empty());
  }

  std::vector<std::byte> bytes = test::counting(20'000);
  std::vector<std::byte> place = std::vector<std::byte>(20'000);
  endpoint_by_itself v{settings()};
  peer_by_hand peer{v};
};

TEST_F(rma_of_ours, writes_by_message_end_when_the_peer_says_so_and_once) {
  auto at = access(0x1234, software_key);
  at.data = 9;
  at.has_data = true;
  ASSERT_EQ(v.ep->write(memory(100), at), 0);
  peer.settle();
  const auto packet = peer.heard_whole(wire::kind::write);
  ASSERT_TRUE(packet);
  wire::rma_fields fields{};
  ASSERT_EQ(packet->size(), sizeof fields + 100);
  std::memcpy(&fields, packet->data(), sizeof fields);
  EXPECT_EQ(fields.address, 0x1234U);
  EXPECT_EQ(fields.key, software_key);
  EXPECT_EQ(fields.length, 100U);
  EXPECT_EQ(fields.data, 9U);
  EXPECT_EQ(fields.head.flags, wire::cq_data);
  EXPECT_EQ(std::memcmp(packet->data() + sizeof fields, bytes.data(), 100), 0);
  EXPECT_TRUE(v.queue.empty());
  say_fin(fields.operation, 0);
  expect_end(0);
  say_fin(fields.operation, FI_EIO);
  EXPECT_TRUE(v.queue.empty());
}

TEST_F(rma_of_ours, writes_fail_with_what_the_peer_says) {
  ASSERT_EQ(v.ep->write(memory(100), access(0, software_key)), 0);
  say_fin(asked(wire::kind::write).operation, FI_EACCES);
  expect_end(FI_EACCES);
}

TEST_F(rma_of_ours, long_writes_say_where_the_bytes_are) {
  ASSERT_EQ(v.ep->write(memory(20'000), access(0x1234, software_key)), 0);
  peer.settle();
  const auto packet = peer.heard_whole(wire::kind::write_rts);
  ASSERT_TRUE(packet);
  wire::rma_fields fields{};
  wire::rts_fields rts{};
  std::memcpy(&fields, packet->data(), sizeof fields);
  std::memcpy(&rts, packet->data() + sizeof fields,
              std::min(sizeof rts, packet->size() - sizeof fields));
  EXPECT_EQ(fields.length, 20'000U);
  EXPECT_EQ(rts.length, 20'000U);
  EXPECT_EQ(rts.segments[0].address, reinterpret_cast<std::uint64_t>(bytes.data()));
  EXPECT_TRUE(v.queue.empty());
  say_fin(rts.operation, 0);
  expect_end(0);
}

TEST_F(rma_of_ours, reads_by_message_bring_the_answer_and_end_once) {
  ASSERT_EQ(v.ep->read(memory(10), access(0x1234, software_key)), 0);
  const auto fields = asked(wire::kind::read);
  EXPECT_EQ(fields.address, 0x1234U);
  EXPECT_EQ(fields.key, software_key);
  EXPECT_EQ(fields.length, 10U);
  const std::byte behind = bytes[10];
  say_reply(fields.operation, 10);
  expect_end(0);
  EXPECT_EQ(bytes[9], std::byte{'x'});
  EXPECT_EQ(bytes[10], behind);
  say_reply(fields.operation, 10);
  say_fin(fields.operation, 0);
  EXPECT_TRUE(v.queue.empty());
  EXPECT_FALSE(peer.is_cut_off());
}

TEST_F(rma_of_ours, reads_that_are_refused_fail_and_want_no_answer_any_more) {
  ASSERT_EQ(v.ep->read(memory(10), access(0, software_key)), 0);
  const auto fields = asked(wire::kind::read);
  const auto before = bytes;
  say_fin(fields.operation, FI_EACCES);
  expect_end(FI_EACCES);
  say_reply(fields.operation, 10);
  EXPECT_TRUE(v.queue.empty());
  EXPECT_EQ(bytes, before);
}

TEST_F(rma_of_ours, reads_whose_answer_has_another_length_fail_with_their_connection) {
  for (const std::size_t length : {9U, 11U}) {
    peer_by_hand other(v, test::packet_way::core, static_cast<unsigned>(length));
    auto at = access(0, software_key);
    at.target = other.address();
    ASSERT_EQ(v.ep->read(memory(10), at), 0);
    other.settle();
    const auto fields = other.heard<wire::rma_fields>(wire::kind::read);
    ASSERT_TRUE(fields);
    struct {
      wire::fin_fields fin{};
      std::array<std::byte, 100> bytes{};
    } reply;
    reply.fin = {.head = {wire::kind::read_reply, 0, 0, 0, other.known_as()},
                 .operation = fields->operation,
                 .status = 0,
                 .reserved = 0};
    const auto before = bytes;
    other.say_as_it_is(&reply, sizeof reply.fin + length);
    other.settle();
    EXPECT_TRUE(other.is_cut_off());
    EXPECT_NE(v.take().error, 0);
    EXPECT_TRUE(v.queue.empty());
    EXPECT_EQ(bytes, before);
  }
}

// An answer to a write would be one to a read that was never made.
TEST_F(rma_of_ours, writes_are_not_ended_by_answers_to_reads) {
  ASSERT_EQ(v.ep->write(memory(10), access(0, software_key)), 0);
  const auto fields = asked(wire::kind::write);
  const auto before = bytes;
  say_reply(fields.operation, 10);
  EXPECT_TRUE(v.queue.empty());
  EXPECT_EQ(bytes, before);
  say_fin(fields.operation, 0);
  expect_end(0);
}

TEST_F(rma_of_ours, operations_on_keys_of_the_core_need_no_packet) {
  const wire::segment there = peer.expose(place);
  ASSERT_EQ(v.ep->write(memory(20'000), access(there.address, there.key)), 0);
  EXPECT_TRUE(v.queue.empty()) << "it has not left";
  peer.settle();
  expect_end(0);
  EXPECT_EQ(place, bytes);
  bytes.assign(bytes.size(), std::byte{0});
  ASSERT_EQ(v.ep->read(memory(20'000), access(there.address, there.key)), 0);
  peer.settle();
  expect_end(0);
  EXPECT_EQ(place, bytes);
  EXPECT_EQ(peer.waiting(wire::kind::write) + peer.waiting(wire::kind::read), 0U);
  EXPECT_EQ(peer.waiting(wire::kind::event), 0U);
}

// Also where there is nothing to write.
TEST_F(rma_of_ours, direct_writes_with_data_tell_the_peer_once_and_behind_the_bytes) {
  const wire::segment there = peer.expose(place);
  for (const std::size_t length : {100U, 0U}) {
    auto at = access(there.address, there.key);
    at.data = 9;
    at.has_data = true;
    ASSERT_EQ(v.ep->write(memory(length), at), 0);
    peer.settle();
    const auto event = peer.heard<wire::event_fields>(wire::kind::event);
    ASSERT_TRUE(event) << length;
    EXPECT_EQ(event->data, 9U);
    EXPECT_EQ(event->length, length);
    EXPECT_EQ(event->address, there.address);
    EXPECT_EQ(peer.waiting(wire::kind::event), 0U);
    expect_end(0);
  }
}

TEST_F(rma_of_ours, direct_reads_that_the_peers_core_refuses_fail_once) {
  const auto before = bytes;
  ASSERT_EQ(v.ep->read(memory(100), access(0x1000, 99)), 0);
  peer.settle();
  const int error = v.take().error;
  EXPECT_NE(error, 0);
  EXPECT_NE(error, FI_ENODATA);
  EXPECT_TRUE(v.queue.empty());
  EXPECT_EQ(bytes, before);
}

TEST_F(rma_of_ours, injected_writes_do_not_see_what_the_buffer_becomes) {
  const wire::segment there = peer.expose(place);
  for (const std::uint64_t key : {there.key, software_key}) {
    auto at = access(there.address, key);
    at.inject = true;
    const auto before = bytes;
    ASSERT_EQ(v.ep->write(memory(500), at), 0);
    std::memset(bytes.data(), 0, 500);
    peer.settle();
    if (key == software_key) {
      const auto packet = peer.heard_whole(wire::kind::write);
      ASSERT_TRUE(packet);
      EXPECT_EQ(std::memcmp(packet->data() + sizeof(wire::rma_fields), before.data(), 500), 0);
    } else {
      EXPECT_EQ(std::memcmp(place.data(), before.data(), 500), 0);
      expect_end(0);
    }
    bytes = before;
  }
}

// Its buffers come back: many more than there are.
TEST_F(rma_of_ours, injected_writes_go_on_as_earlier_ones_end) {
  const wire::segment there = peer.expose(place);
  auto at = access(there.address, there.key);
  at.inject = true;
  unsigned refused = 0;
  for (unsigned i = 0; i < 2000; ++i) {
    int ret = v.ep->write(memory(8), at);
    if (ret == -FI_EAGAIN) {
      ++refused;
      peer.settle();
      ret = v.ep->write(memory(8), at);
    }
    ASSERT_EQ(ret, 0) << i;
    while (!v.queue.empty()) EXPECT_EQ(v.take().error, 0);
  }
  EXPECT_GT(refused, 0U) << "as many at a time as there are buffers";
}

TEST_F(rma_of_ours, operations_end_with_their_connection_and_once) {
  ASSERT_EQ(v.ep->write(memory(100), access(0, software_key)), 0);
  ASSERT_EQ(v.ep->read(memory(100), access(0, software_key)), 0);
  peer.settle();
  peer.close();
  peer.settle();
  EXPECT_NE(v.take().error, 0);
  EXPECT_NE(v.take().error, FI_ENODATA);
  EXPECT_TRUE(v.queue.empty());
}

// One that names no memory would ask the core for an operation on nothing.
TEST_F(rma_of_ours, is_one_operation_of_the_core_from_one_byte_on) {
  const wire::segment there = peer.expose(place);
  ASSERT_EQ(v.ep->write(memory(0), access(there.address, there.key)), 0);
  peer.settle();
  expect_end(0);
  EXPECT_EQ(v.paths.direct_ops, 0U);
  ASSERT_EQ(v.ep->write(memory(1), access(there.address, there.key)), 0);
  peer.settle();
  expect_end(0);
  EXPECT_EQ(v.paths.direct_ops, 1U);
  EXPECT_EQ(place[0], bytes[0]);
}

}  // namespace
}  // namespace gaudi::proto
