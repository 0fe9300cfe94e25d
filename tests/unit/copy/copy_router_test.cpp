// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What copies between memory of ours and the application's, by what that is.
#include "copy/copy_router.hpp"

#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <memory>
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

/// Short copies by a NIC, by times that the test gives.
class copies_by_a_timed_nic : public a_copy_router {
 protected:
  struct asked_clock final : base::clock::source {
    base::clock::time_point now() noexcept override { return ++reads, time; }
    base::clock::time_point time{std::chrono::hours(1)};
    unsigned reads = 0;
  };

  /// Each copy by the NIC takes so long.
  void take(base::clock::duration each) {
    nic_.meanwhile = [this, each] { clock_.time += each; };
  }
  bool bring(const app_place& there, std::size_t length = 64, bool is_whole = true) {
    return by_nic_.bring_short(here(), there, length, is_whole);
  }
  /// As many as the NIC is judged by.
  void bring_first(unsigned count = nic_copy_threshold::first_copies) {
    for (unsigned i = 0; i < count; ++i) ASSERT_TRUE(bring(on_device_));
  }
  /// The engine's times are real ones, but far from those that a test gives. Each copy takes some
  /// of them, as one without is not taken for a copy.
  std::shared_ptr<dma_engine> measured_engine() {
    ON_CALL(engine_.driver.library, wait_for_cs(testing::_, testing::_, testing::_, testing::_))
        .WillByDefault([](int, std::uint64_t, std::uint64_t, std::uint32_t* status) {
          const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(5);
          while (std::chrono::steady_clock::now() < end) continue;
          *status = static_cast<std::uint32_t>(hl::cs_status::completed);
          return 0;
        });
    // One that the machine had no time for is measured again with the next engine.
    for (int attempts = 0; attempts < 1000; ++attempts) {
      const auto engine = dma_engine::for_device(gaudi_);
      if (!engine) break;
      if ((*engine)->table()[direction::host_to_device].is_measured()) return *engine;
    }
    return nullptr;
  }

  gaudi::test::looping_nic nic_;
  reg::nic_loopback loop_{nic_.core()};
  asked_clock clock_;
  copy_router by_nic_{
      {.engines = {}, .loop = &loop_, .short_by_nic = true, .clock = base::clock(clock_)}, *this};
  reg::region known_;
  std::shared_ptr<device::device> gaudi_ = engine_.open();
  app_place on_device_{0x1001001800000000, gaudi_.get(), &known_, false};

  void SetUp() override {
    known_.core = *nic_.core().register_memory(ours_.data(), 64, FI_SEND | FI_RECV);
  }
};

TEST_F(copies_by_a_timed_nic, are_timed_where_they_tell_of_the_nic_and_the_engine) {
  std::array<std::byte, 64> app{};
  const app_place of_no_device{0x1000, nullptr, &known_, false};
  EXPECT_TRUE(bring(at(app)));
  EXPECT_TRUE(bring(of_no_device));
  EXPECT_TRUE(bring(of_no_device, 64, false));
  EXPECT_TRUE(bring(on_device_, 64, false)) << "a part of one";
  EXPECT_TRUE(bring(on_device_, 64 * 1024 + 1)) << "too long for the NIC";
  EXPECT_EQ(clock_.reads, 0U);
  EXPECT_TRUE(bring(on_device_));
  EXPECT_EQ(clock_.reads, 2U);
}

TEST_F(copies_by_a_timed_nic, are_timed_until_there_are_enough_of_them) {
  ASSERT_TRUE(measured_engine());
  const auto enough = nic_copy_threshold::first_copies;
  bring_first(enough - 1);
  for (unsigned i = 0; i < enough; ++i) EXPECT_TRUE(bring(on_device_, 64, false));
  EXPECT_EQ(clock_.reads, 2 * (enough - 1));
  bring_first(3);
  EXPECT_EQ(clock_.reads, 2 * enough);
}

TEST_F(copies_by_a_timed_nic, are_made_no_more_where_the_engine_is_sooner) {
  const auto engine = measured_engine();
  ASSERT_TRUE(engine);
  take(std::chrono::hours(1));
  bring_first(nic_copy_threshold::first_copies - 1);
  EXPECT_TRUE(by_nic_.brings_short(64)) << "they are not judged yet";
  bring_first(1);
  EXPECT_FALSE(by_nic_.brings_short(64));
}

TEST_F(copies_by_a_timed_nic, go_on_where_the_nic_is_sooner_whatever_passes_between_them) {
  const auto engine = measured_engine();
  ASSERT_TRUE(engine);
  take(std::chrono::nanoseconds(1));
  for (unsigned i = 0; i < nic_copy_threshold::first_copies; ++i) {
    clock_.time += std::chrono::hours(1);
    bring_first(1);
  }
  EXPECT_TRUE(by_nic_.brings_short(64));
}

TEST_F(a_copy_router, brings_nothing_by_a_nic_that_is_not_there) {
  copy_router wants({.engines = unmeasured(), .short_by_nic = true}, *this);
  EXPECT_FALSE(wants.brings_short(1));
}

}  // namespace
}  // namespace gaudi::copy
