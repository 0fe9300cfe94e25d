// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A peer that speaks the core's protocol, but not ours: wrong greetings, and every kind of packet
// with random contents.
#include "hostile_peer.hpp"

#include <algorithm>
#include <array>
#include <random>

#include "endpoint_node.hpp"

namespace gaudi::proto {
namespace {

using namespace std::chrono_literals;
using test::greeting;
using test::raw_client;
using test::victim;

TEST(hostile_peer, another_wire_version_is_refused_and_told_ours) {
  victim v;
  raw_client client;
  hello h = greeting(1);
  h.version = wire::version + 1;
  hello answer{};
  EXPECT_EQ(client.connect(v, &h, sizeof h, answer), FI_ECONNREFUSED);
  EXPECT_EQ(answer.magic, wire::magic);
  EXPECT_EQ(answer.version, wire::version);
  EXPECT_EQ(answer.reason, static_cast<std::uint8_t>(wire::reject_reason::wrong_version));
}

TEST(hostile_peer, greetings_that_say_nothing_are_refused) {
  victim v;
  std::mt19937 random(1);
  for (const std::size_t length : {0U, 5U, 55U, 56U, 100U}) {
    raw_client client;
    std::vector<unsigned char> bytes(length);
    for (auto& b : bytes) b = static_cast<unsigned char>(random());
    hello answer{};
    EXPECT_EQ(client.connect(v, bytes.data(), bytes.size(), answer), FI_ECONNREFUSED)
        << length << " bytes";
  }
}

// A packet that is right in more and more of its fields, so that every check behind the first is
// reached, too.
std::size_t random_packet(std::mt19937_64& random, const hello& ours, const hello& theirs,
                          std::byte* packet) {
  using wire::kind;
  constexpr std::array kinds = {
      kind::eager,         kind::rts,          kind::write,         kind::write_rts,
      kind::read,          kind::atomic,       kind::read_reply,    kind::read_rts,
      kind::cts,           kind::chunk,        kind::slot_credit,   kind::fin,
      kind::event,         kind::flush,        kind::ask_dmabuf,    kind::dmabuf,
      kind::dmabuf_revoke, kind::copy_assist,  kind::credit,        kind::close_request,
      kind::close_accept,  kind::close_refuse, kind::credit_recall, kind::credit_release,
      kind::ask_rails,     kind::rail_names,   kind::rail_lost,     kind::rail_closed,
      kind::ask_rail_keys, kind::rail_keys};
  for (std::size_t i = 0; i < 128; i += 8) {
    // Small numbers are names, counts and lengths that exist.
    const std::uint64_t word = random() % 2 ? random() % 8 : random();
    std::memcpy(packet + i, &word, 8);
  }
  auto& head = *reinterpret_cast<wire::header*>(packet);
  if (random() % 20) head.what = kinds[random() % kinds.size()];
  if (random() % 200) head.connection = theirs.connection;
  if (head.what == wire::kind::write || head.what == wire::kind::read ||
      head.what == wire::kind::write_rts) {
    auto& fields = *reinterpret_cast<wire::rma_fields*>(packet);
    if (random() % 2) fields.key = 77;
    if (random() % 2) fields.length = random() % 64;
  }
  static_cast<void>(ours);
  return sizeof(wire::header) + random() % (128 - sizeof(wire::header) + 1);
}

TEST(hostile_peer, random_packets_do_no_harm) {
  constexpr int seeds = 1000;
  constexpr int packets = 500;
  victim v;
  int delivered = 0;
  for (int seed = 0; seed < seeds; ++seed) {
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    raw_client client;
    const hello ours = greeting(1000 + static_cast<std::uint64_t>(seed));
    hello theirs{};
    ASSERT_EQ(client.connect(v, &ours, sizeof ours, theirs), FI_CONNECTED) << "seed " << seed;
    for (int i = 0; i < packets && !client.shut; ++i) {
      alignas(8) std::byte packet[128];
      const std::size_t length = random_packet(random, ours, theirs, packet);
      if (client.send(packet, length)) ++delivered;
      v.ep->progress();
      client.progress();
    }
    // Leave some receives behind, for the packets to match.
    if (seed % 4 == 0) {
      const auto memory = local_memory::of_host(v.target.data(), 100);
      EXPECT_EQ(
          v.ep->receives().receive(memory, {.tag = 1,
                                            .ignore = 7,
                                            .tagged = true,
                                            .completion = {.queue = &v.queue, .report = true}}),
          0);
    }
    while (!v.queue.empty()) v.queue.pop();
  }
  EXPECT_GT(delivered, 5 * seeds);

  // It still serves the next honest one.
  raw_client honest;
  const hello ours = greeting(60000);
  hello theirs{};
  ASSERT_EQ(honest.connect(v, &ours, sizeof ours, theirs), FI_CONNECTED);
  v.ep->receives().cancel(nullptr);
  while (!v.queue.empty()) v.queue.pop();
  wire::eager_fields message{};
  message.head = {wire::kind::eager, wire::tagged, 0, 0, theirs.connection};
  message.tag = 0x123456789;
  ASSERT_TRUE(honest.send(&message, wire::eager_size(wire::tagged)));
  const auto memory = local_memory::of_host(v.target.data(), 100);
  ASSERT_EQ(v.ep->receives().receive(
                memory, {.tag = message.tag,
                         .tagged = true,
                         .completion = {.queue = &v.queue, .context = &v, .report = true}}),
            0);
  const auto give_up = std::chrono::steady_clock::now() + 20s;
  const auto done = [&] { return !v.queue.empty() && v.queue.front().context == &v; };
  while (!done() && std::chrono::steady_clock::now() < give_up) {
    v.ep->progress();
    honest.progress();
    while (!v.queue.empty() && v.queue.front().context != &v) v.queue.pop();
  }
  EXPECT_TRUE(done());
}

// Two peers of one endpoint, of which one says in its packets that it is the other.
class two_peers : public testing::Test {
 protected:
  two_peers() {
    const hello of_innocent = greeting(60003);
    const hello of_liar = greeting(60004);
    EXPECT_EQ(innocent.connect(v, &of_innocent, sizeof of_innocent, known_to_innocent),
              FI_CONNECTED);
    EXPECT_EQ(liar.connect(v, &of_liar, sizeof of_liar, known_to_liar), FI_CONNECTED);
  }

  void send(raw_client& from, wire::kind what, std::uint32_t connection, std::uint64_t tag) {
    wire::eager_fields message{};
    message.head = {what, wire::tagged, 0, 0, connection};
    message.tag = tag;
    ASSERT_TRUE(from.send(&message, wire::eager_size(wire::tagged)));
  }

  template <class Done>
  bool progress_until(Done&& done) {
    const auto give_up = std::chrono::steady_clock::now() + 20s;
    while (!done()) {
      if (std::chrono::steady_clock::now() > give_up) return false;
      v.ep->progress();
      innocent.progress();
      liar.progress();
    }
    return true;
  }

  void receive_any() {
    const auto memory = local_memory::of_host(v.target.data(), 100);
    EXPECT_EQ(v.ep->receives().receive(memory, {.ignore = UINT64_MAX,
                                                .tagged = true,
                                                .completion = {.queue = &v.queue, .report = true}}),
              0);
  }

  victim v;
  raw_client innocent;
  raw_client liar;
  hello known_to_innocent{};
  hello known_to_liar{};
};

TEST_F(two_peers, a_broken_packet_with_anothers_number_closes_the_connection_that_it_came_on) {
  send(liar, static_cast<wire::kind>(99), known_to_innocent.connection, 0);
  ASSERT_TRUE(progress_until([&] { return liar.shut || innocent.shut; }));
  EXPECT_TRUE(liar.shut);
  receive_any();
  send(innocent, wire::kind::eager, known_to_innocent.connection, 5);
  ASSERT_TRUE(progress_until([&] { return !v.queue.empty(); }));
  EXPECT_EQ(v.queue.front().tag, 5U);
  EXPECT_FALSE(innocent.shut);
}

TEST_F(two_peers, a_message_with_anothers_number_is_not_delivered) {
  receive_any();
  send(liar, wire::kind::eager, known_to_innocent.connection, 4);
  ASSERT_TRUE(progress_until([&] { return liar.shut || !v.queue.empty(); }));
  EXPECT_TRUE(v.queue.empty()) << "it came in another's name";
  send(innocent, wire::kind::eager, known_to_innocent.connection, 5);
  ASSERT_TRUE(progress_until([&] { return !v.queue.empty(); }));
  EXPECT_EQ(v.queue.front().tag, 5U);
}

TEST_F(two_peers, what_they_are_called_tells_nothing_of_what_others_are_called) {
  EXPECT_GT(known_to_liar.connection ^ known_to_innocent.connection, 15U)
      << "numbers that count up";
}

// They would have all there are, were their receives not given back.
TEST_F(two_peers, many_that_come_and_go_leave_receives_for_the_others) {
  for (std::uint64_t i = 0; i < 50; ++i) {
    raw_client passing;
    const hello of_passing = greeting(61000 + i);
    hello known{};
    ASSERT_EQ(passing.connect(v, &of_passing, sizeof of_passing, known), FI_CONNECTED) << i;
  }
  receive_any();
  send(innocent, wire::kind::eager, known_to_innocent.connection, 5);
  EXPECT_TRUE(progress_until([&] { return !v.queue.empty(); }));
  raw_client late;
  const hello of_late = greeting(62000);
  hello known_to_late{};
  ASSERT_EQ(late.connect(v, &of_late, sizeof of_late, known_to_late), FI_CONNECTED);
  v.queue.pop();
  receive_any();
  send(late, wire::kind::eager, known_to_late.connection, 6);
  ASSERT_TRUE(progress_until([&] { return !v.queue.empty(); }));
  EXPECT_EQ(v.queue.front().tag, 6U);
}

// A source that is asked to write, and to a sink that cannot take what it gets: its device memory
// is of a dma-buf that nothing here copies to.
class slow_source : public testing::Test {
 protected:
  static constexpr std::uint64_t message_length = 256 * 1024;

  slow_source() {
    memory.address = 0x1001001800000000;
    memory.length = message_length;
    memory.imported = true;
    const hello ours = greeting(60001);
    EXPECT_EQ(source.connect(v, &ours, sizeof ours, theirs), FI_CONNECTED);
    source.listen(32);
  }

  void tell(const void* bytes, std::size_t length) { EXPECT_TRUE(source.send(bytes, length)); }

  /// Offers a message, and is told where to put it.
  wire::cts_fields offer(std::uint64_t operation) {
    test::offer_staged(v, source, theirs,
                       local_memory::inside(memory, memory.address, message_length), operation);
    return source.hear<wire::cts_fields>(v, wire::kind::cts);
  }

  void say_filled(const wire::cts_fields& grant) {
    wire::chunk_fields chunk{};
    chunk.head = {wire::kind::chunk, 0, 0, 0, theirs.connection};
    chunk.operation = grant.target_operation;
    chunk.length = 4096;
    tell(&chunk, sizeof chunk);
  }

  void say_done(const wire::cts_fields& grant) {
    wire::fin_fields done{};
    done.head = {wire::kind::fin, 0, 0, 0, theirs.connection};
    done.operation = grant.target_operation;
    done.status = FI_EIO;
    tell(&done, sizeof done);
  }

  static bool share_a_slot(const wire::cts_fields& a, const wire::cts_fields& b) {
    return std::any_of(a.segments, a.segments + a.segment_count, [&](const wire::segment& of_a) {
      return std::any_of(b.segments, b.segments + b.segment_count,
                         [&](const wire::segment& of_b) { return of_a.address == of_b.address; });
    });
  }

  reg::region memory;
  victim v;
  raw_client source;
  hello theirs{};
};

TEST_F(slow_source, keeps_its_slots_until_it_is_done_with_a_transfer_that_failed) {
  const auto first = offer(1);
  say_filled(first);
  EXPECT_NE(source.hear<wire::fin_fields>(v, wire::kind::fin).status, 0);
  EXPECT_EQ(v.queue.front().error, FI_EOPNOTSUPP) << "the application is told at once";
  EXPECT_FALSE(share_a_slot(first, offer(2))) << "late writes go to another message's slots";
  say_done(first);
  EXPECT_TRUE(share_a_slot(first, offer(3))) << "slots are lost";
}

TEST_F(slow_source, is_told_once_of_a_transfer_that_failed) {
  const auto first = offer(1);
  say_filled(first);
  EXPECT_NE(source.hear<wire::fin_fields>(v, wire::kind::fin).status, 0);
  source.passed_over.clear();
  say_done(first);
  offer(2);
  EXPECT_EQ(std::count(source.passed_over.begin(), source.passed_over.end(), wire::kind::fin), 0);
  EXPECT_EQ(v.queue.size(), 1U) << "and so is the application";
}

// A sink that says by itself when it has a message.
class sink_by_hand : public testing::Test {
 protected:
  sink_by_hand() {
    const hello ours = greeting(60002);
    EXPECT_EQ(sink.connect(v, &ours, sizeof ours, theirs), FI_CONNECTED);
    sink.listen(32);
    to = *v.addresses.add(address_of(ours));
  }

  /// Sends it a message that is too long for one packet. The number of the operation.
  std::uint64_t send() {
    const auto memory = local_memory::of_host(bytes.data(), bytes.size());
    const completion_spec completion{.queue = &v.queue, .report = true};
    int rc = -FI_EAGAIN;
    for (int i = 0; i < 1000 && rc == -FI_EAGAIN; ++i) {
      rc = v.ep->send(memory, {.to = to, .completion = completion});
      v.ep->progress();
    }
    EXPECT_EQ(rc, 0);
    return sink.hear<wire::eager_fields>(v, wire::kind::rts).operation;
  }

  void say_done(std::uint64_t operation, int status, std::size_t more) {
    std::vector<std::byte> packet(sizeof(wire::fin_fields) + more, std::byte{0xa5});
    wire::fin_fields done{};
    done.head = {wire::kind::fin, 0, 0, 0, theirs.connection};
    done.operation = operation;
    done.status = status;
    std::memcpy(packet.data(), &done, sizeof done);
    EXPECT_TRUE(sink.send(packet.data(), packet.size()));
    const auto give_up = std::chrono::steady_clock::now() + 20s;
    while (v.queue.empty() && std::chrono::steady_clock::now() < give_up) {
      v.ep->progress();
      sink.progress();
    }
  }

  std::vector<std::byte> bytes = std::vector<std::byte>(64 * 1024);
  victim v;
  raw_client sink;
  hello theirs{};
  fi_addr_t to = FI_ADDR_NOTAVAIL;
};

class speaking_sink : public sink_by_hand, public testing::WithParamInterface<std::size_t> {};

// One byte is what a NIC reads back to flush the sink's device memory; what it is says nothing.
TEST_P(speaking_sink, ends_a_message_whatever_comes_behind_its_word) {
  for (const int status : {0, FI_EIO}) {
    say_done(send(), status, GetParam());
    ASSERT_FALSE(v.queue.empty());
    EXPECT_EQ(v.queue.front().error, status);
    v.queue.pop();
  }
  EXPECT_FALSE(sink.shut);
}

// Whoever guesses the number of an operation with somebody else cannot end it.
TEST_F(sink_by_hand, ends_no_message) {
  const std::uint64_t operation = send();
  raw_client intruder;
  const hello ours = greeting(60004);
  hello to_intruder{};
  ASSERT_EQ(intruder.connect(v, &ours, sizeof ours, to_intruder), FI_CONNECTED);
  wire::fin_fields fin{};
  fin.head = {wire::kind::fin, 0, 0, 0, to_intruder.connection};
  fin.operation = operation;
  EXPECT_TRUE(intruder.send(&fin, sizeof fin));
  // Comes behind it.
  wire::eager_fields message{};
  message.head = {wire::kind::eager, 0, 0, 0, to_intruder.connection};
  EXPECT_TRUE(intruder.send(&message, sizeof message));
  const completion_spec received{.queue = &v.queue, .context = &intruder, .report = true};
  ASSERT_EQ(v.ep->receives().receive(test::memory_of(bytes.data(), 0), {.completion = received}),
            0);
  const auto give_up = std::chrono::steady_clock::now() + 20s;
  while (v.queue.empty() && std::chrono::steady_clock::now() < give_up) {
    v.ep->progress();
    intruder.progress();
  }
  ASSERT_FALSE(v.queue.empty());
  EXPECT_EQ(v.queue.front().context, &intruder) << "the message has ended";
  v.queue.pop();
  EXPECT_TRUE(v.queue.empty()) << "the message has ended";
  say_done(operation, 0, 0);
  EXPECT_FALSE(v.queue.empty());
}

INSTANTIATE_TEST_SUITE_P(bytes, speaking_sink, testing::Values(0, 1, 100));

}  // namespace
}  // namespace gaudi::proto
