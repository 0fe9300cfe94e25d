// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// One-sided operations between endpoints in one process.
#include <algorithm>
#include <array>

#include "endpoint_node.hpp"

namespace gaudi::proto {
namespace {

using test::counting;
using test::live_node;
using test::memory_of;
using test::number;
using test::post;
using test::progress_until;
using test::wait;

TEST(endpoint_rma, rma_reaches_regions_of_both_kinds_of_key) {
  live_node a;
  live_node b;
  const auto to = a.meet(b);
  std::vector<std::byte> target(50'000);
  reg::region direct;
  reg::region software;
  b.expose(direct, target);
  b.expose(software, target, reg::key_table::software_bit | 5);
  ASSERT_FALSE(direct.key & reg::key_table::software_bit);
  for (const auto* r : {&direct, &software}) {
    for (const std::size_t length : {0U, 1U, 1000U, 50'000U}) {
      auto sent = counting(length, static_cast<unsigned>(length) + 3);
      std::fill(target.begin(), target.end(), std::byte{0});
      const rma_access at{.target = to,
                          .address = r->address,
                          .key = r->key,
                          .completion = a.completion(number(1), FI_RMA)};
      ASSERT_EQ(post({&a, &b}, [&] { return a.ep->write(memory_of(sent.data(), length), at); }), 0);
      EXPECT_EQ(wait(a, {&a, &b}).error, 0);
      std::vector<std::byte> back(length);
      ASSERT_EQ(post({&a, &b}, [&] { return a.ep->read(memory_of(back.data(), length), at); }), 0);
      EXPECT_EQ(wait(a, {&a, &b}).error, 0);
      EXPECT_EQ(back, sent) << length << " bytes, key " << std::hex << r->key;
      EXPECT_TRUE(std::equal(sent.begin(), sent.end(), target.begin()));
    }
  }
  EXPECT_TRUE(b.queue.empty()) << "the target hears of data only";
}

// Its application posted nothing that could fail.
TEST(endpoint_rma, a_write_whose_initiator_vanishes_is_not_reported_at_the_target) {
  auto config = test::small_settings();
  config.kernel = nullptr;
  auto a = std::make_unique<live_node>(config);
  live_node b(config);
  const auto to = a->meet(b);
  const auto back = b.meet(*a);
  std::vector<std::byte> target(3'000'000);
  reg::region r;
  b.expose(r, target, reg::key_table::software_bit | 5);
  auto sent = counting(target.size());
  const rma_access at{.target = to,
                      .address = r.address,
                      .key = r.key,
                      .data = 7,
                      .has_data = true,
                      .completion = a->completion(number(1), FI_RMA)};
  test::pass(*a, to, b, 10, 1);
  ASSERT_EQ(a->ep->write(memory_of(sent.data(), sent.size()), at), 0);
  for (int i = 0; i < 20; ++i) a->ep->progress();  // its offer has left
  if (b.core->reads_safely()) {
    ASSERT_TRUE(progress_until({&b}, [&] { return b.paths.direct_ops != 0; }));
  } else {
    // Nothing is seen of it that b has asked for the data to be written.
    for (int i = 0; i < 1000; ++i) b.ep->progress();
  }
  a.reset();
  ASSERT_TRUE(progress_until({&b}, [&] { return b.ep->is_quiet(back); }));
  EXPECT_TRUE(b.queue.empty()) << fi_strerror(b.take().error);
}

TEST(endpoint_rma, software_keys_refuse_what_was_not_granted) {
  live_node a;
  live_node b;
  const auto to = a.meet(b);
  std::vector<std::byte> target(1000);
  reg::region r;
  b.expose(r, target, reg::key_table::software_bit | 5);
  std::vector<std::byte> bytes = counting(20'000);
  const auto write = [&](std::uint64_t address, std::uint64_t key, std::size_t length) {
    EXPECT_EQ(post({&a, &b},
                   [&] {
                     return a.ep->write(memory_of(bytes.data(), length),
                                        {.target = to,
                                         .address = address,
                                         .key = key,
                                         .completion = a.completion(nullptr, FI_RMA)});
                   }),
              0);
    return wait(a, {&a, &b}).error;
  };
  EXPECT_EQ(write(r.address, r.key, 1000), 0);
  EXPECT_EQ(write(r.address, r.key + 1, 10), FI_EACCES);
  EXPECT_EQ(write(r.address + 1, r.key, 1000), FI_EACCES);
  EXPECT_EQ(write(r.address - 1, r.key, 1), FI_EACCES);
  EXPECT_EQ(write(r.address, r.key, 20'000), FI_EACCES) << "a rendezvous is checked as well";
  EXPECT_EQ(write(UINT64_MAX, r.key, 2), FI_EACCES);
  r.access = FI_REMOTE_READ;
  EXPECT_EQ(write(r.address, r.key, 10), FI_EACCES);
}

// The application may do nothing but repeat the call (fi_rma(3): -FI_EAGAIN).
TEST(endpoint_rma, injected_writes_need_no_other_call_to_go_on) {
  live_node a;
  live_node b;
  const auto to = a.meet(b);
  std::vector<std::byte> target(1000);
  reg::region r;
  b.expose(r, target);
  auto bytes = counting(1000);
  const auto inject = [&](std::size_t at) {
    return a.ep->write(memory_of(bytes.data() + at, 1),
                       {.target = to,
                        .address = r.address + at,
                        .key = r.key,
                        .inject = true,
                        .completion = {.queue = &a.queue, .flags = FI_RMA | FI_WRITE}});
  };
  ASSERT_EQ(post({&a, &b}, [&] { return inject(0); }), 0);
  for (std::size_t i = 1; i < bytes.size(); ++i)
    ASSERT_EQ(post({&b}, [&] { return inject(i); }), 0) << "byte " << i;
  EXPECT_TRUE(progress_until({&a, &b}, [&] { return target == bytes; }));
  EXPECT_TRUE(a.queue.empty());
}

/// The bytes as four pieces, which the core takes one by one.
local_memory in_pieces(std::vector<std::byte>& bytes) {
  std::array<iovec, 4> pieces{};
  const std::size_t each = bytes.size() / pieces.size();
  for (std::size_t i = 0; i < pieces.size(); ++i) pieces[i] = {bytes.data() + i * each, each};
  return test::memory_of(pieces);
}

// More and longer writes than the core takes at once, all to one place, with reads of it in between
// and a message at the end.
TEST(endpoint_rma, keeps_its_order_where_that_is_promised) {
  auto config = test::small_settings();
  config.rma_order = true;
  live_node a(config);
  live_node b(config);
  const auto to = a.meet(b);
  constexpr std::size_t length = 20'000;
  constexpr unsigned writes = 1000;
  std::vector<std::byte> target(length);
  reg::region region;
  b.expose(region, target);
  std::vector<std::vector<std::byte>> sent;
  std::vector<std::vector<std::byte>> seen(writes, std::vector<std::byte>(length));
  const rma_access at{.target = to, .address = region.address, .key = region.key, .completion = {}};
  for (unsigned i = 0; i < writes; ++i) {
    sent.push_back(counting(length, i));
    ASSERT_EQ(post({&a, &b}, [&] { return a.ep->write(in_pieces(sent[i]), at); }), 0);
    // The core runs full, and has room again now and then.
    if (i % 3 == 0) b.ep->progress();
    if (i % 2 == 0) a.ep->progress();
    if (i % 5) continue;
    ASSERT_EQ(post({&a, &b}, [&] { return a.ep->read(memory_of(seen[i].data(), length), at); }), 0);
  }
  std::byte place{};
  ASSERT_EQ(b.receive(memory_of(&place, 1), 9, number(2)), 0);
  rma_access last = at;
  last.completion = a.completion(number(1));
  std::vector<std::byte> back(length);
  ASSERT_EQ(post({&a, &b}, [&] { return a.ep->read(memory_of(back.data(), length), last); }), 0);
  ASSERT_EQ(post({&a, &b}, [&] { return a.send(to, memory_of(&place, 1), 9, number(3)); }), 0);
  EXPECT_EQ(wait(b, {&a, &b}).context, number(2));
  EXPECT_TRUE(target == sent.back()) << "the message came before the last write";
  for (int ended = 0; ended < 2; ++ended) EXPECT_EQ(wait(a, {&a, &b}).error, 0);
  for (unsigned i = 0; i < writes; i += 5)
    ASSERT_TRUE(seen[i] == sent[i]) << "a read behind write " << i << " shows another";
}

}  // namespace
}  // namespace gaudi::proto
