// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A device that is lost under a message: the other side's operation ends as soon as the word of it
// has come, and waits for no timer. Counted in rounds of progress, as time is the machine's.
#include "device_under_load.hpp"

namespace gaudi::proto {
namespace {

using test::memory_of;
using test::number;

class lost_device : public test::device_under_load {
 protected:
  // What a timer of a millisecond or more would take is thousands.
  static constexpr int max_rounds = 20;

  void connect() {
    to_ = a_.meet(b_);
    test::pass(a_, to_, b_, 10, 1);
    fill();
  }

  /// The error with which each side's operation ends, after the loss.
  void expect_end_after_loss(int at_sender, int at_receiver) {
    gaudi_->lose(-FI_EIO, "of the test");
    taken_.clear();
    int rounds = 0;
    for (; rounds < max_rounds && (a_.queue.empty() || b_.queue.empty()); ++rounds) {
      a_.ep->progress();
      b_.ep->progress();
    }
    EXPECT_EQ(a_.take().error, at_sender) << "after " << rounds << " rounds";
    EXPECT_EQ(b_.take().error, at_receiver) << "after " << rounds << " rounds";
  }

  fi_addr_t to_ = FI_ADDR_NOTAVAIL;
};

TEST_F(lost_device, of_the_sender_ends_the_receive) {
  connect();
  std::vector<std::byte> got(long_message);
  ASSERT_EQ(b_.receive(memory_of(got.data(), got.size()), 2, number(2)), 0);
  ASSERT_EQ(a_.send(to_, on_device(long_message), 2, number(3)), 0);
  nothing_ends();
  expect_end_after_loss(FI_EIO, FI_EIO);
}

TEST_F(lost_device, of_the_receiver_ends_the_send) {
  connect();
  std::vector<std::byte> bytes(long_message);
  ASSERT_EQ(b_.receive(on_device(long_message), 2, number(2)), 0);
  ASSERT_EQ(a_.send(to_, memory_of(bytes.data(), bytes.size()), 2, number(3)), 0);
  nothing_ends();
  expect_end_after_loss(FI_EIO, FI_EIO);
}

}  // namespace
}  // namespace gaudi::proto
