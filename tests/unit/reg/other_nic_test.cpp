// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What a NIC that carries a share of another one's transfers knows of regions.
#include "reg/other_nic.hpp"

#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include <array>
#include <memory>

#include "../device/fake_driver.hpp"
#include "fake_nic.hpp"

namespace gaudi::reg {
namespace {

using purpose = other_nic::purpose;

class another_nic : public testing::Test {
 protected:
  static constexpr cache_limits enough{.count = 100, .bytes = 1ULL << 50};

  another_nic() {
    gaudi::test::fake_nic::knows_dmabufs = true;
    device_ = *device::device::open(driver_.thunk(), device::device_spec{});
    address_ = *device_->allocate(4096);
    own_ =
        std::make_unique<dmabuf_registrar>(own_nic_.core(), base::dmabuf_choice::automatic, enough);
    other_ = std::make_unique<other_nic>(fake_.release_core(), 1,
                                         other_nic::settings{.cache = enough, .windows = {}});
  }
  ~another_nic() override { gaudi::test::fake_nic::knows_dmabufs = false; }

  void on_device(region& r, std::uint64_t access, std::uint64_t transfer_access) {
    r.address = address_;
    r.length = 4096;
    r.owner = device_.get();
    r.access = access;
    r.transfer_access = transfer_access;
  }
  registration at_own_nic(std::uint64_t access) {
    return *own_->obtain(*device_, *device_->find(address_, 4096), 4096, access);
  }

  gaudi::test::fake_driver driver_;
  gaudi::test::fake_nic own_nic_, fake_;
  std::shared_ptr<device::device> device_;
  std::uint64_t address_ = 0;
  std::unique_ptr<dmabuf_registrar> own_;
  std::unique_ptr<other_nic> other_;
};

TEST_F(another_nic, registers_host_memory_when_it_is_first_wanted_and_keeps_that) {
  std::array<std::byte, 64> bytes{};
  region r;
  r.address = reinterpret_cast<std::uint64_t>(bytes.data());
  r.length = bytes.size();
  r.access = FI_SEND | FI_RECV;
  EXPECT_EQ(fake_.asked(), 0U);
  const core::inner_mr* const known = other_->registration_of(r, purpose::transfers);
  ASSERT_NE(known, nullptr);
  EXPECT_EQ(other_->registration_of(r, purpose::key), known);
  EXPECT_EQ(fake_.asked(), 1U);
}

TEST_F(another_nic, knows_no_way_to_a_dmabuf_of_the_applications) {
  region r;
  r.imported = true;
  r.address = address_;
  r.length = 4096;
  EXPECT_EQ(other_->registration_of(r, purpose::transfers), nullptr);
  EXPECT_EQ(fake_.asked(), 0U);
}

TEST_F(another_nic, knows_nothing_of_a_lost_device) {
  region r;
  on_device(r, FI_REMOTE_READ, FI_REMOTE_READ);
  r.transfers = at_own_nic(FI_REMOTE_READ);
  device_->lose(-FI_EIO, "of the test");
  EXPECT_EQ(other_->registration_of(r, purpose::transfers), nullptr);
  EXPECT_EQ(fake_.asked(), 0U);
}

// One registration serves both there.
TEST_F(another_nic, takes_what_the_key_names_as_transfers_have_it_where_that_is_the_same) {
  region r;
  on_device(r, FI_REMOTE_READ, FI_REMOTE_READ);
  r.transfers = at_own_nic(FI_REMOTE_READ);
  ASSERT_TRUE(r.key_names_transfers());
  const core::inner_mr* const known = other_->registration_of(r, purpose::key);
  EXPECT_NE(known, nullptr);
  EXPECT_EQ(other_->registration_of(r, purpose::transfers), known);
  EXPECT_EQ(fake_.asked(), 1U);
}

// What its own NIC could not be given for the key is staged by whoever carries it.
TEST_F(another_nic, takes_for_the_key_no_more_than_the_own_one_did) {
  region r;
  on_device(r, FI_REMOTE_READ | FI_REMOTE_WRITE, FI_REMOTE_READ);
  r.transfers = at_own_nic(FI_REMOTE_READ);
  ASSERT_FALSE(r.key_names_transfers());
  EXPECT_EQ(other_->registration_of(r, purpose::key), nullptr);
  EXPECT_NE(other_->registration_of(r, purpose::transfers), nullptr);
  r.by_key = at_own_nic(FI_REMOTE_READ | FI_REMOTE_WRITE);
  EXPECT_NE(other_->registration_of(r, purpose::key), nullptr);
  EXPECT_EQ(fake_.asked(), 2U);
}

}  // namespace
}  // namespace gaudi::reg
