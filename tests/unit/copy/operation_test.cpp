// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// How an operation divides its copy, and what it says when the engine fails a part.
#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include <cerrno>
#include <vector>

#include "copy/copier.hpp"
#include "fake_engine.hpp"

namespace gaudi::copy {
namespace {

constexpr std::uint64_t mebibyte = 1 << 20;

class an_operation : public testing::Test {
 protected:
  void use(const char* table) {
    used_ = *copier::for_device(fake_.open(), {.table = *base::copy_overrides::parse(table)});
    memory_ = *used_->engine()->owner()->allocate(16 * mebibyte);
  }
  ~an_operation() override {
    fake_.finish_all();
    const auto owner = used_->engine()->owner();
    used_.reset();
    EXPECT_TRUE(owner->free(memory_));
  }
  std::unique_ptr<operation> start(std::uint64_t length) {
    return *used_->start(memory_ + 8 * mebibyte, memory_, length, direction::device_to_device);
  }
  std::vector<std::uint64_t> lengths() {
    std::vector<std::uint64_t> found;
    for (const auto& each : fake_.submitted) found.push_back(each.packets.at(0).size);
    return found;
  }

  test::fake_engine fake_;
  std::shared_ptr<copier> used_;
  std::uint64_t memory_ = 0;
};

TEST_F(an_operation, within_the_device_is_one_copy) {
  use("off");
  const auto copying = start(8 * mebibyte);
  EXPECT_EQ(lengths(), std::vector<std::uint64_t>{8 * mebibyte});
  fake_.finish_all();
  EXPECT_EQ(copying->poll(), 0);
  EXPECT_EQ(lengths().size(), 1U);
}

TEST_F(an_operation, is_not_waited_for_where_there_is_no_time) {
  use("off");
  const auto copying = start(4096);
  int looks = 0;
  ON_CALL(fake_.driver.library, wait_for_cs(testing::_, testing::_, testing::_, testing::_))
      .WillByDefault([&](int, std::uint64_t, std::uint64_t, std::uint32_t* status) {
        *status = static_cast<std::uint32_t>(++looks > 50 ? hl::cs_status::completed
                                                          : hl::cs_status::busy);
        return 0;
      });
  EXPECT_EQ(copying->wait(0), -FI_ETIMEDOUT);
  EXPECT_EQ(looks, 1);
}

TEST_F(an_operation, is_divided_over_the_queues_where_that_pays) {
  use("off;d2d:split=1M");
  const auto copying = start(8 * mebibyte);
  const std::uint64_t part = 2 * mebibyte + 4096;
  EXPECT_EQ(lengths(), (std::vector<std::uint64_t>{part, part, part, 8 * mebibyte - 3 * part}));
  std::uint64_t done = 0;
  for (const auto& each : fake_.submitted) {
    EXPECT_EQ(each.packets.at(0).src, memory_ + done);
    EXPECT_EQ(each.packets.at(0).dst, memory_ + 8 * mebibyte + done);
    done += each.packets.at(0).size;
  }
  fake_.finish_all();
  EXPECT_EQ(copying->poll(), 0);
}

TEST_F(an_operation, says_that_the_engine_failed_it) {
  use("off");
  const auto copying = start(mebibyte);
  EXPECT_EQ(copying->poll(), -FI_EAGAIN);
  fake_.finish_all(hl::cs_status::aborted);
  EXPECT_EQ(copying->poll(), -FI_EIO);
  EXPECT_EQ(copying->poll(), -FI_EIO) << "for good";
}

// Whoever waits leaves the CPU to others: it is the driver that is asked to wait.
TEST_F(an_operation, is_waited_for_in_the_driver) {
  using testing::_;
  use("off");
  const auto copying = start(mebibyte);
  int waits = 0;
  ON_CALL(fake_.driver.library, wait_for_cs(_, _, _, _))
      .WillByDefault([&](int, std::uint64_t, std::uint64_t timeout_us, std::uint32_t* status) {
        waits += timeout_us != 0;
        *status =
            static_cast<std::uint32_t>(waits == 0 ? hl::cs_status::busy : hl::cs_status::completed);
        return 0;
      });
  EXPECT_EQ(copying->wait(-1), 0);
  EXPECT_EQ(waits, 1);
}

// Its caller wants no more of it: what is under way has to end, and nothing else.
TEST_F(an_operation, starts_no_other_part_once_it_is_given_up) {
  using testing::_;
  use("off");
  // More than go at once, and not enough to be pinned as a whole.
  std::vector<std::byte> host(3 * mebibyte);
  auto copying = *used_->start(memory_, reinterpret_cast<std::uint64_t>(host.data()), host.size(),
                               direction::host_to_device);
  const auto started = fake_.submitted.size();
  ASSERT_GT(started, 0U);
  ON_CALL(fake_.driver.library, wait_for_cs(_, _, _, _))
      .WillByDefault([](int, std::uint64_t, std::uint64_t, std::uint32_t* status) {
        *status = static_cast<std::uint32_t>(hl::cs_status::completed);
        return 0;
      });
  copying.reset();
  EXPECT_EQ(fake_.submitted.size(), started);
}

// A part that failed is not made up for by others, which are waited for all the same.
TEST_F(an_operation, fails_with_any_part_and_starts_no_other) {
  use("off;d2d:split=1M");
  const auto copying = start(8 * mebibyte);
  const auto started = fake_.submitted.size();
  fake_.finish_all();
  fake_.states.at(started) = hl::cs_status::aborted;
  EXPECT_EQ(copying->poll(), -FI_EIO);
  EXPECT_EQ(fake_.submitted.size(), started);
}

TEST_F(an_operation, says_what_failed_first) {
  using testing::_;
  use("off;d2d:split=1M");
  EXPECT_CALL(fake_.driver.library, command_submission(_, _, _))
      .WillOnce(testing::DoDefault())
      .WillOnce(testing::Return(-ENOMEM));
  const auto copying = start(8 * mebibyte);
  testing::Mock::VerifyAndClearExpectations(&fake_.driver.library);
  EXPECT_EQ(copying->poll(), -FI_EAGAIN) << "the other part is under way";
  fake_.finish_all(hl::cs_status::aborted);
  EXPECT_EQ(copying->poll(), -FI_ENOMEM);
}

}  // namespace
}  // namespace gaudi::copy
