// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Messages as they come from a peer, and the receives that they belong to: which of them, how many
// bytes, what its application and its sender are told, and what becomes of those that nobody wants.
#include "proto/message/message_delivery.hpp"

#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "peer_by_hand.hpp"

namespace gaudi::proto {
namespace {

using test::endpoint_by_itself;
using test::memory_of;
using test::number;
using test::packet_way;
using test::peer_by_hand;

constexpr std::uint64_t operation_of_sender = 4711;

/// Memory of an application's, with some behind it that is not for the message.
struct guarded_bytes {
  explicit guarded_bytes(std::size_t length) : bytes(length + 16, '.'), wanted(length) {}
  [[nodiscard]] local_memory memory() { return memory_of(bytes.data(), wanted); }
  [[nodiscard]] bool holds(std::string_view text) const {
    return std::string_view(bytes).substr(0, text.size()) == text &&
           bytes.find_first_not_of('.', text.size()) == std::string::npos;
  }

  std::string bytes;
  std::size_t wanted;
};

class messages_of_a_peer : public testing::Test {
 protected:
  static endpoint::settings settings() {
    auto s = test::small_settings();
    s.kernel = nullptr;
    s.rx_buffers = 16;
    return s;
  }
  explicit messages_of_a_peer(endpoint::settings config = settings()) : v(config) {}

  void say_eager(peer_by_hand& by, std::uint8_t flags, std::uint64_t tag,
                 std::string_view payload = {}, std::uint64_t data = 0) {
    const wire::eager_fields fields{.head = {wire::kind::eager, flags, 0, 0, by.known_as()},
                                    .tag = tag,
                                    .data = data,
                                    .operation = operation_of_sender};
    std::vector<std::byte> packet(wire::eager_size(flags) + payload.size());
    std::memcpy(packet.data(), &fields, wire::eager_size(flags));
    if (!payload.empty())
      std::memcpy(packet.data() + wire::eager_size(flags), payload.data(), payload.size());
    by.say_as_it_is(packet.data(), packet.size());
  }
  void say_eager(std::uint8_t flags, std::uint64_t tag, std::string_view payload = {},
                 std::uint64_t data = 0) {
    say_eager(peer, flags, tag, payload, data);
  }

  struct announcement {
    wire::header head;
    std::uint64_t tag = 0;
    std::uint64_t data = 0;
    std::uint64_t operation = operation_of_sender;
    wire::rts_fields rts{};
  };
  static announcement announcement_of(std::uint64_t tag, std::vector<wire::segment> segments) {
    announcement packet{};
    packet.tag = tag;
    packet.rts.operation = operation_of_sender;
    packet.rts.segment_count = static_cast<std::uint32_t>(segments.size());
    for (std::size_t i = 0; i < segments.size(); ++i) {
      packet.rts.segments[i] = segments[i];
      packet.rts.length += segments[i].length;
    }
    return packet;
  }
  static std::size_t size_of(std::size_t segments) {
    return sizeof(wire::eager_fields) + offsetof(wire::rts_fields, segments) +
           segments * sizeof(wire::segment);
  }
  void say_rts(peer_by_hand& by, std::uint64_t tag, const std::vector<wire::segment>& segments) {
    by.say(wire::kind::rts, announcement_of(tag, segments), size_of(segments.size()),
           wire::tagged | wire::want_fin);
  }

  void receive(const local_memory& memory, recv_params how = {}, void* context = nullptr) {
    how.completion = v.completion(context);
    EXPECT_EQ(v.ep->receives().receive(memory, how), 0);
  }
  void receive_tagged(const local_memory& memory, std::uint64_t tag, void* context = nullptr) {
    receive(memory, {.tag = tag, .tagged = true, .completion = {}}, context);
  }

  endpoint_by_itself v;
  peer_by_hand peer{v};
};

TEST_F(messages_of_a_peer, go_to_the_oldest_receive_of_their_tag_and_once) {
  guarded_bytes first(10);
  guarded_bytes second(10);
  guarded_bytes other(10);
  receive_tagged(first.memory(), 5, number(1));
  receive_tagged(other.memory(), 6, number(3));
  receive_tagged(second.memory(), 5, number(2));
  say_eager(wire::tagged, 5, "one");
  say_eager(wire::tagged, 5, "two");
  peer.settle();
  EXPECT_EQ(v.take().context, number(1));
  EXPECT_EQ(v.take().context, number(2));
  EXPECT_TRUE(v.queue.empty());
  EXPECT_TRUE(first.holds("one"));
  EXPECT_TRUE(second.holds("two"));
  EXPECT_TRUE(other.holds(""));
}

TEST_F(messages_of_a_peer, that_wait_are_received_in_the_order_in_which_they_came) {
  for (const char* text : {"one", "two", "three"}) say_eager(wire::tagged, 5, text);
  say_eager(wire::tagged, 6, "four");
  peer.settle();
  EXPECT_EQ(v.ep->receives().unexpected_messages(), 4U);
  for (const char* text : {"one", "two", "three", "four"}) {
    guarded_bytes got(10);
    receive(got.memory(), {.ignore = UINT64_MAX, .tagged = true, .completion = {}});
    EXPECT_EQ(v.take().length, std::strlen(text));
    EXPECT_TRUE(got.holds(text)) << got.bytes;
  }
  EXPECT_EQ(v.ep->receives().unexpected_messages(), 0U);
  EXPECT_TRUE(v.queue.empty());
}

// Without a tag it is of another kind, also where a tag is 0.
TEST_F(messages_of_a_peer, do_not_go_to_receives_of_the_other_kind) {
  guarded_bytes tagged(10);
  guarded_bytes untagged(10);
  receive_tagged(tagged.memory(), 0, number(1));
  receive(untagged.memory(), {}, number(2));
  say_eager(0, 0, "untagged");
  peer.settle();
  EXPECT_EQ(v.take().context, number(2));
  EXPECT_TRUE(untagged.holds("untagged"));
  say_eager(0, 0, "kept");
  peer.settle();
  EXPECT_TRUE(v.queue.empty());
  say_eager(wire::tagged, 0, "tagged");
  peer.settle();
  EXPECT_EQ(v.take().context, number(1));
  EXPECT_TRUE(tagged.holds("tagged"));
}

// The operation's number stands in the packet behind what these have: it must not be read.
TEST_F(messages_of_a_peer, say_only_what_their_flags_say_that_they_do) {
  receive({});
  receive({});
  receive_tagged({}, 9);
  say_eager(0, 9, {}, 7);
  say_eager(wire::cq_data, 9, {}, 7);
  say_eager(wire::tagged | wire::cq_data, 9, {}, 8);
  peer.settle();
  cq_entry entry = v.take();
  EXPECT_EQ(entry.flags, 0U);
  EXPECT_EQ(entry.data, 0U);
  EXPECT_EQ(entry.tag, 0U);
  entry = v.take();
  EXPECT_EQ(entry.flags, FI_REMOTE_CQ_DATA);
  EXPECT_EQ(entry.data, 7U);
  EXPECT_EQ(entry.tag, 0U);
  entry = v.take();
  EXPECT_EQ(entry.data, 8U);
  EXPECT_EQ(entry.tag, 9U);
}

TEST_F(messages_of_a_peer, that_are_longer_than_their_receive_are_cut_off_there) {
  guarded_bytes got(4);
  receive(got.memory());
  say_eager(wire::want_fin, 0, "too long");
  peer.settle();
  const cq_entry entry = v.take();
  EXPECT_EQ(entry.error, FI_ETRUNC);
  EXPECT_EQ(entry.length, 4U);
  EXPECT_EQ(entry.truncated_bytes, 4U);
  EXPECT_TRUE(got.holds("too "));
  const auto fin = peer.heard<wire::fin_fields>(wire::kind::fin);
  ASSERT_TRUE(fin) << "its sender waits";
  EXPECT_EQ(fin->status, 0);
}

TEST_F(messages_of_a_peer, that_just_fit_are_not_cut_off) {
  guarded_bytes got(4);
  receive(got.memory());
  say_eager(0, 0, "fits");
  peer.settle();
  EXPECT_EQ(v.take().error, 0);
  EXPECT_TRUE(got.holds("fits"));
}

TEST_F(messages_of_a_peer, are_ended_at_their_sender_when_they_are_received_and_once) {
  say_eager(wire::want_fin, 0, "text");
  peer.settle();
  EXPECT_EQ(peer.waiting(wire::kind::fin), 0U) << "nobody has received it";
  guarded_bytes got(4);
  receive(got.memory());
  peer.settle();
  const auto fin = peer.heard<wire::fin_fields>(wire::kind::fin);
  ASSERT_TRUE(fin);
  EXPECT_EQ(fin->operation, operation_of_sender);
  EXPECT_EQ(fin->status, 0);
  EXPECT_EQ(peer.waiting(wire::kind::fin), 0U);
}

TEST_F(messages_of_a_peer, are_not_ended_at_a_sender_that_does_not_wait) {
  receive({});
  say_eager(wire::cq_data, 0);
  peer.settle();
  EXPECT_EQ(v.take().error, 0);
  EXPECT_EQ(peer.waiting(wire::kind::fin), 0U);
}

TEST_F(messages_of_a_peer, go_only_to_receives_that_do_not_want_another_senders) {
  peer_by_hand other(v, packet_way::core, 2);
  const fi_addr_t from = other.address();
  static_cast<void>(peer.address());
  receive({}, {.from = from, .completion = {}}, number(2));
  receive({}, {}, number(1));
  say_eager(0, 0);
  peer.settle();
  EXPECT_EQ(v.take().context, number(1));
  say_eager(0, 0);
  peer.settle();
  EXPECT_TRUE(v.queue.empty());
  say_eager(other, 0, 0);
  other.settle();
  EXPECT_EQ(v.take().context, number(2));
}

TEST_F(messages_of_a_peer, that_wait_survive_their_sender) {
  say_eager(wire::tagged | wire::want_fin, 5, "last");
  peer.settle();
  peer.close();
  peer.settle();
  guarded_bytes got(10);
  receive_tagged(got.memory(), 5);
  EXPECT_EQ(v.take().error, 0);
  EXPECT_TRUE(got.holds("last"));
}

/// With FI_SOURCE_ERR.
class messages_of_unknown_peers : public messages_of_a_peer {
 protected:
  static endpoint::settings source_errors() {
    auto s = settings();
    s.source_errors = true;
    return s;
  }
  messages_of_unknown_peers() : messages_of_a_peer(source_errors()) {}
};

TEST_F(messages_of_unknown_peers, name_their_sender_where_it_has_no_address_and_where_it_has) {
  receive({});
  receive({});
  say_eager(0, 0);
  peer.settle();
  EXPECT_EQ(v.take().error, FI_EADDRNOTAVAIL);
  const fi_addr_t from = peer.address();
  say_eager(0, 0);
  peer.settle();
  const cq_entry entry = v.take();
  EXPECT_EQ(entry.error, 0);
  EXPECT_EQ(entry.source, from);
}

/// Messages that are shorter than what their flags say they bring.
class short_messages : public messages_of_a_peer,
                       public testing::WithParamInterface<std::uint8_t> {};

TEST_P(short_messages, are_not_delivered_and_end_the_connection) {
  receive({}, {.ignore = UINT64_MAX, .tagged = (GetParam() & wire::tagged) != 0, .completion = {}});
  const wire::eager_fields fields{.head = {wire::kind::eager, GetParam(), 0, 0, peer.known_as()},
                                  .tag = 0,
                                  .data = 0,
                                  .operation = 0};
  peer.say_as_it_is(&fields, wire::eager_size(GetParam()) - 1);
  peer.settle();
  EXPECT_TRUE(peer.is_cut_off());
  EXPECT_TRUE(v.queue.empty());
  EXPECT_EQ(v.ep->receives().posted(), 1U);
}

INSTANTIATE_TEST_SUITE_P(flags, short_messages,
                         testing::Values(0, wire::tagged, wire::cq_data, wire::want_fin,
                                         wire::cq_data | wire::want_fin));

class announced_messages : public messages_of_a_peer {
 protected:
  wire::segment segment() { return peer.expose({data.data(), data.size()}); }
  std::vector<std::byte> data = test::counting(10'000);
};

TEST_F(announced_messages, are_read_from_their_sender_which_hears_of_it_once) {
  std::vector<std::byte> got(10'000);
  receive_tagged(memory_of(got.data(), got.size()), 5);
  say_rts(peer, 5, {segment()});
  peer.settle();
  const cq_entry entry = v.take();
  EXPECT_EQ(entry.error, 0);
  EXPECT_EQ(entry.length, 10'000U);
  EXPECT_EQ(entry.tag, 5U);
  EXPECT_EQ(got, data);
  const auto fin = peer.heard<wire::fin_fields>(wire::kind::fin);
  ASSERT_TRUE(fin);
  EXPECT_EQ(fin->operation, operation_of_sender);
  EXPECT_EQ(peer.waiting(wire::kind::fin), 0U);
  EXPECT_TRUE(v.queue.empty());
}

TEST_F(announced_messages, of_several_parts_are_read_in_their_order) {
  std::vector<std::byte> got(10'000);
  receive_tagged(memory_of(got.data(), got.size()), 5);
  const wire::segment all = segment();
  say_rts(peer, 5,
          {{all.address, all.key, 1},
           {all.address + 1, all.key, 4999},
           {all.address + 5000, all.key, 5000}});
  peer.settle();
  EXPECT_EQ(v.take().error, 0);
  EXPECT_EQ(got, data);
}

TEST_F(announced_messages, are_read_only_as_far_as_their_receive_goes) {
  std::vector<std::byte> got(10'000);
  receive_tagged(memory_of(got.data(), 100), 5);
  say_rts(peer, 5, {segment()});
  peer.settle();
  const cq_entry entry = v.take();
  EXPECT_EQ(entry.error, FI_ETRUNC);
  EXPECT_EQ(entry.length, 100U);
  EXPECT_EQ(entry.truncated_bytes, 9'900U);
  EXPECT_EQ(std::memcmp(got.data(), data.data(), 100), 0);
  EXPECT_EQ(got[100], std::byte{0});
  EXPECT_TRUE(peer.heard<wire::fin_fields>(wire::kind::fin)) << "its sender waits";
}

TEST_F(announced_messages, of_no_bytes_end_at_both_ends) {
  receive_tagged({}, 5);
  say_rts(peer, 5, {});
  peer.settle();
  EXPECT_EQ(v.take().error, 0);
  EXPECT_TRUE(peer.heard<wire::fin_fields>(wire::kind::fin));
}

// Over a real NIC that ends the connection; what other peers send arrives.
TEST_F(announced_messages, of_memory_that_there_is_not_fail_their_receive_alone) {
  peer_by_hand other(v, packet_way::core, 2);
  static_cast<void>(other.address());
  std::vector<std::byte> got(100);
  receive_tagged(memory_of(got.data(), got.size()), 5);
  receive_tagged({}, 6);
  say_rts(peer, 5, {{0x1000, 99, 100}});
  peer.settle();
  EXPECT_NE(v.take().error, 0);
  EXPECT_TRUE(v.queue.empty());
  say_eager(other, wire::tagged, 6);
  other.settle();
  EXPECT_EQ(v.take().error, 0);
  EXPECT_FALSE(other.is_cut_off());
}

TEST_F(announced_messages, go_with_their_sender_and_leave_the_receive_to_the_next) {
  peer_by_hand other(v, packet_way::core, 2);
  static_cast<void>(other.address());
  say_rts(peer, 5, {segment()});
  peer.settle();
  EXPECT_EQ(v.ep->receives().unexpected_messages(), 1U);
  peer.close();
  peer.settle();
  EXPECT_EQ(v.ep->receives().unexpected_messages(), 0U);
  receive_tagged({}, 5);
  EXPECT_TRUE(v.queue.empty());
  say_eager(other, wire::tagged, 5);
  other.settle();
  EXPECT_EQ(v.take().error, 0);
}

/// Whoever claims a message receives it later, although its sender may be gone by then.
class claimed_messages : public announced_messages {
 protected:
  void claim(std::uint64_t tag) {
    recv_params wanted{.tag = tag, .tagged = true, .completion = v.completion(this)};
    EXPECT_EQ(v.ep->receives().peek(wanted, true, false), 0);
    EXPECT_EQ(v.take().error, 0);
  }
  int receive_claimed(const local_memory& memory) {
    return v.ep->receives().receive_claimed(
        memory, {.tagged = true, .completion = v.completion(this)}, false);
  }
};

TEST_F(claimed_messages, whose_data_stayed_at_a_sender_that_is_gone_fail) {
  static_cast<void>(peer.address());
  say_rts(peer, 5, {segment()});
  peer.settle();
  claim(5);
  peer.close();
  peer.settle();
  std::vector<std::byte> got(10'000);
  EXPECT_EQ(receive_claimed(memory_of(got.data(), got.size())), 0);
  EXPECT_EQ(v.take().error, FI_ECONNRESET);
  EXPECT_EQ(got, std::vector<std::byte>(10'000));
}

TEST_F(claimed_messages, whose_data_is_here_are_received) {
  static_cast<void>(peer.address());
  say_eager(wire::tagged | wire::want_fin, 5, "here");
  peer.settle();
  claim(5);
  peer.close();
  peer.settle();
  guarded_bytes got(10);
  EXPECT_EQ(receive_claimed(got.memory()), 0);
  EXPECT_EQ(v.take().error, 0);
  EXPECT_TRUE(got.holds("here"));
}

TEST_F(claimed_messages, are_nobody_elses_and_the_claimants_once) {
  static_cast<void>(peer.address());
  say_eager(wire::tagged, 5, "text");
  peer.settle();
  claim(5);
  guarded_bytes posted(10);
  receive_tagged(posted.memory(), 5, number(1));
  EXPECT_TRUE(v.queue.empty());
  guarded_bytes got(10);
  EXPECT_EQ(receive_claimed(got.memory()), 0);
  EXPECT_EQ(receive_claimed(got.memory()), -FI_EINVAL);
  EXPECT_EQ(v.take().context, this);
  EXPECT_TRUE(v.queue.empty());
  EXPECT_TRUE(posted.holds(""));
}

/// Their sender must not wait for them.
class discarded_messages : public announced_messages {
 protected:
  void discard(std::uint64_t tag) {
    const recv_params wanted{.tag = tag, .tagged = true, .completion = v.completion()};
    EXPECT_EQ(v.ep->receives().peek(wanted, false, true), 0);
    peer.settle();
  }
};

TEST_F(discarded_messages, end_at_senders_that_wait) {
  say_rts(peer, 5, {segment()});
  say_eager(wire::tagged | wire::want_fin, 6, "text");
  peer.settle();
  for (const std::uint64_t tag : {5U, 6U}) {
    discard(tag);
    const auto fin = peer.heard<wire::fin_fields>(wire::kind::fin);
    ASSERT_TRUE(fin) << "tag " << tag;
    EXPECT_EQ(fin->operation, operation_of_sender);
    EXPECT_EQ(fin->status, 0);
    EXPECT_EQ(peer.waiting(wire::kind::fin), 0U);
  }
  EXPECT_EQ(v.ep->receives().unexpected_messages(), 0U);
}

TEST_F(discarded_messages, end_quietly_where_nobody_waits) {
  say_eager(wire::tagged, 5, "text");
  peer.settle();
  discard(5);
  EXPECT_EQ(peer.waiting(wire::kind::fin), 0U);
  EXPECT_EQ(v.ep->receives().unexpected_messages(), 0U);
}

/// What an announcement may not say of its segments, which are those of 10,000 bytes otherwise.
struct wrong_announcement {
  const char* what;
  std::uint64_t length;
  std::uint32_t segments;
  std::size_t size;  // of the packet, in segments
  std::uint8_t flags;
};
class wrong_announcements : public announced_messages,
                            public testing::WithParamInterface<wrong_announcement> {};

TEST_P(wrong_announcements, are_not_delivered_and_end_the_connection) {
  std::vector<std::byte> got(20'000);
  receive(memory_of(got.data(), got.size()));
  const wire::segment all = segment();
  auto packet = announcement_of(0, {all, all, all, all});
  packet.rts.length = GetParam().length;
  packet.rts.segment_count = GetParam().segments;
  peer.say(wire::kind::rts, packet, size_of(GetParam().size), GetParam().flags);
  peer.settle();
  EXPECT_TRUE(peer.is_cut_off());
  EXPECT_TRUE(v.queue.empty());
  EXPECT_EQ(v.ep->receives().posted(), 1U);
}

INSTANTIATE_TEST_SUITE_P(
    that, wrong_announcements,
    testing::Values(wrong_announcement{"are_longer_than_their_segments", 10'001, 1, 1, 0},
                    wrong_announcement{"are_shorter_than_their_segments", 9'999, 1, 1, 0},
                    wrong_announcement{"have_no_segment", 10'000, 0, 0, 0},
                    wrong_announcement{"lack_a_segment", 20'000, 2, 1, 0},
                    wrong_announcement{"have_too_many_segments", 50'000, 5, 4, 0},
                    wrong_announcement{"have_segments_although_the_sink_says_where_to_write",
                                       10'000, 1, 1, wire::needs_cts}),
    [](const auto& what) { return what.param.what; });

/// Of messages that nobody wants as many stay in their buffers as are not missed, and others are
/// copied. What a peer has sent beyond the budget is not credited before it is received.
class messages_that_wait : public messages_of_a_peer {
 protected:
  static endpoint::settings no_budget() {
    auto s = settings();
    s.unexpected_limit = 1;
    return s;
  }
  messages_that_wait() : messages_of_a_peer(no_budget()) {}

  static std::string text(unsigned i) {
    return std::string(900, static_cast<char>('a' + i)) + std::to_string(i);
  }
  void say_all(unsigned count) {
    for (unsigned i = 0; i < count; ++i) say_eager(0, 0, text(i));
    peer.settle();
  }
  void receive_one(unsigned i) {
    guarded_bytes got(1000);
    receive(got.memory());
    EXPECT_EQ(v.take().length, text(i).size());
    EXPECT_TRUE(got.holds(text(i))) << "message " << i;
  }
};

TEST_F(messages_that_wait, keep_their_bytes_and_their_order) {
  const unsigned count = peer.data_window();
  for (int round = 0; round < 10; ++round) {
    say_all(count);
    EXPECT_EQ(v.ep->receives().unexpected_messages(), count) << "round " << round;
    for (unsigned i = 0; i < count; ++i) receive_one(i);
    peer.settle();
  }
  EXPECT_FALSE(peer.is_cut_off());
  EXPECT_TRUE(v.queue.empty());
}

TEST_F(messages_that_wait, are_credited_one_by_one_as_they_are_received) {
  const unsigned count = peer.data_window();
  say_all(count);
  EXPECT_EQ(peer.data_credits(), 0U);
  for (unsigned i = 0; i < count; ++i) {
    receive_one(i);
    peer.settle();
    EXPECT_LE(peer.data_credits(), i + 1);
    // Half of the window may come in one message.
    EXPECT_GE(peer.data_credits() + count / 2, i + 1);
  }
  EXPECT_LE(peer.data_credits(), count);
}

// Its own budget is not exceeded by what the other one keeps here.
TEST_F(messages_that_wait, of_one_peer_do_not_stop_another) {
  peer_by_hand other(v, packet_way::core, 2);
  say_all(peer.data_window());
  for (unsigned i = 0; i < 3 * other.data_window(); ++i) {
    receive({}, {.tag = 7, .tagged = true, .completion = {}});
    say_eager(other, wire::tagged, 7);
    other.settle();
    EXPECT_EQ(v.take().error, 0) << "message " << i;
  }
  EXPECT_FALSE(other.is_cut_off());
}

TEST_F(messages_that_wait, of_a_peer_that_is_gone_leave_their_room) {
  peer_by_hand other(v, packet_way::core, 2);
  const unsigned count = peer.data_window();
  say_all(count);
  peer.close();
  peer.settle();
  for (unsigned i = 0; i < count; ++i) receive_one(i);
  EXPECT_EQ(v.ep->receives().unexpected_messages(), 0U);
  for (unsigned i = 0; i < 3 * other.data_window(); ++i) {
    say_eager(other, 0, 0, "next");
    other.settle();
    guarded_bytes got(10);
    receive(got.memory());
    EXPECT_TRUE(got.holds("next")) << i;
    other.settle();
  }
  EXPECT_FALSE(other.is_cut_off());
}

/// One buffer for many messages (FI_MULTI_RECV).
class messages_in_one_buffer : public messages_of_a_peer {
 protected:
  messages_in_one_buffer() { v.ep->receives().set_min_multi_recv(8); }
  void receive_many() {
    EXPECT_EQ(v.ep->receives().receive_many(got.memory(), {.completion = v.completion(number(1))}),
              0);
  }
  void expect_next(std::size_t offset, std::size_t length, std::uint64_t flags) {
    const cq_entry entry = v.take();
    EXPECT_EQ(entry.error, 0);
    EXPECT_EQ(entry.context, number(1));
    EXPECT_EQ(entry.length, length);
    EXPECT_EQ(entry.buffer, got.bytes.data() + offset);
    EXPECT_EQ(entry.flags & FI_MULTI_RECV, flags);
  }
  guarded_bytes got{20};
};

TEST_F(messages_in_one_buffer, lie_one_behind_the_other_until_there_is_little_room) {
  receive_many();
  for (const char* text : {"12345", "67890", "abc"}) say_eager(0, 0, text);
  peer.settle();
  expect_next(0, 5, 0);
  expect_next(5, 5, 0);
  expect_next(10, 3, FI_MULTI_RECV);  // 7 bytes are left, and 8 are asked for
  say_eager(0, 0, "next");
  peer.settle();
  EXPECT_TRUE(v.queue.empty());
  EXPECT_EQ(v.ep->receives().unexpected_messages(), 1U);
  EXPECT_TRUE(got.holds("1234567890abc"));
}

TEST_F(messages_in_one_buffer, may_have_come_before_it) {
  for (const char* text : {"12345", "67890", "abc", "next"}) say_eager(0, 0, text);
  peer.settle();
  receive_many();
  expect_next(0, 5, 0);
  expect_next(5, 5, 0);
  expect_next(10, 3, FI_MULTI_RECV);
  EXPECT_TRUE(v.queue.empty());
  EXPECT_EQ(v.ep->receives().unexpected_messages(), 1U);
  EXPECT_EQ(v.ep->receives().posted(), 0U);
  EXPECT_TRUE(got.holds("1234567890abc"));
}

TEST_F(messages_in_one_buffer, that_are_longer_than_what_is_left_are_cut_off) {
  receive_many();
  say_eager(0, 0, "12345");
  say_eager(0, 0, "sixteen bytes...");
  peer.settle();
  expect_next(0, 5, 0);
  const cq_entry entry = v.take();
  EXPECT_EQ(entry.error, FI_ETRUNC);
  EXPECT_EQ(entry.length, 15U);
  EXPECT_EQ(entry.truncated_bytes, 1U);
  EXPECT_NE(entry.flags & FI_MULTI_RECV, 0U);
  EXPECT_TRUE(got.holds("12345sixteen bytes.."));
}

}  // namespace
}  // namespace gaudi::proto
