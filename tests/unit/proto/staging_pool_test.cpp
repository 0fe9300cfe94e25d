// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/operation/staging_pool.hpp"

#include <algorithm>
#include <array>

#include "endpoint_node.hpp"

namespace gaudi::proto {
namespace {

using test::counting;
using test::live_node;
using test::memory_of;
using test::node;
using test::number;
using test::pass;
using test::post;
using test::progress_until;
using test::wait;

constexpr std::size_t max_buffers = 8;

class staging_pool_of_eight : public testing::Test {
 protected:
  std::size_t take_all(staging_share& of, std::size_t peers) {
    std::size_t taken = 0;
    while (buffer* b = pool_.acquire(of, peers)) {
      held_.push_back(b);
      ++taken;
    }
    return taken;
  }

  std::unique_ptr<core::inner_domain> core_ = test::loopback_domain();
  staging_pool pool_{*core_, 4096, 4, max_buffers};
  std::vector<buffer*> held_;
};

TEST_F(staging_pool_of_eight, is_all_for_a_peer_that_is_alone) {
  staging_share one;
  EXPECT_EQ(take_all(one, 1), max_buffers);
  pool_.release(*held_.back());
  EXPECT_TRUE(pool_.acquire(one, 1));
}

TEST_F(staging_pool_of_eight, gives_one_of_several_no_more_than_half) {
  staging_share one;
  staging_share other;
  EXPECT_EQ(take_all(one, 2), max_buffers / 2);
  EXPECT_EQ(take_all(other, 2), max_buffers / 2);
}

TEST_F(staging_pool_of_eight, has_some_for_every_peer_however_many_keep_theirs) {
  std::array<staging_share, 20> all;
  for (auto& one : all) EXPECT_GE(take_all(one, all.size()), staging_pool::floor);
}

TEST_F(staging_pool_of_eight, says_when_to_try_again) {
  staging_share one;
  EXPECT_TRUE(pool_.is_worth_another_try()) << "nothing will come back";
  take_all(one, 1);
  EXPECT_FALSE(pool_.is_worth_another_try());
  pool_.release(*held_.back());
  EXPECT_TRUE(pool_.is_worth_another_try());
  pool_.forget_returns();
  EXPECT_FALSE(pool_.is_worth_another_try());
}

endpoint::settings over_the_core() {
  auto s = test::small_settings();
  s.kernel = nullptr;
  return s;
}

/// Injects writes until no more of them are taken.
void fill(live_node& from, fi_addr_t to, const reg::region& r) {
  auto bytes = counting(max_inject);
  for (int refused = 0; refused < 2000;) {
    const int ret = from.ep->write(
        memory_of(bytes.data(), bytes.size()),
        {.target = to, .address = r.address, .key = r.key, .inject = true, .completion = {}});
    ASSERT_TRUE(ret == 0 || ret == -FI_EAGAIN) << ret;
    refused = ret == 0 ? 0 : refused + 1;
  }
}

// The first peer is stopped, with all that was injected for it on its way.
TEST(staging, of_writes_to_a_stopped_peer_leaves_some_for_others) {
  live_node a(over_the_core());
  live_node stopped(over_the_core());
  live_node well(over_the_core());
  const auto to_stopped = a.meet(stopped);
  const auto to = a.meet(well);
  pass(a, to_stopped, stopped, 10, 1);
  pass(a, to, well, 10, 1);
  std::vector<std::byte> target(max_inject);
  reg::region r;
  stopped.expose(r, target);
  fill(a, to_stopped, r);
  reg::region there;
  std::vector<std::byte> written(100);
  well.expose(there, written);
  auto bytes = counting(100);
  const rma_access at{
      .target = to, .address = there.address, .key = there.key, .inject = true, .completion = {}};
  ASSERT_EQ(post({&a, &well}, [&] { return a.ep->write(memory_of(bytes.data(), 100), at); }), 0);
  EXPECT_TRUE(progress_until({&a, &well}, [&] { return written == bytes; }));
}

// What it sends is fetched when it goes on, and what waits behind that, too: the core tells of it.
TEST(staging, of_a_stopped_peer_lets_a_thread_sleep) {
  constexpr unsigned count = 8;
  constexpr std::size_t length = 100'000;
  auto config = over_the_core();
  config.core_operations = 2;
  node a(config);
  ASSERT_TRUE(a.ep->enable({.waitable = true}));
  live_node stopped(over_the_core());
  const auto to = stopped.meet(a);
  auto bytes = counting(length);
  ASSERT_EQ(
      post({&a, &stopped}, [&] { return stopped.send(to, memory_of(bytes.data(), 1), 99, &a); }),
      0);
  ASSERT_EQ(wait(stopped, {&a, &stopped}).error, 0);
  std::vector<std::vector<std::byte>> got(count, std::vector<std::byte>(length));
  for (unsigned i = 0; i < count; ++i) {
    ASSERT_EQ(a.receive(memory_of(got[i].data(), length), i, number(i)), 0);
    ASSERT_EQ(stopped.send(to, memory_of(bytes.data(), length), i, number(i)), 0);
  }
  // Or they wait to be written.
  const unsigned read = a.core->reads_safely() ? config.core_operations : 0;
  ASSERT_TRUE(progress_until({&a}, [&] { return a.paths.direct_ops == read; }));
  EXPECT_TRUE(progress_until({&a}, [&] { return a.ep->try_wait() == 0; }));
  for (unsigned i = 0; i < count; ++i) ASSERT_EQ(wait(a, {&a, &stopped}).error, 0) << i;
  EXPECT_TRUE(std::all_of(got.begin(), got.end(), [&](const auto& g) { return g == bytes; }));
}

}  // namespace
}  // namespace gaudi::proto
