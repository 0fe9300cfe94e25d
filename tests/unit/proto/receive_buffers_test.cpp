// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/channel/receive_buffers.hpp"

#include <deque>

#include "two_nics.hpp"

namespace gaudi::proto {
namespace {

class receive_buffers_of_a_stream : public testing::Test {
 protected:
  receive_buffers_of_a_stream() {
    fi_eq_attr events{};
    events.wait_obj = FI_WAIT_NONE;
    fid_eq* eq = nullptr;
    EXPECT_EQ(fi_eq_open(core_->fabric(), &events, &eq, nullptr), 0);
    events_.reset(eq);
    fi_cq_attr completions{};
    completions.format = FI_CQ_FORMAT_MSG;
    fid_cq* cq = nullptr;
    EXPECT_EQ(fi_cq_open(core_->domain(), &completions, &cq, nullptr), 0);
    queue_.reset(cq);
  }

  /// One that is up, as far as its receives are concerned.
  connection& connect() {
    connection& c = connections_.emplace_back(peer_, connection_state::connected);
    c.id = static_cast<std::uint32_t>(connections_.size());
    const core::unique_info info(fi_dupinfo(&core_->info()));
    fid_ep* ep = nullptr;
    EXPECT_EQ(fi_endpoint(core_->domain(), info.get(), &ep, nullptr), 0);
    c.ep.reset(ep);
    EXPECT_EQ(fi_ep_bind(ep, &events_->fid, 0), 0);
    EXPECT_EQ(fi_ep_bind(ep, &queue_->fid, FI_TRANSMIT | FI_RECV), 0);
    EXPECT_EQ(fi_enable(ep), 0);
    return c;
  }

  /// One as if the core had filled it; null: none is left.
  static buffer* filled_for(receive_buffers& of, const connection& c) {
    buffer* const b = of.take_local();
    if (!b) return nullptr;
    b->local = false;
    b->connection_id = c.id;
    return b;
  }

  std::unique_ptr<core::inner_domain> core_ = test::loopback_domain();
  core::unique_fid<fid_eq> events_;
  core::unique_fid<fid_cq> queue_;
  peer peer_;
  std::deque<connection> connections_;
};

TEST_F(receive_buffers_of_a_stream, are_two_until_it_is_up_and_then_some) {
  receive_buffers buffers(*core_, 4096, 64);
  ASSERT_TRUE(buffers.open());
  connection& c = connect();
  c.state = connection_state::accepting;
  EXPECT_TRUE(buffers.post_more(c));
  EXPECT_EQ(c.receives.posted, 2U);
  c.state = connection_state::connected;
  EXPECT_TRUE(buffers.post_more(c));
  EXPECT_EQ(c.receives.posted, 16U);
  c.ep.reset();
}

TEST_F(receive_buffers_of_a_stream, are_fewer_for_each_where_there_are_many) {
  receive_buffers buffers(*core_, 4096, 64);
  ASSERT_TRUE(buffers.open());
  buffers.serve(4);
  connection& c = connect();
  EXPECT_TRUE(buffers.post_more(c));
  EXPECT_EQ(c.receives.posted, 8U) << "a quarter of half of 64";
  buffers.serve(1000);
  connection& late = connect();
  EXPECT_TRUE(buffers.post_more(late));
  EXPECT_EQ(late.receives.posted, 2U);
  for (connection& open : connections_) open.ep.reset();
}

// Half of them may be held by messages that nobody has received yet.
TEST_F(receive_buffers_of_a_stream, leave_two_for_each_peer_when_half_of_them_are_held) {
  constexpr std::size_t all = 64;
  receive_buffers buffers(*core_, 4096, all);
  ASSERT_TRUE(buffers.open());
  connection& busy = connect();
  EXPECT_TRUE(buffers.post_more(busy));
  const buffer& filled = *buffers.take_local();
  for (std::size_t held = 0; held < all / 2; ++held) {
    buffers.completed(filled, &busy);
    EXPECT_TRUE(buffers.post_more(busy)) << held;
  }
  EXPECT_GE(busy.receives.posted, 2U);
  buffers.serve(2);
  connection& other = connect();
  EXPECT_TRUE(buffers.post_more(other));
  EXPECT_EQ(other.receives.posted, 2U);
  for (connection& open : connections_) open.ep.reset();
}

// From there on each has two.
TEST_F(receive_buffers_of_a_stream, are_shared_out_up_to_half_of_them_and_two_for_each_peer) {
  constexpr std::size_t all = 64;
  receive_buffers buffers(*core_, 4096, all);
  ASSERT_TRUE(buffers.open());
  buffers.serve(1);
  connection& c = connect();
  EXPECT_TRUE(buffers.post_more(c));
  const std::size_t share = c.receives.posted;
  const buffer& filled = *buffers.take_local();
  for (std::size_t held = 0; held < all && c.receives.posted == share; ++held) {
    buffers.completed(filled, &c);
    EXPECT_TRUE(buffers.post_more(c));
  }
  EXPECT_LT(c.receives.posted, share);
  EXPECT_EQ(buffers.out(), all / 2 + 2);
  c.ep.reset();
}

TEST_F(receive_buffers_of_a_stream, are_limited_in_all) {
  receive_buffers buffers(*core_, 4096, 8);
  ASSERT_TRUE(buffers.open());
  connection& c = connect();
  std::size_t held = 0;
  const buffer& filled = *buffers.take_local();
  while (buffers.post_more(c) && held < 100) {
    buffers.completed(filled, &c);
    ++held;
  }
  EXPECT_EQ(held, 10U) << "8 for all and 2 for the peer";
  EXPECT_FALSE(buffers.has_room());
  c.ep.reset();
}

TEST_F(receive_buffers_of_a_stream, go_back_to_where_they_came_from) {
  receive_buffers buffers(*core_, 4096, 64);
  ASSERT_TRUE(buffers.open());
  connection& c = connect();
  EXPECT_TRUE(buffers.post_more(c));
  buffer* const used = filled_for(buffers, c);
  ASSERT_TRUE(used);
  buffers.completed(*used, &c);
  EXPECT_TRUE(buffers.give_back(*used, c));
  EXPECT_EQ(c.receives.posted, 16U);
  EXPECT_NE(buffers.take_local(), used) << "it is the core's";
  c.ep.reset();
}

// Its share was larger when the buffer was posted, as there were fewer peers.
TEST_F(receive_buffers_of_a_stream, do_not_go_back_where_there_are_enough) {
  receive_buffers buffers(*core_, 4096, 64);
  ASSERT_TRUE(buffers.open());
  connection& c = connect();
  EXPECT_TRUE(buffers.post_more(c));
  buffer* const used = filled_for(buffers, c);
  ASSERT_TRUE(used);
  EXPECT_TRUE(buffers.give_back(*used, c));
  EXPECT_EQ(c.receives.posted, 16U);
  EXPECT_EQ(buffers.take_local(), used);
  c.ep.reset();
}

TEST_F(receive_buffers_of_a_stream, that_has_failed_are_free) {
  receive_buffers buffers(*core_, 4096, 64);
  ASSERT_TRUE(buffers.open());
  connection& c = connect();
  c.ep.reset();
  buffer* const used = filled_for(buffers, c);
  ASSERT_TRUE(used);
  EXPECT_TRUE(buffers.give_back(*used, c));
  EXPECT_EQ(buffers.take_local(), used);
}

TEST_F(receive_buffers_of_a_stream, of_peers_on_this_host_are_not_the_cores) {
  receive_buffers buffers(*core_, 4096, 64);
  ASSERT_TRUE(buffers.open());
  connection& c = connect();
  buffer* first = buffers.take_local();
  buffer* second = buffers.take_local();
  ASSERT_TRUE(first && second);
  EXPECT_NE(first, second);
  EXPECT_TRUE(first->local && second->local);
  EXPECT_TRUE(buffers.give_back(*first, c));
  EXPECT_EQ(c.receives.posted, 0U);
  EXPECT_EQ(buffers.take_local(), first) << "a local one is not posted";
  c.ep.reset();
}

/// Over the core of a simulated host with an RDMA NIC, and another one.
class receive_buffers_of_a_nic : public testing::Test {
 protected:
  std::unique_ptr<core::inner_domain> open() {
    return *core::inner_domain::open_over(net_.fabric_for(here_), net_.info_for(here_), {},
                                          FI_VERSION(2, 1));
  }
  /// As if the core had filled one of that context's.
  static buffer& filled(receive_buffers& of, std::uint32_t context) {
    buffer& b = *of.take_local();
    b.local = false;
    b.endpoint = context;
    of.completed(b, nullptr);
    return b;
  }

  sim::network net_{test::over_rdma(), sim::rng(1), nullptr};
  sim::host& here_ = net_.add_host(0, 5000);
  std::unique_ptr<core::inner_domain> core_ = open();
};

// Each peer counts on those that it has credits for.
TEST_F(receive_buffers_of_a_nic, go_back_to_it_at_once) {
  receive_buffers buffers(*core_, 4096, 64);
  ASSERT_TRUE(buffers.open());
  ASSERT_FALSE(buffers.short_of_posted());
  const std::size_t out = buffers.out();
  buffer& used = filled(buffers, 0);
  buffers.give_back(used);
  EXPECT_EQ(buffers.out(), out);
  EXPECT_NE(buffers.take_local(), &used) << "it is the core's";
  buffers.close();
}

// Packets of all peers may come by either.
TEST_F(receive_buffers_of_a_nic, go_back_to_the_nic_that_has_one_less) {
  reg::other_nic other(open(), 1, {});
  receive_buffers buffers(*core_, 4096, 64);
  ASSERT_TRUE(buffers.open());
  ASSERT_TRUE(buffers.open_at(other));
  for (const std::uint32_t context : {0U, 1U, 0U}) {
    buffer& used = filled(buffers, context);
    used.endpoint = 7;  // it says where it is posted next
    buffers.give_back(used);
    EXPECT_EQ(used.endpoint, context);
  }
  buffers.close();
}

}  // namespace
}  // namespace gaudi::proto
