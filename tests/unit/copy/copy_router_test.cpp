// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What copies between memory of ours and the application's, by what that is.
#include "copy/copy_router.hpp"

#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "../reg/looping_nic.hpp"
#include "fake_engine.hpp"

namespace gaudi::copy {
namespace {

/// An engine has its bytes at this address more than a CPU.
constexpr std::uint64_t shift = 0x10000;

class a_copy_router : public testing::Test,
                      protected engine_submissions::observer,
                      protected host_memory {
 protected:
  ~a_copy_router() override { engine_.finish_all(); }

  base::result<std::uint64_t> device_address(device::device&, const std::byte* bytes) override {
    return reinterpret_cast<std::uint64_t>(bytes) + shift;
  }
  void copied(copy_job& job) noexcept override { told_.push_back(&job); }
  base::clock::time_point copy_began() noexcept override { return {}; }
  void copy_took(base::clock::time_point) noexcept override {}

  host_place here(bool is_known_to_core = true) {
    return {ours_.data(), this, nullptr, is_known_to_core};
  }
  static app_place at(std::array<std::byte, 64>& host) {
    return {reinterpret_cast<std::uint64_t>(host.data()), nullptr, nullptr, true};
  }
  static engine_config unmeasured() {
    engine_config config;
    config.table.calibrate = false;
    return config;
  }

  gaudi::test::fake_engine engine_;
  std::array<std::byte, 64> ours_{};
  copy_router router_{{.engines = unmeasured()}, *this};
  copy_job job_;
  std::vector<copy_job*> told_;
};

TEST_F(a_copy_router, has_the_cpu_copy_host_memory_at_once) {
  std::array<std::byte, 64> app{};
  app.fill(std::byte{7});
  EXPECT_EQ(router_.submit(job_, here(), at(app), 64, direction::device_to_host), 0);
  EXPECT_EQ(ours_, app);
  ours_.fill(std::byte{8});
  EXPECT_EQ(router_.submit(job_, here(), at(app), 64, direction::host_to_device), 0);
  EXPECT_EQ(ours_, app);
  EXPECT_EQ(job_.copies, 0U);
  EXPECT_FALSE(router_.engines().any());
}

TEST_F(a_copy_router, gives_device_memory_to_the_device_s_engine_until_it_is_done) {
  const auto gaudi = engine_.open();
  const std::uint64_t address = *gaudi->allocate(4096);
  const app_place there{address, gaudi.get(), nullptr, false};
  ASSERT_EQ(router_.submit(job_, here(), there, 64, direction::host_to_device), 0);
  EXPECT_EQ(job_.copies, 1U);
  ASSERT_EQ(engine_.submitted.size(), 1U);
  ASSERT_EQ(engine_.submitted[0].packets.size(), 1U);
  const hl::lin_dma& packet = engine_.submitted[0].packets[0];
  EXPECT_EQ(packet.src, reinterpret_cast<std::uint64_t>(ours_.data()) + shift);
  EXPECT_EQ(packet.dst, address);
  router_.engines().poll();
  EXPECT_TRUE(told_.empty()) << "it is under way";
  engine_.finish_all();
  router_.engines().poll();
  EXPECT_EQ(told_, std::vector<copy_job*>{&job_});
  EXPECT_EQ(job_.copies, 0U);
  EXPECT_EQ(job_.failed, 0);
  EXPECT_TRUE(gaudi->free(address));
}

TEST_F(a_copy_router, refuses_what_only_a_nic_reaches_where_there_is_none) {
  reg::region imported;
  imported.imported = true;
  const app_place there{0x1000, nullptr, &imported, false};
  for (const auto dir : {direction::host_to_device, direction::device_to_host})
    EXPECT_EQ(router_.submit(job_, here(), there, 64, dir), -FI_EOPNOTSUPP);
  EXPECT_EQ(job_.copies, 0U);
}

TEST_F(a_copy_router, refuses_what_no_nic_can_be_let_at) {
  gaudi::test::looping_nic nic;
  reg::nic_loopback loop(nic.core());
  copy_router with_nic({.engines = unmeasured(), .loop = &loop}, *this);
  reg::region known;
  known.core = *nic.core().register_memory(ours_.data(), 64, FI_SEND | FI_RECV);
  const app_place unregistered{0x1000, nullptr, nullptr, false};
  const app_place registered{0x1000, nullptr, &known, false};
  const auto submit = [&](const app_place& there) {
    return with_nic.submit(job_, here(), there, 64, direction::host_to_device);
  };
  EXPECT_EQ(submit(unregistered), -FI_EOPNOTSUPP);
  EXPECT_EQ(nic.copies, 0U);
  EXPECT_EQ(submit(registered), 0);
  EXPECT_EQ(nic.copies, 1U);
  EXPECT_EQ(router_.submit(job_, here(), registered, 64, direction::host_to_device), -FI_EOPNOTSUPP)
      << "without a NIC";
}

TEST_F(a_copy_router, has_the_nic_read_what_only_it_reaches) {
  gaudi::test::looping_nic nic;
  reg::nic_loopback loop(nic.core());
  copy_router with_nic({.engines = unmeasured(), .loop = &loop}, *this);
  reg::region known;
  known.core = *nic.core().register_memory(ours_.data(), 64, FI_SEND | FI_RECV);
  const app_place there{0x1000, nullptr, &known, false};
  const auto read = [&] {
    return with_nic.submit(job_, here(), there, 64, direction::device_to_host);
  };
  EXPECT_EQ(read(), 0);
  EXPECT_EQ(nic.reads, 0U) << "nobody may read it";
  EXPECT_EQ(nic.copies, 1U);
  known.access = FI_REMOTE_READ;
  EXPECT_EQ(read(), 0);
  EXPECT_EQ(nic.reads, 1U);
  nic.read_error = -FI_ETIMEDOUT;
  EXPECT_EQ(read(), -FI_ETIMEDOUT);
}

// To ask the engine has it measured, which takes a while.
TEST_F(a_copy_router, compares_the_nic_with_the_engine_after_enough_short_copies) {
  ON_CALL(engine_.driver.library, wait_for_cs(testing::_, testing::_, testing::_, testing::_))
      .WillByDefault([](int, std::uint64_t, std::uint64_t, std::uint32_t* status) {
        *status = static_cast<std::uint32_t>(hl::cs_status::completed);
        return 0;
      });
  gaudi::test::looping_nic nic;
  reg::nic_loopback loop(nic.core());
  copy_router by_nic({.engines = {}, .loop = &loop, .short_by_nic = true}, *this);
  reg::region known;
  known.core = *nic.core().register_memory(ours_.data(), 64, FI_SEND | FI_RECV);
  const auto gaudi = engine_.open();
  const app_place there{0x1001001800000000, gaudi.get(), &known, false};
  for (unsigned i = 1; i < nic_copy_threshold::first_copies; ++i)
    ASSERT_TRUE(by_nic.bring_short(here(), there, 64, true));
  EXPECT_TRUE(engine_.submitted.empty());
  ASSERT_TRUE(by_nic.bring_short(here(), there, 64, true));
  EXPECT_FALSE(engine_.submitted.empty());
}

TEST_F(a_copy_router, compares_the_nic_with_no_engine_where_there_is_none) {
  engine_.driver.pci_id = 0x1060;
  gaudi::test::looping_nic nic;
  reg::nic_loopback loop(nic.core());
  copy_router by_nic({.engines = unmeasured(), .loop = &loop, .short_by_nic = true}, *this);
  reg::region known;
  known.core = *nic.core().register_memory(ours_.data(), 64, FI_SEND | FI_RECV);
  const auto gaudi = engine_.open();
  const app_place there{0x1001001800000000, gaudi.get(), &known, false};
  for (unsigned i = 0; i < nic_copy_threshold::first_copies; ++i)
    EXPECT_TRUE(by_nic.bring_short(here(), there, 64, true));
  EXPECT_TRUE(gaudi->tell_no_copies())
      << "nobody wanted an engine, and was told that there is none";
}

TEST_F(a_copy_router, brings_nothing_by_a_nic_that_is_not_there) {
  copy_router wants({.engines = unmeasured(), .short_by_nic = true}, *this);
  EXPECT_FALSE(wants.brings_short(1));
}

}  // namespace
}  // namespace gaudi::copy
