// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Copies by the NIC's connection with itself, of memory that it was told of before and of memory
// that it was not: a device without a copy engine has nothing else.
#include "copy/nic_copies.hpp"

#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include <array>

#include "../reg/looping_nic.hpp"
#include "copy/copy_router.hpp"
#include "fake_engine.hpp"

namespace gaudi::copy {
namespace {

constexpr reg::cache_limits ample{.count = 100, .bytes = 1ULL << 40};

class a_device_without_an_engine : public testing::Test,
                                   protected engine_submissions::observer,
                                   protected host_memory {
 protected:
  a_device_without_an_engine() {
    engine_.driver.pci_id = 0x1060;
    gaudi_ = engine_.open();
    address_ = *gaudi_->allocate(4096);
  }
  ~a_device_without_an_engine() override { EXPECT_TRUE(engine_.submitted.empty()); }

  base::result<std::uint64_t> device_address(device::device&, const std::byte*) override {
    return base::error{-FI_ENOMEM};
  }
  void copied(copy_job&) noexcept override { ADD_FAILURE() << "the NIC has copied at once"; }
  base::clock::time_point copy_began() noexcept override { return {}; }
  void copy_took(base::clock::time_point) noexcept override {}

  host_place here(bool is_known_to_core = true) {
    return {ours_.data(), this, &descriptor_, is_known_to_core};
  }
  app_place there() const { return {address_, gaudi_.get(), nullptr, false}; }
  void* device_bytes() const { return reinterpret_cast<void*>(address_); }
  int submit(const host_place& ours, direction dir) {
    return router_.submit(job_, ours, there(), 64, dir);
  }

  gaudi::test::fake_engine engine_;
  std::shared_ptr<device::device> gaudi_;
  std::uint64_t address_ = 0;
  std::array<std::byte, 64> ours_{};
  int descriptor_ = 0;
  gaudi::test::looping_nic nic_;
  reg::nic_loopback loop_{nic_.core()};
  reg::dmabuf_registrar dmabufs_{nic_.core(), base::dmabuf_choice::automatic, ample};
  copy_router router_{{.engines = {}, .loop = &loop_, .dmabufs = &dmabufs_}, *this};
  copy_job job_;
};

TEST_F(a_device_without_an_engine, is_copied_to_and_from_by_the_nic) {
  ASSERT_EQ(submit(here(), direction::host_to_device), 0);
  EXPECT_EQ(nic_.last_copy.from, ours_.data());
  EXPECT_EQ(nic_.last_copy.of_source, &descriptor_);
  EXPECT_EQ(nic_.last_copy.to, device_bytes());
  void* const of_device = nic_.last_copy.of_target;
  EXPECT_NE(of_device, nullptr);
  ASSERT_EQ(submit(here(), direction::device_to_host), 0);
  EXPECT_EQ(nic_.last_copy.from, device_bytes());
  EXPECT_EQ(nic_.last_copy.of_source, of_device);
  EXPECT_EQ(nic_.last_copy.to, ours_.data());
  EXPECT_EQ(nic_.last_copy.of_target, &descriptor_);
  EXPECT_EQ(job_.copies, 0U) << "both have ended";
  EXPECT_EQ(gaudi_->counted().staged_bytes.value(), 128U);
  EXPECT_TRUE(gaudi_->tell_no_copies()) << "nobody was told that it does not copy";
}

// The device's engines see what the NIC wrote only when the NIC has read behind it.
TEST_F(a_device_without_an_engine, is_flushed_behind_what_the_nic_copied_there) {
  reg::write_flush flush(loop_, base::flush_choice::read);
  copy_router with_flush({.engines = {}, .loop = &loop_, .dmabufs = &dmabufs_, .flush = &flush},
                         *this);
  ASSERT_EQ(with_flush.submit(job_, here(), there(), 64, direction::device_to_host), 0);
  EXPECT_EQ(nic_.reads, 0U);
  ASSERT_EQ(with_flush.submit(job_, here(), there(), 64, direction::host_to_device), 0);
  EXPECT_EQ(nic_.reads, 1U);
  EXPECT_EQ(flush.count(), 1U);
  nic_.read_error = -FI_ETIMEDOUT;
  EXPECT_EQ(with_flush.submit(job_, here(), there(), 64, direction::host_to_device), -FI_ETIMEDOUT)
      << "nobody knows what they see";
}

TEST_F(a_device_without_an_engine, is_registered_once_for_nobody_but_us) {
  for (int round = 0; round < 3; ++round) ASSERT_EQ(submit(here(), direction::host_to_device), 0);
  EXPECT_EQ(nic_.dmabufs, 1U);
  EXPECT_EQ(nic_.last_access & (FI_REMOTE_READ | FI_REMOTE_WRITE), 0U);
}

TEST_F(a_device_without_an_engine, can_be_freed_after_a_copy) {
  ASSERT_EQ(submit(here(), direction::device_to_host), 0);
  EXPECT_EQ(nic_.live, 1U) << "for the next one";
  EXPECT_TRUE(gaudi_->free(address_));
  EXPECT_EQ(nic_.live, 0U);
  EXPECT_EQ(submit(here(), direction::device_to_host), -FI_ENOENT);
}

TEST_F(a_device_without_an_engine, cannot_be_freed_during_a_copy) {
  bool was_freed = true;
  nic_.meanwhile = [&] { was_freed = static_cast<bool>(gaudi_->free(address_)); };
  ASSERT_EQ(submit(here(), direction::host_to_device), 0);
  EXPECT_FALSE(was_freed);
}

TEST_F(a_device_without_an_engine, is_not_registered_anew_for_a_region) {
  reg::region known;
  known.core = *nic_.core().register_memory(ours_.data(), 64, FI_SEND | FI_RECV);
  const app_place registered{address_, gaudi_.get(), &known, false};
  ASSERT_EQ(router_.submit(job_, here(), registered, 64, direction::host_to_device), 0);
  EXPECT_EQ(nic_.last_copy.of_target, known.core.descriptor());
  EXPECT_EQ(nic_.dmabufs, 0U);
}

// Slots that are shared with a peer on this host.
TEST_F(a_device_without_an_engine, has_the_nic_told_of_our_memory_for_the_copy_alone) {
  ASSERT_EQ(submit(here(false), direction::host_to_device), 0);
  EXPECT_EQ(nic_.last_copy.from, ours_.data());
  EXPECT_NE(nic_.last_copy.of_source, &descriptor_);
  EXPECT_EQ(nic_.last_access, static_cast<std::uint64_t>(FI_SEND));
  ASSERT_EQ(submit(here(false), direction::device_to_host), 0);
  EXPECT_EQ(nic_.last_access, static_cast<std::uint64_t>(FI_RECV));
  EXPECT_EQ(nic_.landings, 2U);
  EXPECT_EQ(nic_.live, 1U) << "the device's";
}

TEST_F(a_device_without_an_engine, is_said_to_be_one_where_no_nic_reaches_it) {
  nic_.dmabuf_error = -FI_EOPNOTSUPP;
  EXPECT_EQ(submit(here(), direction::host_to_device), -FI_EOPNOTSUPP);
  EXPECT_EQ(nic_.copies, 0U);
  EXPECT_FALSE(gaudi_->tell_no_copies()) << "it was told";
}

TEST_F(a_device_without_an_engine, is_said_to_be_one_where_there_is_no_nic) {
  copy_router alone({}, *this);
  EXPECT_EQ(alone.submit(job_, here(), there(), 64, direction::device_to_host), -FI_EOPNOTSUPP);
  EXPECT_FALSE(gaudi_->tell_no_copies()) << "it was told";
}

TEST_F(a_device_without_an_engine, has_its_copies_fail_as_the_nic_s_do) {
  nic_.connect_error = -FI_ENODEV;
  EXPECT_EQ(submit(here(), direction::host_to_device), -FI_ENODEV);
  EXPECT_EQ(gaudi_->counted().staged_bytes.value(), 0U);
}

TEST_F(a_device_without_an_engine, is_copied_within_by_the_nic) {
  const std::uint64_t other = *gaudi_->allocate(4096);
  const app_place to{other, gaudi_.get(), nullptr, false};
  EXPECT_EQ(nic_copies(&loop_, &dmabufs_).copy(to, there(), 64), 0);
  EXPECT_EQ(nic_.last_copy.from, device_bytes());
  EXPECT_EQ(nic_.last_copy.to, reinterpret_cast<void*>(other));
  EXPECT_EQ(nic_.dmabufs, 2U);
}

TEST_F(a_device_without_an_engine, is_copied_to_the_application_s_own_memory_by_the_nic) {
  const app_place host{reinterpret_cast<std::uint64_t>(ours_.data()), nullptr, nullptr, true};
  EXPECT_EQ(nic_copies(&loop_, &dmabufs_).copy(host, there(), 64), 0);
  EXPECT_EQ(nic_.last_copy.to, ours_.data());
  EXPECT_EQ(nic_.landings, 1U);
  EXPECT_EQ(nic_.live, 1U) << "the device's";
}

TEST(nic_copies_without_a_nic, copy_and_read_nothing) {
  std::byte to{};
  nic_copies none(nullptr);
  EXPECT_EQ(none.read(&to, nullptr, 1, 0x1000, 1), -FI_EOPNOTSUPP);
  const app_place host{reinterpret_cast<std::uint64_t>(&to), nullptr, nullptr, true};
  EXPECT_EQ(none.copy(host, host, 1), -FI_EOPNOTSUPP);
  EXPECT_EQ(none.copy(host_place{&to, nullptr, nullptr, true}, host, 1, direction::host_to_device),
            -FI_EOPNOTSUPP);
}

TEST_F(a_device_without_an_engine, is_copied_within_only_where_the_nic_reaches_both_ends) {
  nic_copies out_of_reach(&loop_);
  EXPECT_EQ(out_of_reach.copy(there(), there(), 64), -FI_EOPNOTSUPP);
  const app_place host{reinterpret_cast<std::uint64_t>(ours_.data()), nullptr, nullptr, true};
  EXPECT_EQ(out_of_reach.copy(there(), host, 64), -FI_EOPNOTSUPP) << "the target";
  EXPECT_EQ(out_of_reach.copy(host, there(), 64), -FI_EOPNOTSUPP) << "the source";
  EXPECT_EQ(nic_.copies, 0U);
}

}  // namespace
}  // namespace gaudi::copy
