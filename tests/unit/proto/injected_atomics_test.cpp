// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Atomic operations whose operands are the application's again when the call returns.
#include <algorithm>

#include "device_by_hand.hpp"
#include "peer_by_hand.hpp"

namespace gaudi::proto::test {
namespace {

class injected_atomics_of_a_device : public testing::Test {
 protected:
  ~injected_atomics_of_a_device() override {
    dev.engine.finish_all();
    p.settle();
  }
  static endpoint::settings settings() {
    auto s = small_settings();
    s.kernel = nullptr;
    return s;
  }

  device_by_hand dev;
  endpoint_by_itself v{settings()};
  peer_by_hand p{v};
};

// The device writes over them from then on.
TEST_F(injected_atomics_of_a_device, have_been_copied_when_the_call_returns) {
  ASSERT_EQ(v.ep->atomic({.target = p.address(),
                          .address = 4096,
                          .key = 5,
                          .type = FI_UINT64,
                          .op = FI_SUM,
                          .count = 1,
                          .inject = true,
                          .operands = dev.part(8),
                          .compares = {},
                          .results = {},
                          .completion = v.completion()}),
            0);
  ASSERT_FALSE(dev.engine.states.empty());
  EXPECT_TRUE(std::all_of(dev.engine.states.begin(), dev.engine.states.end(),
                          [](const auto& one) { return one.second == hl::cs_status::completed; }));
}

}  // namespace
}  // namespace gaudi::proto::test
