// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Device memory without a descriptor, as the NIC comes to know it for one operation.
#include "proto/transfer/implicit_registration.hpp"

#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include <optional>

#include "../base/scarce_memory.hpp"
#include "../device/fake_driver.hpp"
#include "../reg/looping_nic.hpp"

namespace gaudi::proto {
namespace {

constexpr reg::cache_limits ample{.count = 100, .bytes = 1ULL << 40};
constexpr std::uint64_t size = 8192;

class implicit_registration : public testing::Test {
 protected:
  implicit_registration() { with_.dmabufs.registrar = &dmabufs_; }

  local_segment piece(std::uint64_t offset, std::size_t length) const {
    return {address_ + offset, length, nullptr, device_.get()};
  }
  transfer& begin(const local_segment& s) {
    transfer& t = operation_.emplace();
    t.memory = local_memory::of(s);
    return t;
  }

  gaudi::test::fake_driver driver_;
  gaudi::test::looping_nic nic_;
  std::shared_ptr<device::device> device_ =
      *device::device::open(driver_.thunk(), device::device_spec{});
  std::uint64_t address_ = *device_->allocate(size);
  reg::dmabuf_registrar dmabufs_{nic_.core(), base::dmabuf_choice::automatic, ample};
  endpoint_settings with_;
  std::optional<transfer> operation_;
};

TEST_F(implicit_registration, lets_the_nic_at_device_memory_for_what_the_peer_may) {
  transfer& t = begin(piece(100, 4000));
  ASSERT_FALSE(t.memory.core_reaches(0));
  register_implicitly(t, with_, FI_REMOTE_READ);
  EXPECT_TRUE(t.memory.core_reaches(FI_REMOTE_READ));
  EXPECT_FALSE(t.memory.core_reaches(FI_REMOTE_WRITE));
  EXPECT_EQ(nic_.last_access & (FI_REMOTE_READ | FI_REMOTE_WRITE), FI_REMOTE_READ);
  ASSERT_NE(t.memory[0].registered, nullptr);
  EXPECT_TRUE(t.memory[0].registered->holds(address_ + 100, 4000));
  EXPECT_FALSE(t.memory[0].registered->holds(address_, 1));
}

TEST_F(implicit_registration, keeps_the_memory_until_the_operation_ends) {
  register_implicitly(begin(piece(0, size)), with_, 0);
  EXPECT_EQ(device_->free(address_).code(), -FI_EBUSY);
  operation_.reset();
  EXPECT_TRUE(device_->free(address_));
  EXPECT_EQ(nic_.live, 0U);
}

TEST_F(implicit_registration, is_made_once_for_many_operations) {
  for (int round = 0; round < 3; ++round)
    register_implicitly(begin(piece(0, size)), with_, FI_REMOTE_WRITE);
  EXPECT_EQ(nic_.dmabufs, 1U);
}

TEST_F(implicit_registration, leaves_alone_what_needs_none) {
  std::byte host{};
  transfer& of_host = begin({reinterpret_cast<std::uint64_t>(&host), 1, nullptr, nullptr});
  register_implicitly(of_host, with_, 0);
  EXPECT_EQ(of_host.memory[0].registered, nullptr);
  const reg::region own;
  local_segment registered = piece(0, size);
  registered.registered = &own;
  transfer& described = begin(registered);
  register_implicitly(described, with_, 0);
  EXPECT_EQ(described.memory[0].registered, &own);
  register_implicitly(begin(piece(0, 0)), with_, 0);
  EXPECT_EQ(nic_.dmabufs, 0U);
}

TEST_F(implicit_registration, is_not_made_for_what_is_to_be_staged) {
  with_.rendezvous = base::rendezvous_choice::staged;
  register_implicitly(begin(piece(0, size)), with_, 0);
  with_ = {};
  register_implicitly(begin(piece(0, size)), with_, 0);
  EXPECT_EQ(operation_->memory[0].registered, nullptr) << "without a registrar";
  EXPECT_EQ(nic_.dmabufs, 0U);
}

TEST_F(implicit_registration, leaves_to_be_staged_what_the_nic_refuses) {
  nic_.dmabuf_error = -FI_EOPNOTSUPP;
  transfer& t = begin(piece(0, size));
  register_implicitly(t, with_, 0);
  EXPECT_EQ(t.memory[0].registered, nullptr);
  EXPECT_TRUE(t.reach.implicit.empty());
  EXPECT_TRUE(device_->free(address_)) << "nothing keeps it";
}

TEST_F(implicit_registration, leaves_to_be_staged_what_there_is_no_memory_for) {
  transfer& t = begin(piece(0, size));
  {
    const gaudi::test::scarce_memory none(0);
    register_implicitly(t, with_, 0);
  }
  EXPECT_EQ(t.memory[0].registered, nullptr);
  register_implicitly(t, with_, 0);
  EXPECT_NE(t.memory[0].registered, nullptr);
}

TEST_F(implicit_registration, is_not_made_of_memory_that_is_gone) {
  EXPECT_TRUE(device_->free(address_));
  transfer& t = begin(piece(0, size));
  register_implicitly(t, with_, 0);
  EXPECT_EQ(t.memory[0].registered, nullptr);
}

}  // namespace
}  // namespace gaudi::proto
