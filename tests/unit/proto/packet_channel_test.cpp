// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/channel/packet_channel.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "proto/connection/connection_manager.hpp"
#include "simulated_endpoint.hpp"

namespace gaudi::proto {
namespace {

/// A channel by itself, over the core of a simulated host with an RDMA NIC, where the buffers for
/// what peers send are shared.
class a_channel : public testing::Test,
                  protected connection_observer,
                  protected device_copies::observer,
                  protected packet_channel::observer {
 protected:
  std::uint32_t number_of(const net_address&) override { return 0; }
  void forget_number_of(const net_address&) noexcept override {}
  void connection_opened(connection&) override {}
  void connection_up(connection&) override {}
  void connections_ending() override {}
  void connection_down(connection&, int) override {}
  void copied(buffer&) noexcept override {}
  void message_failed(std::uint32_t, int) override {}

  static sim::conditions over_rdma() {
    sim::conditions how = test::slow_network();
    how.rdma = true;
    return how;
  }

  sim::network net_{over_rdma(), sim::rng(1), nullptr};
  sim::host& here_ = net_.add_host(0, 5000);
  std::unique_ptr<core::inner_domain> core_ = std::move(*core::inner_domain::open_over(
      net_.fabric_for(here_), net_.info_for(here_), {}, FI_VERSION(2, 1)));
  connection_manager connections_{
      *core_,
      connection_config{
          .eager_limit = 4096, .rx_buffers = 64, .kernel = nullptr, .takes_dmabufs = false},
      *this};
  core_transport transport_{*core_, 4096, 64};
  shm_transport shm_{connections_, transport_, 4096, {}};
  latency_sampler latencies_{{}, nullptr};
  device_copies copies_{{}, latencies_, *this};
  path_counters paths_;
  packet_channel channel_{connections_, transport_, shm_, copies_, paths_, *this};
};

// A message may end its own connection, whose credits are the others' from then on.
TEST_F(a_channel, gives_no_more_credits_to_a_connection_that_has_failed) {
  credit_pool& all = connections_.credits();
  ASSERT_TRUE(all.is_limited());
  const std::size_t before = all.others();
  peer remote{};
  connection c(remote, connection_state::connected);
  c.data.start(0, all.open(c));
  c.share.used = c.share.target - 1;  // the next one that is consumed doubles its window
  ASSERT_TRUE(c.data.arrived());
  all.close(c);
  c.state = connection_state::failed;
  channel_.consume(c);
  EXPECT_EQ(all.others(), before);
}

TEST_F(a_channel, gives_more_credits_to_a_connection_that_uses_its_own_up) {
  credit_pool& all = connections_.credits();
  peer remote{};
  connection c(remote, connection_state::connected);
  c.data.start(0, all.open(c));
  const std::size_t left = all.others();
  c.share.used = c.share.target - 1;
  ASSERT_TRUE(c.data.arrived());
  channel_.consume(c);
  EXPECT_LT(all.others(), left);
  all.close(c);
}

class a_channel_without_room : public a_channel {
 protected:
  void SetUp() override { c.control.start(1, 1); }

  peer remote{};
  connection c{remote, connection_state::connected};
};

TEST_F(a_channel_without_room, keeps_a_control_message_until_there_is_a_buffer_for_it) {
  std::vector<buffer*> all;
  while (buffer* const b = channel_.acquire()) all.push_back(b);
  ASSERT_LT(transport_.limits().max_inject, sizeof(wire::fin_fields)) << "which need a buffer";
  channel_.send_fin(c, 1, 0);
  EXPECT_EQ(c.outbox.control.size(), 1U);
  EXPECT_TRUE(c.control.can_send()) << "its credit, too";
  for (buffer* const b : all) transport_.messages().release(*b);
}

// Else the peer never has the credit of its request back.
TEST_F(a_channel_without_room, knows_of_a_message_that_it_keeps_that_it_answers_a_request) {
  buffer* const b = channel_.acquire();
  ASSERT_TRUE(b);
  b->begin_message(sizeof(wire::fin_fields));
  channel_.queue_answer(c, *b);
  EXPECT_EQ(c.outbox.control_buffers.size(), 1U);
  EXPECT_TRUE(b->answers);
  c.outbox.control_buffers.clear();
  transport_.messages().release(*b);
}

}  // namespace
}  // namespace gaudi::proto
