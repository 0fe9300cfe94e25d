// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/channel/packet_channel.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

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

}  // namespace
}  // namespace gaudi::proto
