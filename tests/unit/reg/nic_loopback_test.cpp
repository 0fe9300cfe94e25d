// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A NIC whose connection with itself fails, for a while or for good.
#include "reg/nic_loopback.hpp"

#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include <thread>

#include "../device/fake_driver.hpp"
#include "fake_nic.hpp"
#include "looping_nic.hpp"
#include "reg/write_flush.hpp"

namespace gaudi::reg {
namespace {

using namespace std::chrono_literals;
using testing::_;
using testing::Return;

struct hand_moved final : base::clock::source {
  base::clock::time_point now() noexcept override { return time; }
  base::clock::time_point time{1h};
};

class a_nic_loop : public testing::Test {
 protected:
  int read() { return loop_.read(nullptr, nullptr, 1, 0x1000, 1).code(); }

  hand_moved clock_;
  gaudi::test::looping_nic nic_;
  nic_loopback loop_{nic_.core(), base::clock(clock_)};
};

TEST_F(a_nic_loop, is_tried_again_after_a_pause_however_often_it_failed) {
  nic_.connect_error = -FI_ENETUNREACH;
  unsigned attempts = 0;
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(read(), -FI_ENETUNREACH);
    EXPECT_EQ(nic_.attempts, ++attempts);
    EXPECT_EQ(read(), -FI_ENETUNREACH);
    EXPECT_EQ(nic_.attempts, attempts) << "an attempt may take a second, under the lock";
    clock_.time += 1h;
  }
  nic_.connect_error = 0;
  EXPECT_EQ(read(), 0);
  EXPECT_EQ(nic_.reads, 1U);
}

TEST_F(a_nic_loop, copies_nothing_without_a_connection) {
  nic_.connect_error = -FI_ENETUNREACH;
  EXPECT_EQ(loop_.copy({}, {}, 1).code(), -FI_ENETUNREACH);
  EXPECT_EQ(nic_.attempts, 1U);
}

TEST_F(a_nic_loop, pauses_longer_after_each_failure_and_not_after_a_success) {
  nic_.connect_error = -FI_ETIMEDOUT;
  EXPECT_EQ(read(), -FI_ETIMEDOUT);
  clock_.time += 1s;
  EXPECT_EQ(read(), -FI_ETIMEDOUT);
  clock_.time += 1s;
  EXPECT_EQ(read(), -FI_ETIMEDOUT);
  EXPECT_EQ(nic_.attempts, 2U);
  clock_.time += 1s;
  nic_.connect_error = 0;
  EXPECT_EQ(read(), 0);
  // A read that fails ends the connection: the next one is made at once.
  nic_.read_error = -FI_EIO;
  EXPECT_EQ(read(), -FI_EIO);
  nic_.read_error = 0;
  EXPECT_EQ(read(), 0);
  EXPECT_EQ(nic_.attempts, 5U);
}

TEST_F(a_nic_loop, that_broke_since_its_last_use_is_made_again_within_the_next) {
  EXPECT_EQ(read(), 0);
  nic_.meanwhile = [this] { nic_.read_error = nic_.attempts == 1 ? -FI_ECONNRESET : 0; };
  EXPECT_EQ(read(), 0);
  EXPECT_EQ(nic_.attempts, 2U);
  EXPECT_EQ(nic_.reads, 2U);
}

TEST_F(a_nic_loop, that_says_nothing_is_asked_once) {
  EXPECT_EQ(read(), 0);
  nic_.read_error = -FI_ETIMEDOUT;
  EXPECT_EQ(read(), -FI_ETIMEDOUT);
  EXPECT_EQ(nic_.attempts, 1U);
}

TEST_F(a_nic_loop, that_fails_when_it_is_new_is_left_for_the_next_use) {
  nic_.read_error = -FI_EIO;
  EXPECT_EQ(read(), -FI_EIO);
  EXPECT_EQ(nic_.attempts, 1U);
}

TEST_F(a_nic_loop, that_cannot_be_is_asked_for_once) {
  nic_.connect_error = -FI_EOPNOTSUPP;
  EXPECT_FALSE(loop_.cannot_connect());
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(read(), -FI_EOPNOTSUPP);
    clock_.time += 24h;
  }
  EXPECT_TRUE(loop_.cannot_connect());
  EXPECT_EQ(nic_.attempts, 1U);
}

class flushing_by_a_failing_nic : public a_nic_loop {
 protected:
  flushing_by_a_failing_nic() {
    gaudi::test::fake_nic::knows_dmabufs = true;
    device_ = *device::device::open(driver_.thunk(), device::device_spec{});
  }
  ~flushing_by_a_failing_nic() override { gaudi::test::fake_nic::knows_dmabufs = false; }

  gaudi::test::fake_driver driver_;
  std::shared_ptr<device::device> device_;
  write_flush flush_{loop_, base::flush_choice::automatic, nullptr, base::clock(clock_)};
};

// The driver's way takes longer.
TEST_F(flushing_by_a_failing_nic, goes_back_to_it_when_it_reads_again) {
  nic_.read_error = -FI_EIO;
  EXPECT_CALL(driver_.library, cs_flush_pci_hbw_writes(_)).Times(5).WillRepeatedly(Return(0));
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(flush_.reads_back(*device_)) << "after " << i << " reads that failed";
    EXPECT_TRUE(flush_.flush(*device_));
  }
  EXPECT_FALSE(flush_.reads_back(*device_));
  const unsigned attempts = nic_.attempts;
  EXPECT_TRUE(flush_.flush(*device_));
  EXPECT_EQ(nic_.attempts, attempts) << "the NIC is left alone for a while";
  clock_.time += 1s;
  EXPECT_TRUE(flush_.flush(*device_));
  EXPECT_GT(nic_.attempts, attempts) << "it is asked once more";
  EXPECT_FALSE(flush_.reads_back(*device_));
  nic_.read_error = 0;
  clock_.time += 2s;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(flush_.flush(*device_));
  EXPECT_TRUE(flush_.reads_back(*device_));
  EXPECT_EQ(nic_.reads, 3U);
  EXPECT_EQ(flush_.count(), 8U);
}

TEST_F(flushing_by_a_failing_nic, of_a_device_that_is_lost_meanwhile_fails_with_the_loss) {
  write_flush by_reading{loop_, base::flush_choice::read, nullptr, base::clock(clock_)};
  std::thread losing;  // which ends nothing of the page before the read is over
  nic_.meanwhile = [&] {
    if (!losing.joinable()) losing = std::thread([&] { device_->lose(-FI_ENODEV, "of the test"); });
    while (device_->lost() == 0) std::this_thread::yield();
  };
  nic_.read_error = -FI_EIO;
  EXPECT_EQ(by_reading.flush(*device_).code(), -FI_ENODEV);
  ASSERT_TRUE(losing.joinable());
  losing.join();
}

TEST_F(flushing_by_a_failing_nic, registers_where_it_reads_to_once) {
  EXPECT_TRUE(flush_.flush(*device_));
  EXPECT_EQ(nic_.landings, 1U);
  EXPECT_NE(nic_.last_descriptor, nullptr);
  EXPECT_TRUE(flush_.flush(*device_));
  EXPECT_EQ(nic_.landings, 1U);
  EXPECT_EQ(nic_.reads, 2U);
}

TEST_F(flushing_by_a_failing_nic, forgets_lost_devices_and_no_others) {
  nic_.connect_error = -FI_ENETUNREACH;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(flush_.flush(*device_));
  EXPECT_FALSE(flush_.reads_back(*device_));
  flush_.forget_lost();
  EXPECT_FALSE(flush_.reads_back(*device_)) << "it is known still";
}

// The link is down while one device is flushed, and up when the next one is.
TEST_F(flushing_by_a_failing_nic, decides_for_each_device) {
  nic_.connect_error = -FI_ENETUNREACH;
  EXPECT_CALL(driver_.library, cs_flush_pci_hbw_writes(_)).Times(3).WillRepeatedly(Return(0));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(flush_.flush(*device_));
  EXPECT_FALSE(flush_.reads_back(*device_));
  nic_.connect_error = 0;
  clock_.time += 1h;
  device_->lose(-FI_EIO, "of the test");
  const auto anew = *device::device::open(driver_.thunk(), device::device_spec{});
  ASSERT_NE(anew, device_);
  EXPECT_TRUE(flush_.flush(*anew));
  EXPECT_TRUE(flush_.reads_back(*anew));
  EXPECT_EQ(nic_.reads, 1U);
}

}  // namespace
}  // namespace gaudi::reg
