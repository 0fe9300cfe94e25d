// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What an engine asks of its device's own queues, and what it says of their failures.
#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include <cerrno>
#include <string>

#include "../mappings.hpp"
#include "../proto/logged_warnings.hpp"
#include "base/params.hpp"
#include "copy/dma_engine.hpp"
#include "copy/engine_probe.hpp"
#include "copy/kernel_commands.hpp"
#include "fake_engine.hpp"

namespace gaudi::copy {
namespace {

using testing::_;

constexpr std::uint64_t of_device = 0x1001001800000000, elsewhere_there = 0x1001009000000000;

TEST(an_engine_of_queues, is_none_where_the_driver_gives_no_command_buffers) {
  test::fake_engine fake;
  fake.driver.pci_id = 0x1000;
  fake.driver.dram_base = 0x20000000;
  EXPECT_CALL(fake.driver.library, request_command_buffer(_, _, _))
      .WillOnce(testing::SetErrnoAndReturn(ENOMEM, -ENOMEM));
  EXPECT_EQ(dma_engine::for_device(fake.open()).code(), -FI_ENOMEM);
}

// Once it is lost the number may be one of its successor's.
TEST(a_command_buffer_of_the_driver, is_given_back_to_the_device_that_it_is_of) {
  for (const bool is_lost : {false, true}) {
    test::fake_engine fake;
    fake.driver.pci_id = 0x1000;
    fake.driver.dram_base = 0x20000000;
    const auto gaudi = fake.open();
    EXPECT_CALL(fake.driver.library, request_command_buffer(_, _, _))
        .WillOnce([&](int, std::uint32_t, std::uint64_t* number) {
          *number = 0x7000;
          return 0;
        });
    EXPECT_CALL(fake.driver.library, destroy_command_buffer(_, 0x7000)).Times(is_lost ? 0 : 1);
    const test::mapped_file file(gaudi->fd());
    {
      const auto made = kernel_commands::request(gaudi, 4096);
      ASSERT_TRUE(made);
      ASSERT_EQ(file.mappings(), 1U);
      if (is_lost) gaudi->lose(-FI_EIO, "of the test");
    }
    EXPECT_EQ(file.mappings(), 0U);
  }
}

TEST(an_engine_of_queues, takes_as_much_as_a_command_buffer_describes) {
  test::fake_engine fake;
  const auto engine = *dma_engine::for_device(fake.open());
  const std::uint64_t most = engine->max_parts() << 31;
  const auto submit = [&](std::uint64_t length) {
    return engine->submit(elsewhere_there, of_device, length, direction::device_to_device).code();
  };
  EXPECT_EQ(submit(most), 0);
  ASSERT_EQ(fake.submitted.size(), 1U);
  EXPECT_EQ(fake.submitted[0].packets.size(), engine->max_parts());
  EXPECT_EQ(submit(most + 1), -FI_EINVAL);
  EXPECT_EQ(fake.submitted.size(), 1U);
  fake.finish_all();
}

struct told_failure {
  hl::cs_status status;
  int rc;
  const char* cause;
};

class a_warning_of_a_loss : public testing::TestWithParam<told_failure> {};

TEST_P(a_warning_of_a_loss, says_what_the_driver_made_of_the_copy) {
  test::fake_engine fake;
  const auto engine = *dma_engine::for_device(fake.open());
  const auto copy = *engine->submit(elsewhere_there, of_device, 64, direction::device_to_device);
  ON_CALL(fake.driver.library, wait_for_cs(_, _, _, _))
      .WillByDefault([](int, std::uint64_t, std::uint64_t, std::uint32_t* status) {
        *status = static_cast<std::uint32_t>(GetParam().status);
        return GetParam().rc;
      });
  const proto::test::logged_warnings logged;
  EXPECT_EQ(engine->poll(copy), -FI_EIO);
  EXPECT_THAT(logged.text(), testing::HasSubstr(GetParam().cause));
}

INSTANTIATE_TEST_SUITE_P(
    by, a_warning_of_a_loss,
    testing::Values(told_failure{hl::cs_status::aborted, -EIO, "aborted a copy"},
                    told_failure{hl::cs_status::timed_out, -ETIMEDOUT, "gave up a copy"},
                    told_failure{hl::cs_status::completed, -EBUSY, "its driver resets it"}));

TEST(a_probe_of_an_engine, has_no_time_of_copies_one_of_which_failed) {
  test::fake_engine fake;
  const auto engine = *dma_engine::for_device(fake.open());
  const auto probe = engine_probe::make(*engine);
  ASSERT_TRUE(probe);
  int looks = 0;
  ON_CALL(fake.driver.library, wait_for_cs(_, _, _, _))
      .WillByDefault([&](int, std::uint64_t, std::uint64_t, std::uint32_t* status) {
        *status = static_cast<std::uint32_t>(hl::cs_status::completed);
        return ++looks == 5 ? -EIO : 0;
      });
  EXPECT_TRUE((*probe)->copies(direction::device_to_host, 4096, 4));
  EXPECT_FALSE((*probe)->copies(direction::device_to_host, 4096, 1));
}

TEST(an_engine_s_settings, are_the_parameters) {
  base::params wanted;
  wanted.copy_timeout = std::chrono::seconds(7);
  wanted.copy_table = *base::copy_overrides::parse("off;h2d:pin=64K");
  const engine_config config = engine_config::of(wanted);
  EXPECT_EQ(config.timeout, std::chrono::seconds(7));
  EXPECT_FALSE(config.table.calibrate);
  EXPECT_EQ(config.table.to_device().pin, 64U << 10);
}

// A mapping of the driver's would keep the device open, which cannot be opened anew then.
TEST(an_engine_of_queues, has_no_command_buffer_of_the_driver_s_once_the_device_is_lost) {
  test::fake_engine fake;
  fake.driver.pci_id = 0x1000;
  fake.driver.dram_base = 0x20000000;
  const auto gaudi = fake.open();
  const test::mapped_file file(gaudi->fd());
  EXPECT_CALL(fake.driver.library, request_command_buffer(_, _, _))
      .WillRepeatedly([](int, std::uint32_t, std::uint64_t* number) {
        *number = 0x7000;
        return 0;
      });
  const auto engine = dma_engine::for_device(gaudi);
  ASSERT_TRUE(engine);
  EXPECT_GT(file.mappings(), 0U);
  gaudi->lose(-FI_EIO, "of the test");
  EXPECT_EQ(file.mappings(), 0U);
}

}  // namespace
}  // namespace gaudi::copy
