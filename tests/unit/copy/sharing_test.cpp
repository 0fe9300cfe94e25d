// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What threads that share an engine or a copier must not do at the same time.
#include <gtest/gtest.h>
#include <rdma/fi_errno.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "copy/copier.hpp"
#include "fake_engine.hpp"

namespace gaudi::copy {
namespace {

using testing::_;

constexpr std::uint64_t dst = 0x1001001800000000, src = 0x1001001900000000;

/// Whether a thread of this process sleeps.
bool sleeps(int thread) {
  std::ifstream stat("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string number, name, state;
  stat >> number >> name >> state;
  return state == "S";
}

// A copy that the queues refuse takes a slot and gives it back, and asks no driver.
TEST(a_shared_engine, loses_no_slot_to_threads_that_give_theirs_back) {
  test::fake_engine fake;
  const auto engine = *dma_engine::for_device(fake.open());
  constexpr std::uint64_t too_long = std::uint64_t{1} << 60;
  constexpr int rounds = 20'000;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int round = 0; round < rounds; ++round)
        EXPECT_EQ(engine->submit(dst, src, too_long, direction::host_to_device).code(), -FI_EINVAL);
    });
  for (std::thread& each : threads) each.join();
  std::size_t slots = 0;
  const copy_part one{dst, src, 64};
  while (engine->submit_urgently({&one, 1}, direction::host_to_device)) ++slots;
  EXPECT_EQ(slots, 48U);
  fake.finish_all();
}

/// A copier whose device is asked for the end of a copy by one thread at a time, and holds it
/// there.
class a_shared_copier : public testing::Test {
 protected:
  a_shared_copier() {
    used_ = *copier::for_device(fake_.open());
    memory_ = *used_->engine()->owner()->allocate(1 << 20);
  }
  ~a_shared_copier() override {
    const auto owner = used_->engine()->owner();
    used_.reset();
    EXPECT_TRUE(owner->free(memory_));
  }
  std::unique_ptr<operation> start() {
    return *used_->start(memory_, memory_ + 4096, 4096, direction::device_to_device);
  }

  test::fake_engine fake_;
  std::shared_ptr<copier> used_;
  std::uint64_t memory_ = 0;
};

TEST_F(a_shared_copier, is_looked_at_by_one_thread_at_a_time) {
  auto one = start(), other = start();
  std::atomic<int> inside{0}, second{0};
  std::atomic<bool> may_leave{false};
  ON_CALL(fake_.driver.library, wait_for_cs(_, _, _, _))
      .WillByDefault([&](int, std::uint64_t, std::uint64_t, std::uint32_t* status) {
        ++inside;
        while (!may_leave) std::this_thread::yield();
        *status = static_cast<std::uint32_t>(hl::cs_status::completed);
        return 0;
      });
  std::thread first_thread([&] { EXPECT_EQ(one->poll(), 0); });
  while (inside == 0) std::this_thread::yield();
  std::thread second_thread([&] {
    second = gettid();
    EXPECT_EQ(other->poll(), 0);
  });
  while (second == 0 || (!sleeps(second) && inside == 1)) std::this_thread::yield();
  EXPECT_EQ(inside, 1);
  may_leave = true;
  first_thread.join();
  second_thread.join();
}

// The hardware still uses the memory.
TEST_F(a_shared_copier, keeps_an_operation_from_going_before_its_copies_have_ended) {
  auto one = start();
  std::atomic<int> asked{0};
  std::atomic<bool> is_done{false}, has_gone{false};
  ON_CALL(fake_.driver.library, wait_for_cs(_, _, _, _))
      .WillByDefault([&](int, std::uint64_t, std::uint64_t, std::uint32_t* status) {
        ++asked;
        std::this_thread::yield();
        *status =
            static_cast<std::uint32_t>(is_done ? hl::cs_status::completed : hl::cs_status::busy);
        return 0;
      });
  std::thread destroying([&] {
    one.reset();
    has_gone = true;
  });
  while (asked < 5 && !has_gone) std::this_thread::yield();
  EXPECT_FALSE(has_gone);
  is_done = true;
  destroying.join();
  fake_.finish_all();
}

}  // namespace
}  // namespace gaudi::copy
