// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// RMA operations on several ranges of a peer whose every answer the test makes: what is asked for
// on each, when it is posted, and that the application hears of one operation.
#include "proto/rma/rma_ranges.hpp"

#include <array>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <vector>

#include "peer_by_hand.hpp"
#include "reg/key_table.hpp"

namespace gaudi::proto {
namespace {

using test::endpoint_by_itself;
using test::peer_by_hand;

using ranges_of_peer = std::vector<fi_rma_iov>;

class operations_on_ranges : public testing::Test {
 protected:
  // The peer's provider answers for these, and its core for others.
  static constexpr std::uint64_t asked_for = reg::key_table::software_bit + 5;

  static endpoint::settings settings() {
    auto s = test::small_settings();
    s.kernel = nullptr;
    return s;
  }
  static std::size_t length_of_all(const ranges_of_peer& ranges) {
    return std::accumulate(ranges.begin(), ranges.end(), std::size_t{0},
                           [](std::size_t sum, const fi_rma_iov& r) { return sum + r.len; });
  }
  rma_access access() { return {.target = peer.address(), .completion = v.completion(&v)}; }
  int write(const ranges_of_peer& ranges, const rma_access& how) {
    return v.ep->access_ranges(rma_ranges::direction::write,
                               test::memory_of(bytes.data(), length_of_all(ranges)), how, ranges);
  }
  int read(const ranges_of_peer& ranges, const local_memory& to) {
    return v.ep->access_ranges(rma_ranges::direction::read, to, access(), ranges);
  }
  struct asked {
    wire::rma_fields fields{};
    std::vector<std::byte> bytes;
  };
  std::vector<asked> heard(wire::kind what) {
    peer.settle();
    std::vector<asked> all;
    while (const auto packet = peer.heard_whole(what)) {
      asked& one = all.emplace_back();
      std::memcpy(&one.fields, packet->data(), sizeof one.fields);
      one.bytes.assign(packet->begin() + sizeof one.fields, packet->end());
    }
    return all;
  }
  void say_fin(const asked& of, int status = 0) {
    peer.say(wire::kind::fin,
             wire::fin_fields{
                 .head = {}, .operation = of.fields.operation, .status = status, .reserved = 0});
    peer.settle();
  }
  void expect_one_end(int error) {
    const auto entry = v.take();
    EXPECT_EQ(entry.error, error);
    EXPECT_EQ(entry.context, &v);
    EXPECT_TRUE(v.queue.empty());
  }
  /// Operations of three ranges until none is taken any more, of which the last one waits for room.
  unsigned fill_the_window() {
    unsigned taken = 0;
    while (write({{0, 8, asked_for}, {8, 8, asked_for}, {16, 8, asked_for}}, access()) == 0) {
      ++taken;
      EXPECT_LE(taken, 1000U);
    }
    return taken;
  }
  void give_credits(std::uint8_t count) {
    const wire::header head{wire::kind::credit, 0, count, 0, peer.known_as()};
    peer.say_as_it_is(&head, sizeof head);
    peer.settle();
  }

  std::vector<std::byte> bytes = test::counting(20'000);
  std::vector<std::byte> place = std::vector<std::byte>(20'000);
  endpoint_by_itself v{settings()};
  peer_by_hand peer{v};
};

TEST_F(operations_on_ranges, are_one_request_for_each_and_one_end) {
  ASSERT_EQ(write({{0x1000, 100, asked_for}, {0, 0, 1}, {0x50, 7, asked_for + 1}}, access()), 0);
  const auto all = heard(wire::kind::write);
  ASSERT_EQ(all.size(), 2U) << "nothing is to be done in an empty range";
  EXPECT_EQ(all[0].fields.address, 0x1000U);
  EXPECT_EQ(all[0].fields.key, asked_for);
  EXPECT_EQ(all[0].bytes, std::vector<std::byte>(bytes.begin(), bytes.begin() + 100));
  EXPECT_EQ(all[1].fields.address, 0x50U);
  EXPECT_EQ(all[1].fields.key, asked_for + 1);
  EXPECT_EQ(all[1].bytes, std::vector<std::byte>(bytes.begin() + 100, bytes.begin() + 107));
  say_fin(all[1]);
  EXPECT_TRUE(v.queue.empty()) << "half of it";
  say_fin(all[0]);
  expect_one_end(0);
}

TEST_F(operations_on_ranges, of_the_peers_core_reach_each_of_them) {
  const wire::segment there = peer.expose(place);
  std::array<std::byte, 9'000> first{}, second{};
  const ranges_of_peer apart{{there.address + 11'000, 4'000, there.key},
                             {there.address, 6'001, there.key},
                             {there.address + 7'000, 2'999, there.key}};
  ASSERT_EQ(write(apart, access()), 0);
  peer.settle();
  expect_one_end(0);
  EXPECT_EQ(std::memcmp(&place[11'000], bytes.data(), 4'000), 0);
  EXPECT_EQ(std::memcmp(place.data(), &bytes[4'000], 6'001), 0);
  EXPECT_EQ(std::memcmp(&place[7'000], &bytes[10'001], 2'999), 0);
  EXPECT_EQ(place[6'001], std::byte{0});
  // Ends of ranges here are not those there.
  const std::array<iovec, 2> parts{
      {{first.data(), first.size()}, {second.data(), length_of_all(apart) - first.size()}}};
  ASSERT_EQ(read(apart, test::memory_of(parts)), 0);
  peer.settle();
  expect_one_end(0);
  EXPECT_EQ(std::memcmp(first.data(), bytes.data(), first.size()), 0);
  EXPECT_EQ(std::memcmp(second.data(), &bytes[first.size()], parts[1].iov_len), 0);
}

TEST_F(operations_on_ranges, tell_the_peer_of_data_once_all_else_has_arrived) {
  auto how = access();
  how.has_data = true;
  how.data = 9;
  ASSERT_EQ(write({{0, 10, asked_for}, {100, 10, asked_for}, {200, 10, asked_for}}, how), 0);
  const auto first = heard(wire::kind::write);
  ASSERT_EQ(first.size(), 2U);
  for (const asked& one : first) EXPECT_EQ(one.fields.head.flags & wire::cq_data, 0);
  EXPECT_FALSE(v.ep->is_quiet(how.target));
  say_fin(first[0]);
  EXPECT_TRUE(heard(wire::kind::write).empty());
  say_fin(first[1]);
  const auto last = heard(wire::kind::write);
  ASSERT_EQ(last.size(), 1U);
  EXPECT_EQ(last[0].fields.head.flags & wire::cq_data, wire::cq_data);
  EXPECT_EQ(last[0].fields.data, 9U);
  EXPECT_EQ(last[0].fields.address, 200U);
  EXPECT_TRUE(v.queue.empty());
  say_fin(last[0]);
  expect_one_end(0);
  EXPECT_TRUE(v.ep->is_quiet(how.target));
}

TEST_F(operations_on_ranges, fail_once_with_what_failed_first_and_leave_out_the_rest) {
  auto how = access();
  how.has_data = true;
  ASSERT_EQ(write({{0, 10, asked_for}, {100, 10, asked_for}, {200, 10, asked_for}}, how), 0);
  const auto first = heard(wire::kind::write);
  ASSERT_EQ(first.size(), 2U);
  say_fin(first[1], FI_EACCES);
  EXPECT_TRUE(v.queue.empty()) << "the other one may be reading our memory still";
  say_fin(first[0], FI_EIO);
  expect_one_end(FI_EACCES);
  EXPECT_TRUE(heard(wire::kind::write).empty());
}

TEST_F(operations_on_ranges, that_there_is_no_room_for_are_posted_later) {
  const unsigned taken = fill_the_window();
  auto asked_by_now = heard(wire::kind::write);
  ASSERT_NE(asked_by_now.size() % 3, 0U) << "one of them waits in its middle";
  for (const asked& one : asked_by_now) say_fin(one);
  for (unsigned i = 0; i + 1 < taken; ++i) EXPECT_EQ(v.take().error, 0);
  EXPECT_TRUE(v.queue.empty());
  EXPECT_FALSE(v.ep->is_quiet(peer.address()));
  EXPECT_FALSE(v.ep->needs_polling()) << "a thread may sleep until the credits come";
  give_credits(10);
  const auto rest = heard(wire::kind::write);
  ASSERT_EQ(rest.size(), 3 - asked_by_now.size() % 3);
  EXPECT_EQ(rest.back().fields.address, 16U);
  for (const asked& one : rest) say_fin(one);
  expect_one_end(0);
}

TEST_F(operations_on_ranges, that_wait_do_not_see_what_an_injected_buffer_becomes) {
  while (v.ep->write(test::memory_of(bytes.data(), 8),
                     {.target = peer.address(), .key = asked_for, .completion = v.completion()}) ==
         0) {
  }
  static_cast<void>(heard(wire::kind::write));
  give_credits(1);
  const auto before = bytes;
  auto how = access();
  how.inject = true;
  ASSERT_EQ(write({{0, 8, asked_for}, {8, 8, asked_for}}, how), 0);
  std::fill(bytes.begin(), bytes.end(), std::byte{0});
  give_credits(1);
  const auto all = heard(wire::kind::write);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[1].bytes, std::vector<std::byte>(before.begin() + 8, before.begin() + 16));
}

// Else its parts that wait for room would need the caller's buffer.
TEST_F(operations_on_ranges, are_not_begun_where_an_injected_buffer_cannot_be_copied) {
  const wire::segment there = peer.expose(place);
  auto how = access();
  how.inject = true;
  how.address = there.address;
  how.key = there.key;
  int ret = 0;
  unsigned taken = 0;
  while ((ret = v.ep->write(test::memory_of(bytes.data(), 120), how)) == 0) ++taken;
  ASSERT_EQ(ret, -FI_EAGAIN);
  EXPECT_EQ(write({{0, 8, asked_for}, {8, 8, asked_for}}, how), -FI_EAGAIN);
  EXPECT_TRUE(heard(wire::kind::write).empty());
  for (unsigned i = 0; i < taken; ++i) EXPECT_EQ(v.take().error, 0);
  EXPECT_TRUE(v.queue.empty());
  ASSERT_EQ(write({{0, 8, asked_for}, {8, 8, asked_for}}, how), 0);
  for (const asked& one : heard(wire::kind::write)) say_fin(one);
  expect_one_end(0);
}

TEST_F(operations_on_ranges, end_with_their_endpoint_and_once) {
  const unsigned taken = fill_the_window();
  peer.settle();
  EXPECT_TRUE(v.queue.empty());
  v.ep->shut_down();
  for (unsigned i = 0; i < taken; ++i) EXPECT_NE(v.take().error, 0);
  EXPECT_TRUE(v.queue.empty());
}

TEST_F(operations_on_ranges, end_with_their_connection_and_once) {
  ASSERT_EQ(write({{0, 8, asked_for}, {8, 8, asked_for}}, access()), 0);
  peer.settle();
  peer.close();
  peer.settle();
  EXPECT_NE(v.take().error, 0);
  EXPECT_TRUE(v.queue.empty());
}

// At the target's address there may be another process by then, without the first bytes.
TEST_F(operations_on_ranges, do_not_go_on_over_another_connection) {
  const unsigned taken = fill_the_window();
  for (const asked& one : heard(wire::kind::write)) say_fin(one);
  for (unsigned i = 0; i + 1 < taken; ++i) EXPECT_EQ(v.take().error, 0);
  EXPECT_TRUE(v.queue.empty());
  peer.close();
  peer.settle();
  expect_one_end(FI_ECONNABORTED);
}

TEST_F(operations_on_ranges, go_on_although_the_targets_address_is_removed) {
  const fi_addr_t to = peer.address();
  auto how = access();
  how.target = to;
  how.has_data = true;
  ASSERT_EQ(write({{0, 10, asked_for}, {200, 10, asked_for}}, how), 0);
  const auto first = heard(wire::kind::write);
  ASSERT_EQ(first.size(), 1U);
  EXPECT_TRUE(v.addresses.remove(to));
  peer.settle();
  say_fin(first[0]);
  const auto last = heard(wire::kind::write);
  ASSERT_EQ(last.size(), 1U);
  say_fin(last[0]);
  expect_one_end(0);
}

// Whoever asked for order has it: what is posted later must not overtake.
class ordered_ranges : public operations_on_ranges {
 protected:
  ordered_ranges() {
    auto s = settings();
    s.rma_order = true;
    ordered.emplace(s);
    with.emplace(*ordered);
  }
  std::optional<endpoint_by_itself> ordered;
  std::optional<peer_by_hand> with;
};

TEST_F(ordered_ranges, keep_back_what_comes_later) {
  const wire::segment there = with->expose(place);
  rma_access how;
  how.target = with->address();
  how.has_data = true;
  how.completion = ordered->completion(&how);
  const ranges_of_peer two{{there.address, 8, there.key}, {there.address + 8, 8, there.key}};
  const auto memory = test::memory_of(bytes.data(), 16);
  ASSERT_EQ(ordered->ep->access_ranges(rma_ranges::direction::write, memory, how, two), 0);
  EXPECT_EQ(ordered->ep->write(memory, how), -FI_EAGAIN);
  send_params message;
  message.to = how.target;
  message.transmit = true;
  message.completion = ordered->completion(&message);
  ASSERT_EQ(ordered->ep->send(memory, message), 0);
  with->let_look();
  EXPECT_EQ(with->waiting(wire::kind::eager), 0U);
  with->settle();
  EXPECT_EQ(ordered->take().context, &how);
  EXPECT_EQ(ordered->take().context, &message);
  EXPECT_EQ(with->waiting(wire::kind::eager), 1U);
  EXPECT_EQ(ordered->ep->write(memory, how), 0);
  with->settle();  // a close would wait for it
}

}  // namespace
}  // namespace gaudi::proto
