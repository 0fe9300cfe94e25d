// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Copies of one endpoint that engines make: which ones begin, which wait, and whose ends are told.
#include "copy/engine_submissions.hpp"

#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include <array>
#include <cerrno>
#include <functional>
#include <utility>
#include <vector>

#include "fake_engine.hpp"

namespace gaudi::copy {
namespace {

using testing::_;

class copies_of_an_endpoint : public testing::Test, protected engine_submissions::observer {
 protected:
  static constexpr std::uint64_t there = 0x1001001800000000, host = 0x7f0000001000;
  // What is longer than this goes to the engine alone, what is not may go with others.
  static constexpr std::uint64_t most_together = std::uint64_t{64} << 10;

  ~copies_of_an_endpoint() override {
    fake_.finish_all();
    all_.end_all();
  }
  void copied(copy_job& job) noexcept override {
    told_.push_back(&job);
    if (when_told_) std::exchange(when_told_, nullptr)();
  }
  base::clock::time_point copy_began() noexcept override { return began_; }
  void copy_took(base::clock::time_point) noexcept override { ++timed_; }

  std::shared_ptr<device::device> open(const char* bus_id) {
    fake_.driver.bus_id = bus_id;
    return *device::device::open(fake_.driver.thunk(), *device::device_spec::parse(bus_id));
  }
  int submit(device::device& on, copy_job& job, std::uint64_t offset, std::uint64_t length) {
    return all_.submit(**all_.engine_for(on), job, {there + offset, host, length},
                       direction::host_to_device);
  }
  /// Other endpoints take what is left of the engine.
  void fill(device::device& on) {
    const copy_part part{there, host, 4096};
    dma_engine& engine = **all_.engine_for(on);
    while (engine.submit_urgently({&part, 1}, direction::host_to_device)) continue;
  }
  void finish_what_is_waited_for() {
    ON_CALL(fake_.driver.library, wait_for_cs(_, _, _, _))
        .WillByDefault(
            [this](int, std::uint64_t number, std::uint64_t timeout_us, std::uint32_t* status) {
              if (timeout_us != 0) awaited_.push_back(number);
              *status = static_cast<std::uint32_t>(hl::cs_status::completed);
              return 0;
            });
  }
  static reg::region region_at(const device::device& on, std::uint64_t offset) {
    reg::region r;
    r.address = there + offset;
    r.length = 4096;
    r.owner = const_cast<device::device*>(&on);
    return r;
  }

  std::vector<std::uint64_t> awaited_;  // submissions, by their numbers; the engine's end adds some
  gaudi::test::fake_engine fake_;
  engine_submissions all_{{}, *this};
  std::vector<copy_job*> told_;
  std::function<void()> when_told_;
  // What is left is waited for at the end.
  std::array<copy_job, 41> jobs_;
  int looks_ = 0;
  base::clock::time_point began_{};  // what copies are timed from; of itself they are not
  int timed_ = 0;
};

TEST_F(copies_of_an_endpoint, of_another_region_are_not_begun_for_one_that_goes) {
  const auto gaudi = fake_.open();
  ASSERT_EQ(submit(*gaudi, jobs_[0], 0, 4096), 0);
  ASSERT_EQ(submit(*gaudi, jobs_[1], 4096, 4096), 0);
  ASSERT_EQ(submit(*gaudi, jobs_[2], 8192, 4096), 0);
  ASSERT_EQ(fake_.submitted.size(), 1U) << "short ones wait to go together";
  fake_.finish_all();
  ON_CALL(fake_.driver.library, wait_for_cs(_, _, _, _))
      .WillByDefault([](int, std::uint64_t, std::uint64_t, std::uint32_t* status) {
        *status = static_cast<std::uint32_t>(hl::cs_status::completed);
        return 0;
      });
  all_.finish_those_of(region_at(*gaudi, 8192));
  ASSERT_EQ(fake_.submitted.size(), 2U);
  EXPECT_EQ(fake_.submitted[1].packets.at(0).dst, there + 8192);
}

// The engine's copies end without anybody's help, so a full one has room again soon.
TEST_F(copies_of_an_endpoint, wait_for_one_of_theirs_where_the_engine_is_full) {
  const auto gaudi = fake_.open();
  const std::size_t room = jobs_.size() - 1;
  for (std::size_t i = 0; i < room; ++i)
    ASSERT_EQ(submit(*gaudi, jobs_[i], 0, most_together + 1), 0);
  ASSERT_EQ(fake_.submitted.size(), room);
  finish_what_is_waited_for();
  ASSERT_EQ(submit(*gaudi, jobs_[room], 0, most_together + 1), 0);
  EXPECT_EQ(awaited_, std::vector<std::uint64_t>{1}) << "the oldest";
  EXPECT_EQ(fake_.submitted.size(), room + 1);
}

// One that has ended is still to be told of, which nobody need wait for.
TEST_F(copies_of_an_endpoint, go_to_the_engine_at_once_while_none_of_theirs_is_under_way) {
  const auto gaudi = fake_.open();
  ASSERT_EQ(submit(*gaudi, jobs_[0], 0, 4096), 0);
  fake_.finish_all();
  all_.finish_those_of(region_at(*gaudi, 0));
  ASSERT_TRUE(all_.any() && told_.empty());
  ASSERT_EQ(submit(*gaudi, jobs_[1], 0, 4096), 0);
  EXPECT_EQ(fake_.submitted.size(), 2U);
}

TEST_F(copies_of_an_endpoint, are_timed_where_that_is_wanted_and_they_end_well) {
  const auto gaudi = fake_.open();
  const auto end_one = [&](hl::cs_status how) {
    ASSERT_EQ(submit(*gaudi, jobs_[0], 0, most_together + 1), 0);
    fake_.finish_all(how);
    all_.poll();
    ASSERT_FALSE(all_.any());
  };
  end_one(hl::cs_status::completed);
  EXPECT_EQ(timed_, 0) << "this one was not to be";
  began_ += std::chrono::hours(1);
  end_one(hl::cs_status::completed);
  EXPECT_EQ(timed_, 1);
  end_one(hl::cs_status::aborted);
  EXPECT_EQ(timed_, 1);
}

TEST_F(copies_of_an_endpoint, of_a_lost_device_are_told_of_though_others_keep_theirs_busy) {
  const auto busy = open("0000:f1:00.0"), lost = open("0000:f2:00.0");
  ASSERT_NE(busy, lost);
  for (int i = 0; i < 2; ++i) ASSERT_EQ(submit(*busy, jobs_[0], 0, most_together + 1), 0);
  ASSERT_EQ(submit(*lost, jobs_[1], 0, 4096), 0);
  lost->lose(-FI_EIO, "of the test");
  all_.poll();
  EXPECT_TRUE(told_.empty()) << "two that are busy are enough for a look";
  all_.prefer_lost();
  all_.poll();
  EXPECT_EQ(told_, std::vector<copy_job*>{&jobs_[1]});
  EXPECT_EQ(jobs_[1].failed, -FI_EIO);
  EXPECT_EQ(jobs_[0].failed, 0);
}

// Those that were given to the engine together end together.
TEST_F(copies_of_an_endpoint, that_went_together_are_asked_for_once) {
  const auto gaudi = fake_.open();
  copy_job &first = jobs_[0], &together = jobs_[1];
  ASSERT_EQ(submit(*gaudi, first, 0, 4096), 0);
  for (unsigned i = 1; i <= 3; ++i) ASSERT_EQ(submit(*gaudi, together, i * 4096, 4096), 0);
  fake_.finish_all();
  ON_CALL(fake_.driver.library, wait_for_cs(_, _, _, _))
      .WillByDefault([&](int, std::uint64_t number, std::uint64_t, std::uint32_t* status) {
        ++looks_;
        *status = static_cast<std::uint32_t>(fake_.states.at(number));
        return 0;
      });
  all_.poll();
  EXPECT_EQ(told_, std::vector<copy_job*>{&first});
  EXPECT_EQ(fake_.submitted.size(), 2U);
  EXPECT_EQ(looks_, 2) << "the first, and all others at once";
  fake_.finish_all();
  all_.poll();
  EXPECT_EQ(looks_, 3);
  EXPECT_EQ(told_, (std::vector<copy_job*>{&first, &together}));
}

// Those for who waits at once have a few slots of their own, which may be full as well.
TEST_F(copies_of_an_endpoint,
       that_are_waited_for_wait_for_others_of_theirs_where_the_engine_is_full) {
  const auto gaudi = fake_.open();
  const std::size_t room = jobs_.size() - 1;
  for (std::size_t i = 0; i < room; ++i)
    ASSERT_EQ(submit(*gaudi, jobs_[i], 0, most_together + 1), 0);
  fill(*gaudi);
  ASSERT_EQ(submit(*gaudi, jobs_[room], 4096, 4096), 0);
  const auto submitted = fake_.submitted.size();
  finish_what_is_waited_for();
  EXPECT_EQ(all_.wait_for(jobs_[room]), 0);
  EXPECT_EQ(awaited_, (std::vector<std::uint64_t>{1, submitted + 1})) << "the oldest, and it";
  EXPECT_EQ(fake_.submitted.size(), submitted + 1);
}

TEST_F(copies_of_an_endpoint, that_are_waited_for_fail_where_others_have_all_of_the_engine) {
  const auto gaudi = fake_.open();
  fill(*gaudi);
  const auto submitted = fake_.submitted.size();
  ASSERT_EQ(submit(*gaudi, jobs_[0], 0, 4096), 0);
  EXPECT_EQ(all_.wait_for(jobs_[0]), -FI_EAGAIN);
  fake_.finish_all();
  all_.poll();
  EXPECT_EQ(fake_.submitted.size(), submitted) << "it is not begun later";
}

// Which takes further memory for the list while it is gone through.
TEST_F(copies_of_an_endpoint, are_added_to_when_one_that_ended_is_told_of) {
  const auto gaudi = fake_.open();
  copy_job &busy = jobs_[0], &done = jobs_[1], &more = jobs_[2];
  ASSERT_EQ(submit(*gaudi, busy, 0, most_together + 1), 0);
  ASSERT_EQ(submit(*gaudi, done, 0, most_together + 1), 0);
  fake_.states.at(2) = hl::cs_status::completed;
  constexpr unsigned added = 30;
  when_told_ = [&] {
    for (unsigned i = 0; i < added; ++i) EXPECT_EQ(submit(*gaudi, more, 0, most_together + 1), 0);
  };
  all_.poll();
  EXPECT_EQ(told_, std::vector<copy_job*>{&done});
  EXPECT_EQ(more.copies, added);
  fake_.finish_all();
  while (all_.any()) all_.poll();
  EXPECT_EQ(told_, (std::vector<copy_job*>{&done, &busy, &more}));
}

TEST_F(copies_of_an_endpoint, that_the_driver_refuses_fail_at_once) {
  const auto gaudi = fake_.open();
  EXPECT_CALL(fake_.driver.library, command_submission(_, _, _)).WillOnce(testing::Return(-ENOMEM));
  EXPECT_EQ(submit(*gaudi, jobs_[0], 0, 4096), -FI_ENOMEM);
  EXPECT_FALSE(all_.any());
  EXPECT_EQ(jobs_[0].copies, 0U) << "nobody waits for it";
  testing::Mock::VerifyAndClearExpectations(&fake_.driver.library);
}

}  // namespace
}  // namespace gaudi::copy
