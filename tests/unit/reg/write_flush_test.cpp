// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Which way is taken without a NIC that reads device memory; tests/vm has one that does.
#include "reg/write_flush.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <array>
#include <memory>

#include "../device/borrowing.hpp"
#include "../device/fake_driver.hpp"
#include "core/get_info.hpp"
#include "fake_nic.hpp"

namespace gaudi::reg {
namespace {

using base::flush_choice;
using testing::_;
using testing::Return;

class flushing : public testing::Test {
 protected:
  flushing() {
    auto info = core::get_info({.core = base::core_choice::tcp});
    if (info) core_ = *core::inner_domain::open(std::move(*info));
    loop_ = std::make_unique<nic_loopback>(*core_);
    device_ = *device::device::open(driver_.thunk(), device::device_spec{});
  }

  test::fake_driver driver_;
  std::unique_ptr<core::inner_domain> core_;
  std::unique_ptr<nic_loopback> loop_;
  std::shared_ptr<device::device> device_;
};

TEST_F(flushing, takes_the_driver_where_the_nic_cannot_and_stays_with_it) {
  write_flush flush(*loop_, flush_choice::automatic);
  EXPECT_CALL(driver_.library, cs_flush_pci_hbw_writes(_)).Times(3).WillRepeatedly(Return(0));
  EXPECT_CALL(driver_.library, device_memory_alloc(_, _, _, _, _)).Times(testing::AtMost(1));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(flush.flush(*device_));
  EXPECT_EQ(flush.count(), 3U);
}

TEST_F(flushing, goes_on_without_where_nothing_works) {
  write_flush flush(*loop_, flush_choice::automatic);
  EXPECT_CALL(driver_.library, cs_flush_pci_hbw_writes(_)).WillOnce(Return(-EOPNOTSUPP));
  EXPECT_TRUE(flush.flush(*device_));
  EXPECT_TRUE(flush.flush(*device_));
  EXPECT_EQ(flush.count(), 0U);
}

TEST_F(flushing, does_not_give_up_what_fails_once) {
  write_flush flush(*loop_, flush_choice::automatic);
  EXPECT_CALL(driver_.library, cs_flush_pci_hbw_writes(_))
      .WillOnce(Return(-ENOMEM))
      .WillOnce(Return(0))
      .WillOnce(Return(-ENOMEM))
      .WillOnce(Return(0));
  EXPECT_EQ(flush.flush(*device_).code(), -FI_ENOMEM) << "nobody knows what the engines see";
  EXPECT_TRUE(flush.flush(*device_));
  EXPECT_EQ(flush.flush(*device_).code(), -FI_ENOMEM);
  EXPECT_TRUE(flush.flush(*device_));
  EXPECT_EQ(flush.count(), 2U);
}

TEST_F(flushing, goes_on_on_other_devices_when_one_is_lost) {
  write_flush flush(*loop_, flush_choice::automatic);
  EXPECT_CALL(driver_.library, cs_flush_pci_hbw_writes(_))
      .WillOnce(Return(-EBUSY))
      .WillRepeatedly(Return(0));
  EXPECT_EQ(flush.flush(*device_).code(), -FI_EIO) << "its driver resets it";
  EXPECT_NE(device_->lost(), 0);
  EXPECT_EQ(flush.flush(*device_).code(), -FI_EIO);
  const auto anew = *device::device::open(driver_.thunk(), device::device_spec{});
  ASSERT_NE(anew, device_);
  EXPECT_TRUE(flush.flush(*anew));
  EXPECT_EQ(flush.count(), 1U);
  flush.forget_lost();
  EXPECT_TRUE(device_->is_vacant());
}

// Its descriptor stands for nothing any more, and nobody knows what its engines see.
TEST_F(flushing, of_a_lost_device_asks_nobody_and_fails) {
  device_->lose(-FI_ENODEV, "of the test");
  EXPECT_CALL(driver_.library, cs_flush_pci_hbw_writes(_)).Times(0);
  EXPECT_CALL(driver_.library, device_memory_alloc(_, _, _, _, _)).Times(0);
  for (const flush_choice way :
       {flush_choice::automatic, flush_choice::driver, flush_choice::read}) {
    write_flush flush(*loop_, way);
    EXPECT_EQ(flush.flush(*device_).code(), -FI_ENODEV);
    EXPECT_EQ(flush.count(), 0U);
  }
}

TEST_F(flushing, of_a_device_that_has_none_leaves_the_others_theirs) {
  write_flush flush(*loop_, flush_choice::automatic);
  EXPECT_CALL(driver_.library, cs_flush_pci_hbw_writes(_))
      .WillOnce(Return(-EOPNOTSUPP))
      .WillOnce(Return(0));
  EXPECT_TRUE(flush.flush(*device_));
  EXPECT_EQ(flush.count(), 0U);
  device_->lose(-FI_EIO, "of the test");
  const auto anew = *device::device::open(driver_.thunk(), device::device_spec{});
  EXPECT_TRUE(flush.flush(*anew));
  EXPECT_EQ(flush.count(), 1U);
}

// What the NIC knows of it would keep the device open for the driver.
TEST(flush_page, is_known_to_the_nic_until_the_device_is_lost) {
  gaudi::test::fake_nic::knows_dmabufs = true;
  gaudi::test::fake_driver driver;
  gaudi::test::fake_nic nic;
  const auto on = *device::device::open(driver.thunk(), device::device_spec{});
  {
    nic_loopback loop(nic.core());
    flush_page page(*on);
    ASSERT_TRUE(page.prepare(nic.core()));
    ASSERT_TRUE(page.prepare(nic.core()));
    EXPECT_EQ(nic.live(), 1U);
    on->lose(-FI_EIO, "of the test");
    EXPECT_EQ(nic.live(), 0U);
    EXPECT_TRUE(on->is_vacant());
    EXPECT_EQ(page.read(loop, nullptr, nullptr).code(), -FI_EIO);
  }
  gaudi::test::fake_nic::knows_dmabufs = false;
}

class a_flush_page : public testing::Test {
 protected:
  a_flush_page() { gaudi::test::fake_nic::knows_dmabufs = true; }
  ~a_flush_page() override { gaudi::test::fake_nic::knows_dmabufs = false; }

  gaudi::test::fake_driver driver_;
  gaudi::test::fake_nic nic_;
  std::shared_ptr<device::device> on_ =
      *device::device::open(driver_.thunk(), device::device_spec{});
};

TEST_F(a_flush_page, takes_no_memory_where_the_nic_refuses_it) {
  const std::uint64_t first = *on_->allocate(4096);
  EXPECT_TRUE(on_->free(first));
  flush_page page(*on_);
  nic_.refuse = [] { return -FI_EOPNOTSUPP; };
  EXPECT_EQ(page.prepare(nic_.core()).code(), -FI_EOPNOTSUPP);
  EXPECT_EQ(*on_->allocate(4096), first);
  EXPECT_TRUE(on_->free(first));
}

TEST_F(a_flush_page, gives_its_memory_back_when_it_goes) {
  const std::uint64_t first = *on_->allocate(4096);
  EXPECT_TRUE(on_->free(first));
  {
    flush_page page(*on_);
    ASSERT_TRUE(page.prepare(nic_.core()));
  }
  EXPECT_EQ(nic_.live(), 0U);
  EXPECT_EQ(*on_->allocate(4096), first);
  EXPECT_TRUE(on_->free(first));
}

TEST_F(a_flush_page, of_a_device_that_is_lost_meanwhile_is_not_ready) {
  flush_page page(*on_);
  nic_.made = [this](auto&) { on_->lose(-FI_EIO, "of the test"); };
  EXPECT_EQ(page.prepare(nic_.core()).code(), -FI_EIO);
  EXPECT_EQ(nic_.live(), 0U);
}

// Its driver's flush would say nothing of what its engines see.
TEST_F(a_flush_page, of_a_device_that_is_lost_meanwhile_leaves_nothing_to_ask_the_driver) {
  nic_loopback loop(nic_.core());
  write_flush flush(loop, flush_choice::automatic);
  nic_.made = [this](auto&) { on_->lose(-FI_EIO, "of the test"); };
  EXPECT_CALL(driver_.library, cs_flush_pci_hbw_writes(_)).Times(0);
  EXPECT_EQ(flush.flush(*on_).code(), -FI_EIO);
  EXPECT_EQ(flush.count(), 0U);
}

// A guest of Synapse's can allocate none.
class a_guest_s_flush_page : public testing::Test {
 protected:
  a_guest_s_flush_page() { gaudi::test::fake_nic::knows_dmabufs = true; }
  ~a_guest_s_flush_page() override { gaudi::test::fake_nic::knows_dmabufs = false; }

  gaudi::test::borrowing process_;
  gaudi::test::fake_nic nic_;
  std::shared_ptr<device::device> guest_ = *process_.attach_synapse();
};

TEST_F(a_guest_s_flush_page, is_one_of_synapse_s_pool) {
  std::uint64_t known = 0;
  std::size_t length = 0;
  nic_.made = [&](auto& mr) {
    known = mr.address;
    length = mr.length;
  };
  {
    flush_page page(*guest_);
    ASSERT_TRUE(page.prepare(nic_.core()));
    EXPECT_EQ(known, process_.pool_base);
    EXPECT_EQ(length, 4096U) << "and no more of it";
  }
  EXPECT_EQ(nic_.live(), 0U);
  EXPECT_TRUE(guest_->find(process_.pool_base, 4096)) << "it is not ours to free";
}

TEST_F(a_guest_s_flush_page, is_tried_again_where_the_nic_refused_it) {
  flush_page page(*guest_);
  nic_.refuse = [] { return -FI_EOPNOTSUPP; };
  EXPECT_EQ(page.prepare(nic_.core()).code(), -FI_EOPNOTSUPP);
  nic_.refuse = [] { return 0; };
  EXPECT_TRUE(page.prepare(nic_.core()));
}

TEST_F(flushing, fails_where_the_way_that_was_demanded_is_not_there) {
  write_flush by_driver(*loop_, flush_choice::driver);
  EXPECT_CALL(driver_.library, cs_flush_pci_hbw_writes(_)).WillOnce(Return(-EOPNOTSUPP));
  EXPECT_EQ(by_driver.flush(*device_).code(), -FI_EOPNOTSUPP);
  write_flush by_reading(*loop_, flush_choice::read);
  EXPECT_EQ(by_reading.flush(*device_).code(), -FI_EOPNOTSUPP);
}

TEST_F(flushing, does_nothing_where_it_is_off) {
  write_flush flush(*loop_, flush_choice::off);
  EXPECT_CALL(driver_.library, cs_flush_pci_hbw_writes(_)).Times(0);
  EXPECT_FALSE(flush.active());
  EXPECT_TRUE(flush.flush(*device_));
  EXPECT_EQ(flush.count(), 0U);
}

// A read that somebody else has the NIC make is a flush only where the NIC's read is one.
TEST_F(flushing, counts_reads_of_others_where_the_nic_reads_back) {
  write_flush flush(*loop_, flush_choice::automatic);
  ASSERT_TRUE(flush.reads_back(*device_));
  flush.count_read();
  EXPECT_EQ(flush.count(), 1U);
  EXPECT_CALL(driver_.library, cs_flush_pci_hbw_writes(_)).WillOnce(Return(0));
  EXPECT_TRUE(flush.flush(*device_));
  EXPECT_FALSE(flush.reads_back(*device_)) << "the NIC of this test cannot";
  EXPECT_FALSE(write_flush(*loop_, flush_choice::driver).reads_back(*device_));
  EXPECT_FALSE(write_flush(*loop_, flush_choice::off).reads_back(*device_));
}

// tcp stands for the NIC here: the connection and the read are the same.
TEST_F(flushing, the_loop_copies_from_memory_to_memory) {
  std::array<char, 64> from{};
  std::array<char, 64> to{};
  from.fill('a');
  auto source = core_->register_memory(from.data(), from.size(), FI_REMOTE_READ);
  auto target = core_->register_memory(to.data(), to.size(), FI_READ);
  ASSERT_TRUE(source);
  ASSERT_TRUE(target);
  for (const std::size_t length : {1U, 7U, 64U}) {
    to.fill(0);
    ASSERT_TRUE(loop_->read(to.data(), target->descriptor(), length,
                            reinterpret_cast<std::uint64_t>(from.data()), source->key()));
    EXPECT_EQ(std::count(to.begin(), to.end(), 'a'), length);
  }
}

}  // namespace
}  // namespace gaudi::reg
