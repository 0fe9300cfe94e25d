// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// When the thread of FI_PROGRESS_AUTO steps in, and when it leaves progress to the application.
#include "fi/rdm/progress_thread.hpp"

#include <gtest/gtest.h>

#include <future>

namespace gaudi::fi {
namespace {

sleeping_place a_place(int events = base::no_fd) {
  auto waker = base::waker::open();
  EXPECT_TRUE(waker);
  return {events, *std::move(waker)};
}

class auto_progress : public testing::Test {
 protected:
  void start(progress_thread::tasks calls) {
    auto started = progress_thread::start(a_place(), std::move(calls), polls);
    ASSERT_TRUE(started);
    thread = *std::move(started);
  }

  // As often as an application does in much longer than any pause of a machine that is busy.
  void poll() {
    for (int i = 0; i < 200'000; ++i) polls.poll_for(nobody);
  }

  endpoint_rota polls;
  const endpoint_rota::list nobody;
  std::promise<void> done;
  std::unique_ptr<progress_thread> thread;
};

TEST_F(auto_progress, is_made_at_once_where_the_application_does_not_poll) {
  start({.progress = [] { ADD_FAILURE() << "nobody polls"; },
         .may_sleep =
             [this](base::waker& waker) {
               waker.arm();
               done.set_value();
               return true;
             }});
  done.get_future().wait();
}

// What is polled does not concern all endpoints: so the thread looks after the others, and arms
// nothing.
TEST_F(auto_progress, is_left_to_an_application_that_polls) {
  std::atomic<unsigned> looks{0};
  std::atomic<bool> is_over{false};
  poll();
  start({.progress =
             [&] {
               // As if the application had polled since.
               if (++looks < 20) return poll();
               is_over = true;
             },
         .may_sleep =
             [&](base::waker& waker) {
               EXPECT_TRUE(is_over) << "it took over after " << looks << " looks";
               waker.arm();
               done.set_value();
               return true;
             }});
  done.get_future().wait();
  EXPECT_EQ(looks, 20U);
}

// As one that computes: its operations would wait for its polls.
TEST_F(auto_progress, is_not_left_to_an_application_that_polls_seldom) {
  unsigned looks = 0;
  poll();
  start({.progress =
             [&] {
               ++looks;
               polls.poll_for(nobody);
             },
         .may_sleep =
             [&](base::waker& waker) {
               EXPECT_EQ(looks, 1U);
               waker.arm();
               done.set_value();
               return true;
             }});
  done.get_future().wait();
}

TEST_F(auto_progress, ends_while_the_application_polls) {
  std::promise<void> looked;
  poll();
  start({.progress =
             [&, is_first = true]() mutable {
               poll();
               if (std::exchange(is_first, false)) looked.set_value();
             },
         .may_sleep = [](base::waker&) { return false; }});
  looked.get_future().wait();
  thread.reset();
}

}  // namespace
}  // namespace gaudi::fi
