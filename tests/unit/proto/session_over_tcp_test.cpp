// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The real tcp core, whose sockets end again and again in the middle of all that an endpoint does.
#include <array>
#include <cstring>
#include <map>
#include <numeric>
#include <random>
#include <vector>

#include "cut_tcp.hpp"
#include "endpoint_node.hpp"

namespace gaudi::proto {
namespace {

using test::node;

class two_over_tcp : public testing::Test {
 protected:
  static constexpr std::size_t rounds = 60;
  static constexpr std::size_t per_round = 24;
  static constexpr std::size_t cell = 16384;

  void SetUp() override {
    ASSERT_TRUE(a.ep->enable());
    ASSERT_TRUE(b.ep->enable());
    to_b = a.meet(b);
    to_a = b.meet(a);
    b.expose(region, target);
  }

  void exchange_a_message() {
    start([&] { return b.receive(test::memory_of(&received, 1), ~0ULL, &received); });
    start([&] { return a.send(to_b, test::memory_of(&sent, 1), ~0ULL, &sent); });
    while (done < started && !HasFailure()) progress();
  }

  unsigned cut() { return test::cut_tcp(a, b); }

  void progress() {
    a.ep->progress();
    b.ep->progress();
    for (node* n : {&a, &b})
      for (auto entry = n->take(); entry.error != FI_ENODATA; entry = n->take()) {
        EXPECT_EQ(entry.error, 0);
        ++done;
      }
  }

  // Repeats a call until it is taken.
  template <class Call>
  void start(Call&& call) {
    int ret = -FI_EAGAIN;
    while ((ret = call()) == -FI_EAGAIN) progress();
    ASSERT_EQ(ret, 0);
    ++started;
  }

  node a{test::with_sessions()};
  node b{test::with_sessions()};
  fi_addr_t to_a = 0;
  fi_addr_t to_b = 0;
  std::vector<std::byte> target = std::vector<std::byte>(per_round * cell);
  reg::region region;
  std::mt19937 random{1};
  std::byte sent{};
  std::byte received{};
  std::size_t started = 0;
  std::size_t done = 0;
};

class session_over_tcp : public two_over_tcp {
 protected:
  void SetUp() override {
    two_over_tcp::SetUp();
    exchange_a_message();
  }
};

TEST_F(two_over_tcp, ask_again_when_what_they_ask_is_lost) {
  unsigned cuts = 0;
  start([&] { return b.receive(test::memory_of(&received, 1), ~0ULL, &received); });
  start([&] { return a.send(to_b, test::memory_of(&sent, 1), ~0ULL, &sent); });
  // Nobody answers yet.
  while (cuts < 6) {
    a.ep->progress();
    cuts += cut();
  }
  // The answer is on its way, or was never sent.
  while (cuts < 12) {
    b.ep->progress();
    cuts += cut();
    a.ep->progress();
  }
  while (done < started && !HasFailure()) progress();
  EXPECT_EQ(a.paths.connections.lost + b.paths.connections.lost, 0U);
}

TEST_F(session_over_tcp, outlives_any_number_of_losses_while_nothing_is_under_way) {
  for (std::uint64_t n = 1; n <= 40; ++n) {
    ASSERT_GT(cut(), 0U);
    while (a.paths.connections.resumed < n || b.paths.connections.resumed < n) progress();
  }
  exchange_a_message();
  EXPECT_EQ(a.paths.connections.lost + b.paths.connections.lost, 0U);
}

// A core that is asked for memory that there is not ends the connection, and each that follows.
TEST(session_with_a_wrong_key, ends_the_operation_and_nothing_else) {
  node a{test::with_sessions()};
  node b{test::with_sessions()};
  ASSERT_TRUE(a.ep->enable());
  ASSERT_TRUE(b.ep->enable());
  const fi_addr_t to_b = a.meet(b);
  static_cast<void>(b.meet(a));
  std::byte bytes[64]{};
  std::byte sent{};
  std::byte received{};
  ASSERT_EQ(b.receive(test::memory_of(&received, 1), 1, &received), 0);
  int ret = -FI_EAGAIN;
  while (ret == -FI_EAGAIN) {
    ret = a.ep->write(test::memory_of(bytes, sizeof bytes),
                      {.target = to_b,
                       .address = reinterpret_cast<std::uint64_t>(&bytes),
                       .key = 1,
                       .completion = a.completion(bytes)});
    a.ep->progress();
    b.ep->progress();
  }
  ASSERT_EQ(ret, 0);
  ASSERT_EQ(a.send(to_b, test::memory_of(&sent, 1), 1, &sent), 0);
  std::map<void*, int> ends;
  while (ends.size() < 3) {
    for (node* n : {&a, &b}) {
      n->ep->progress();
      if (const auto entry = n->take(); entry.error != FI_ENODATA)
        ends[entry.context] = entry.error;
    }
  }
  EXPECT_EQ(ends.at(bytes), FI_ECONNRESET);
  EXPECT_EQ(ends.at(&sent), 0);
  EXPECT_EQ(ends.at(&received), 0);
}

// A length that goes within a message, or by rendezvous.
std::size_t some_length(std::mt19937& random) {
  constexpr std::size_t lengths[] = {8, 64, 900, 4000, 5000, 16384};
  return lengths[random() % std::size(lengths)];
}

TEST_F(session_over_tcp, loses_and_doubles_no_message) {
  unsigned cuts = 0;
  for (std::size_t round = 0; round < rounds; ++round) {
    std::vector<std::vector<std::byte>> sent;
    std::vector<std::vector<std::byte>> got;
    for (std::size_t n = 0; n < per_round; ++n) {
      sent.emplace_back(some_length(random), static_cast<std::byte>(round + n));
      got.emplace_back(cell);
    }
    for (std::size_t n = 0; n < per_round; ++n) {
      node& from = n % 2 ? b : a;
      node& to = n % 2 ? a : b;
      const std::uint64_t tag = round * per_round + n;
      start([&] { return to.receive(test::memory_of(got[n].data(), cell), tag, &got[n]); });
      start([&] {
        return from.send(n % 2 ? to_a : to_b, test::memory_of(sent[n].data(), sent[n].size()), tag,
                         &sent[n]);
      });
      if (n == round % per_round || random() % 16 == 0) cuts += cut();
    }
    while (done < started && !HasFailure()) progress();
    for (std::size_t n = 0; n < per_round; ++n) {
      got[n].resize(sent[n].size());
      ASSERT_EQ(got[n], sent[n]) << "message " << n << " of round " << round;
    }
    ASSERT_FALSE(HasFailure()) << "round " << round;
  }
  EXPECT_GT(cuts, rounds);
  EXPECT_GT(a.paths.connections.resumed, rounds / 2);
  EXPECT_EQ(a.paths.connections.lost + b.paths.connections.lost, 0U);
}

// The peer may have nothing more to say before it has them.
TEST_F(session_over_tcp, returns_the_credits_of_what_was_received_while_it_was_interrupted) {
  std::vector<std::byte> bytes(4000);
  std::size_t unexpected = 0;
  for (int refused = 0; refused < 2000; a.ep->progress(), b.ep->progress()) {
    const bool went = a.send(to_b, test::memory_of(bytes.data(), bytes.size()), 7, &sent) == 0;
    refused = went ? 0 : refused + 1;
    unexpected += went;
  }
  ASSERT_GT(cut(), 0U);
  while (b.paths.connections.interrupted == 0) b.ep->progress();
  for (std::size_t i = 0; i < unexpected; ++i)
    ASSERT_EQ(b.receive(test::memory_of(bytes.data(), bytes.size()), 7, &received), 0);
  EXPECT_EQ(test::post({&a, &b}, [&] { return a.send(to_b, test::memory_of(&sent, 1), 8, &sent); }),
            0);
  EXPECT_EQ(a.paths.connections.lost + b.paths.connections.lost, 0U);
}

TEST_F(session_over_tcp, carries_out_rma_and_atomics) {
  std::uint64_t sum = 0;
  std::uint64_t added = 0;
  reg::region counter;
  b.expose(counter, std::as_writable_bytes(std::span(&sum, 1)));
  for (std::size_t round = 0; round < rounds; ++round) {
    std::vector<std::vector<std::byte>> written;
    std::vector<std::vector<std::byte>> read;
    std::array<std::uint64_t, per_round> operands{};
    for (std::size_t n = 0; n < per_round; ++n) {
      written.emplace_back(some_length(random), static_cast<std::byte>(1 + round + n));
      read.emplace_back(written.back().size());
      operands[n] = 1 + n;
    }
    for (std::size_t n = 0; n < per_round; ++n) {
      const std::uint64_t at = region.address + n * cell;
      start([&] {
        return a.ep->write(test::memory_of(written[n].data(), written[n].size()),
                           {.target = to_b,
                            .address = at,
                            .key = region.key,
                            .completion = a.completion(&written[n])});
      });
      start([&] {
        return a.ep->atomic({.target = to_b,
                             .address = counter.address,
                             .key = counter.key,
                             .type = FI_UINT64,
                             .op = FI_SUM,
                             .count = 1,
                             .operands = test::memory_of(&operands[n], sizeof operands[n]),
                             .compares = {},
                             .results = {},
                             .completion = a.completion(&operands[n])});
      });
      added += operands[n];
      if (n == round % per_round || random() % 16 == 0) cut();
    }
    while (done < started && !HasFailure()) progress();
    EXPECT_EQ(sum, added) << "round " << round;
    for (std::size_t n = 0; n < per_round; ++n)
      start([&] {
        return a.ep->read(test::memory_of(read[n].data(), read[n].size()),
                          {.target = to_b,
                           .address = region.address + n * cell,
                           .key = region.key,
                           .completion = a.completion(&read[n])});
      });
    cut();
    while (done < started && !HasFailure()) progress();
    for (std::size_t n = 0; n < per_round; ++n)
      ASSERT_EQ(read[n], written[n]) << "write " << n << " of round " << round;
    ASSERT_FALSE(HasFailure()) << "round " << round;
  }
  EXPECT_GT(a.paths.connections.resumed, rounds / 2);
}

// Nobody listens any more: what is outstanding fails at once, not after the timeout.
TEST_F(session_over_tcp, ends_with_a_peer_that_is_gone) {
  std::vector<std::byte> room(8192);
  ASSERT_EQ(a.ep->send(test::memory_of(room.data(), room.size()),
                       {.to = to_b, .tag = 2, .completion = a.completion(&room)}),
            0);
  b.ep->shut_down();
  auto ended = a.take();
  for (; ended.error == FI_ENODATA; ended = a.take()) a.ep->progress();
  EXPECT_EQ(ended.error, FI_ECONNRESET);
  EXPECT_EQ(ended.context, &room);
}

}  // namespace
}  // namespace gaudi::proto
