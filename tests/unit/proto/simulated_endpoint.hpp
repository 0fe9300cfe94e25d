// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <gtest/gtest.h>
#include <rdma/fabric.h>

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "endpoint_node.hpp"
#include "sim/core/network.hpp"

/// Endpoints of ours on the simulated core of tests/sim: no sockets of the core, no threads, and no
/// time but that which a test lets pass.
namespace gaudi::proto::test {

/// Every step of the network takes this long, so that nothing comes before the test lets it.
inline sim::conditions slow_network() {
  constexpr sim::delay step{.least = 1'000'000, .most = 1'000'000};
  return {.inject_size = 128,
          .departure = step,
          .flight = step,
          .acknowledged = step,
          .connecting = step,
          .notice = step};
}

/// Where an endpoint and its peer are: two hosts of a network.
struct simulated_hosts {
  explicit simulated_hosts(const sim::conditions& how = slow_network())
      : net(how, sim::rng(1), nullptr) {}

  sim::network net;
  sim::host& here = net.add_host(0, 5000);
  sim::host& there = net.add_host(1, 5001);
};

/// The time that a simulated_endpoint goes by.
struct own_clock {
  [[nodiscard]] endpoint::settings goes_by_it(endpoint::settings config) {
    config.clock = base::clock(clock);
    return config;
  }

  driven_clock clock;
};

/// An enabled endpoint, with what an application has beside it.
struct simulated_endpoint : own_clock, node {
  simulated_endpoint(const sim::network& net, sim::host& at, const endpoint::settings& config,
                     const std::vector<net_address>& nics_at = {}, link_listener* links = nullptr,
                     bool waitable = false)
      : node(open_over(net, at), goes_by_it(config), 256, nics_at) {
    EXPECT_TRUE(ep->enable({.waitable = waitable, .links = links}));
  }

  /// Looks at everything once, and lets no time pass in the network.
  void progress(std::chrono::milliseconds passed = no_pause_is_longer) {
    clock.at += passed;
    ep->progress();
  }
  static constexpr std::chrono::milliseconds no_pause_is_longer{1000};  // between looks
  [[nodiscard]] completion_spec completion(void* context = nullptr) {
    return node::completion(context);
  }

 private:
  static std::unique_ptr<core::inner_domain> open_over(const sim::network& net, sim::host& at) {
    return std::move(
        *core::inner_domain::open_over(net.fabric_for(at), net.info_for(at), {}, FI_VERSION(2, 1)));
  }
};

}  // namespace gaudi::proto::test
