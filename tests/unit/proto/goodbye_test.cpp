// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What has completed arrives, although its sender closes and the receiver is busy.
#include <future>
#include <thread>

#include "endpoint_node.hpp"
#include "peer_by_hand.hpp"

namespace gaudi::proto {
namespace {

using test::counting;
using test::live_node;
using test::memory_of;
using test::number;
using test::pass;
using test::post;
using test::progress_until;
using test::wait;

using namespace std::chrono_literals;

// Longer than any peer here is busy; a close that waits for nothing does not take it.
constexpr auto for_ever = 1h;

/// Not in shared memory, where packets outlive their sender.
endpoint::settings lingering(std::chrono::milliseconds time = for_ever) {
  auto s = test::small_settings();
  s.kernel = nullptr;
  s.eager_size = 16384;
  s.rx_buffers = 256;
  s.linger = time;
  return s;
}

/// Closes the node from a thread of its own.
std::future<void> close_aside(std::unique_ptr<live_node> node) {
  return std::async(std::launch::async, [n = std::move(node)]() mutable { n.reset(); });
}

/// Progresses the node until somebody else has closed.
bool progress_until_closed(live_node& node, std::future<void>& closed) {
  return progress_until({&node}, [&] { return closed.wait_for(0s) == std::future_status::ready; });
}

TEST(goodbye, waits_until_a_busy_receiver_has_all_that_completed) {
  constexpr std::size_t count = 60;
  constexpr std::size_t length = 16000;
  live_node b(lingering());
  auto a = std::make_unique<live_node>(lingering());
  const auto to = a->meet(b);
  pass(*a, to, b, 10, 1000);
  auto sent = counting(length);
  for (std::size_t i = 0; i < count; ++i)
    ASSERT_EQ(
        post({a.get()}, [&] { return a->send(to, memory_of(sent.data(), length), i, number(i)); }),
        0);
  for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(wait(*a, {a.get()}).error, 0);

  auto closed = close_aside(std::move(a));
  // One that does not wait has closed by now.
  closed.wait_for(200ms);
  std::vector<std::byte> got(length);
  for (std::size_t i = 0; i < count; ++i) {
    ASSERT_EQ(b.receive(memory_of(got.data(), length), i, number(i)), 0);
    ASSERT_EQ(wait(b, {&b}).error, 0) << "message " << i << " of " << count;
    ASSERT_TRUE(got == sent) << "message " << i;
  }
  ASSERT_TRUE(progress_until_closed(b, closed));
}

TEST(goodbye, waits_until_a_busy_target_has_what_was_written) {
  constexpr std::size_t count = 200;
  live_node b(lingering());
  auto a = std::make_unique<live_node>(lingering());
  const auto to = a->meet(b);
  pass(*a, to, b, 10, 1);
  auto sent = counting(16000);
  std::vector<std::byte> target(count * sent.size());
  reg::region r;
  b.expose(r, target);
  for (std::size_t i = 0; i < count; ++i) {
    const rma_access at{.target = to,
                        .address = r.address + i * sent.size(),
                        .key = r.key,
                        .completion = a->completion(number(i), FI_RMA | FI_WRITE)};
    ASSERT_EQ(
        post({a.get()}, [&] { return a->ep->write(memory_of(sent.data(), sent.size()), at); }), 0);
  }
  for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(wait(*a, {a.get()}).error, 0);
  auto closed = close_aside(std::move(a));
  closed.wait_for(200ms);
  EXPECT_TRUE(progress_until_closed(b, closed));
  const std::vector<std::byte> last(target.end() - static_cast<std::ptrdiff_t>(sent.size()),
                                    target.end());
  EXPECT_TRUE(last == sent);
}

TEST(goodbye, is_said_by_both_who_close_at_the_same_time) {
  for (int round = 0; round < 20; ++round) {
    auto a = std::make_unique<live_node>(lingering());
    auto b = std::make_unique<live_node>(lingering());
    const auto to_b = a->meet(*b);
    const auto to_a = b->meet(*a);
    pass(*a, to_b, *b, 100, 1);
    pass(*b, to_a, *a, 30'000, 2);
    char said = 'x';
    ASSERT_EQ(a->send(to_b, memory_of(&said, 1), 3, nullptr), 0);
    ASSERT_EQ(b->send(to_a, memory_of(&said, 1), 3, nullptr), 0);
    auto a_closed = close_aside(std::move(a));
    auto b_closed = close_aside(std::move(b));
    ASSERT_EQ(a_closed.wait_for(30s), std::future_status::ready);
    ASSERT_EQ(b_closed.wait_for(30s), std::future_status::ready);
  }
}

// A credit for it came while the endpoint closed, behind the first goodbye.
TEST(goodbye, is_said_again_behind_a_message_that_left_after_it) {
  auto config = lingering();
  config.refusals_before_waiting = 0;
  test::endpoint_by_itself v(config);
  test::peer_by_hand p(v);
  char said = 'x';
  std::size_t sent = 0;
  for (; sent <= 64; ++sent)  // one more than the peer's window
    ASSERT_EQ(v.send(p.address(), memory_of(&said, 1), sent, number(sent)), 0);
  ASSERT_TRUE(v.ep->must_linger());
  p.settle();
  ASSERT_EQ(p.waiting(wire::kind::eager), 64U);
  ASSERT_FALSE(v.ep->must_linger());
  while (v.take().error != FI_ENODATA) {
  }
  const wire::header credit{wire::kind::credit, 0, 1, 0, p.known_as()};
  p.say_as_it_is(&credit, sizeof credit);
  for (int i = 0; i < 20 && v.queue.empty(); ++i) {
    v.progress();
    v.net.advance(1'000'000);
  }
  ASSERT_EQ(v.take().error, 0);
  EXPECT_TRUE(v.ep->must_linger());
  p.settle();
  EXPECT_EQ(p.waiting(wire::kind::eager), 65U);
  EXPECT_FALSE(v.ep->must_linger());
}

// Its own thread closes it, and nobody progresses the peer.
TEST(goodbye, is_not_waited_for_where_nothing_is_on_its_way) {
  live_node b(lingering());
  {
    live_node listens(lingering());
    const auto to = b.meet(listens);
    pass(b, to, listens, 10, 1);
  }
  {
    live_node asks(lingering());
    static_cast<void>(asks.meet(b));
  }
}

TEST(goodbye, is_not_waited_for_longer_than_said) {
  live_node silent(lingering(1ms));
  {
    live_node a(lingering(1ms));
    const auto to = a.meet(silent);
    pass(a, to, silent, 10, 1);
    char said = 'x';
    ASSERT_EQ(a.send(to, memory_of(&said, 1), 2, nullptr), 0);
  }
  char got = 0;
  ASSERT_EQ(silent.receive(memory_of(&got, 1), 2, nullptr), 0);
  EXPECT_TRUE(progress_until({&silent}, [&] { return got == 'x'; }))
      << "few enough to be in the socket already";
}

TEST(goodbye, is_not_waited_for_where_the_peer_has_gone) {
  live_node a(lingering());
  auto b = std::make_unique<live_node>(lingering(1ms));
  const auto to = a.meet(*b);
  pass(a, to, *b, 10, 1);
  char said = 'x';
  ASSERT_EQ(a.send(to, memory_of(&said, 1), 2, nullptr), 0);
  b.reset();
}

}  // namespace
}  // namespace gaudi::proto
