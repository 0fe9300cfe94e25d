// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What an endpoint over RDMA does before a thread sleeps until it has something to progress.
#include <sys/timerfd.h>

#include <chrono>
#include <span>
#include <string>

#include "device_by_hand.hpp"
#include "sim/audit.hpp"
#include "two_nics.hpp"

namespace gaudi::proto {
namespace {

using namespace std::chrono_literals;
using test::simulated_endpoint;

constexpr auto link_timeout = 1000ms;
constexpr auto soon = link_timeout / 4;
constexpr auto late = 16 * soon;

endpoint::settings watched() {
  auto s = test::with_sessions();
  s.limits.link_timeout = link_timeout;
  return s;
}

class endpoint_to_sleep_on : public testing::Test {
 protected:
  void SetUp() override {
    to_b = a.meet(b);
    b.meet(a);
    send();
    settle();
    a.take();
    fall_asleep(base::ready_fds::any());
  }
  void TearDown() override {
    settle();
    EXPECT_EQ(net.complaint(), "");
  }

  void send() {
    ASSERT_EQ(b.receive(test::memory_of(room.data(), room.size()), 1, &room), 0);
    int ret = -FI_EAGAIN;
    for (int i = 0; i < 100 && ret == -FI_EAGAIN; ++i) {
      ret = a.send(to_b, test::memory_of(word.data(), word.size()), 1, &word);
      if (ret) step();
    }
    ASSERT_EQ(ret, 0);
  }
  void step() {
    for (auto* e : {&a, &b}) e->progress(1ms);
    net.advance(10'000'000);
  }
  void settle() {
    for (int i = 0; i < 100; ++i) step();
  }
  void fall_asleep(const base::ready_fds& ready) {
    int ret = a.ep->try_wait(ready);
    for (int i = 0; i < 100 && ret != 0; ++i) {
      step();
      ret = a.ep->try_wait(ready);
    }
    ASSERT_EQ(ret, 0);
  }
  void fall_asleep_after(int fd) { fall_asleep(base::ready_fds::of(std::span(&fd, 1))); }
  [[nodiscard]] std::chrono::nanoseconds alarm() const { return endpoint_audit::alarm(*a.ep); }
  /// How long it is until it rings, in the kernel's time.
  [[nodiscard]] std::chrono::nanoseconds left() const {
    itimerspec at{};
    EXPECT_EQ(::timerfd_gettime(alarm_fd(), &at), 0);
    return std::chrono::seconds(at.it_value.tv_sec) + std::chrono::nanoseconds(at.it_value.tv_nsec);
  }
  [[nodiscard]] int alarm_fd() const { return endpoint_audit::alarm_fd(*a.ep); }
  /// At its completions.
  [[nodiscard]] std::size_t looks() { return here.completions().front()->reads; }
  [[nodiscard]] int queue_fd() { return here.completions().front()->descriptor; }
  [[nodiscard]] int events_fd() { return here.events().front()->descriptor; }

  sim::network net{test::over_rdma(), sim::rng(1), nullptr};
  sim::host& here = net.add_host(0, 5000);
  simulated_endpoint a{net, here, watched(), {}, nullptr, true};
  simulated_endpoint b{net, net.add_host(1, 5001), watched()};
  fi_addr_t to_b = 0;
  std::string word = std::string(200, 'w');  // the core tells when it has arrived
  std::string room = std::string(200, ' ');
};

// Else whoever sleeps on it would be woken for ever.
TEST_F(endpoint_to_sleep_on, is_armed_again_where_it_has_rung) {
  EXPECT_FALSE(here.is_readable());
  send();
  settle();
  EXPECT_TRUE(here.is_readable());
  fall_asleep(base::ready_fds::any());
  EXPECT_FALSE(here.is_readable());
}

// What a queue was armed for is still to come, whatever else has woken the thread.
TEST_F(endpoint_to_sleep_on, is_not_armed_again_where_another_descriptor_has_woken) {
  for (const int other : {events_fd(), alarm_fd()}) {
    send();
    settle();
    ASSERT_TRUE(here.is_readable());
    fall_asleep_after(other);
    EXPECT_TRUE(here.is_readable());
    fall_asleep(base::ready_fds::any());
    ASSERT_FALSE(here.is_readable());
  }
}

TEST_F(endpoint_to_sleep_on, hears_of_connections_where_their_descriptor_has_woken) {
  const auto reads = [this] { return here.events().front()->reads; };
  const std::size_t before = reads();
  fall_asleep_after(queue_fd());
  fall_asleep_after(alarm_fd());
  EXPECT_EQ(reads(), before);
  fall_asleep_after(events_fd());
  EXPECT_NE(reads(), before);
}

// A domain can have many, and its thread is woken for each message of any.
TEST_F(endpoint_to_sleep_on, is_not_progressed_where_none_of_its_descriptors_has_woken) {
  const std::size_t before = looks();
  fall_asleep(base::ready_fds::none());
  EXPECT_EQ(looks(), before);
  for (const int own : {queue_fd(), events_fd(), alarm_fd()}) {
    const std::size_t until_now = looks();
    fall_asleep_after(own);
    EXPECT_NE(looks(), until_now);
  }
}

// The descriptor that tells of lost devices is the domain's.
TEST_F(endpoint_to_sleep_on, is_progressed_where_a_device_was_lost) {
  const test::device_by_hand dev;
  const std::size_t before = looks();
  dev.gaudi->lose(-FI_EIO, "of the test");
  fall_asleep(base::ready_fds::none());
  EXPECT_NE(looks(), before);
}

TEST_F(endpoint_to_sleep_on, leaves_an_alarm_that_runs) {
  ASSERT_EQ(alarm(), late);
  const auto has_run = [this] { return left() < late - 1ms; };
  while (!has_run()) {
  }
  fall_asleep_after(queue_fd());
  EXPECT_TRUE(has_run());
}

TEST_F(endpoint_to_sleep_on, looks_seldom_at_links_that_carry_nothing) {
  EXPECT_EQ(alarm(), late);
}

TEST_F(endpoint_to_sleep_on, looks_soon_where_something_is_under_way) {
  send();
  fall_asleep(base::ready_fds::none());
  EXPECT_EQ(alarm(), soon);
}

// It looks once too often then, but each change is a system call.
TEST_F(endpoint_to_sleep_on, leaves_an_early_alarm_until_that_has_come) {
  send();
  fall_asleep(base::ready_fds::none());
  ASSERT_EQ(alarm(), soon);
  settle();
  fall_asleep(base::ready_fds::none());
  EXPECT_EQ(alarm(), soon);
  fall_asleep(base::ready_fds::any());
  EXPECT_EQ(alarm(), late);
}

/// With a rail over a second NIC.
class rails_to_sleep_on : public testing::Test {
 protected:
  static endpoint::settings settings() {
    auto s = test::with_two_rails();
    s.limits = watched().limits;
    return s;
  }
  void SetUp() override {
    to_b = a.meet(b);
    b.meet(a);
    b.expose(region, there);
    while (a.paths.rails.made == 0) write();
  }
  void TearDown() override {
    region.leave_core();
    EXPECT_EQ(net.complaint(), "");
  }
  void step(std::chrono::milliseconds time) {
    for (auto* e : {&a, &b}) e->progress(time);
    net.advance(10'000'000);
  }
  void write() {
    int ret = -FI_EAGAIN;
    for (int i = 0; i < 100 && ret == -FI_EAGAIN; ++i) {
      ret = a.ep->write(test::memory_of(here.data(), here.size()),
                        {.target = to_b,
                         .address = region.address,
                         .key = region.key,
                         .completion = a.completion(&here)});
      step(1ms);
    }
    ASSERT_EQ(ret, 0);
    for (int i = 0; i < 100; ++i) step(1ms);
    EXPECT_EQ(a.take().error, 0);
  }

  sim::network net{test::over_rdma(), sim::rng(1), nullptr};
  simulated_endpoint a{net, net.add_host(0, 5000), settings(), {test::some_address(1)}, nullptr,
                       true};
  simulated_endpoint b{net, net.add_host(1, 5001), settings(), {test::some_address(2)}};
  fi_addr_t to_b = 0;
  std::vector<std::byte> here = std::vector<std::byte>(64 * test::one_piece);
  std::vector<std::byte> there = std::vector<std::byte>(here.size());
  reg::region region;
};

TEST_F(rails_to_sleep_on, wake_whoever_sleeps_on_any_of_them) {
  sim::network alone(test::over_rdma(), sim::rng(1), nullptr);
  const simulated_endpoint without(alone, alone.add_host(0, 5000), watched(), {}, nullptr, true);
  EXPECT_EQ(a.ep->wait_fds().size(), without.ep->wait_fds().size() + 1);
}

TEST_F(rails_to_sleep_on, are_looked_at_seldom_where_all_that_they_carried_is_done) {
  write();
  ASSERT_NE(a.paths.rails.bytes, 0U);
  for (int i = 0; i < 100; ++i) step(soon);
  ASSERT_EQ(a.ep->try_wait(base::ready_fds::any()), 0);
  EXPECT_EQ(endpoint_audit::alarm(*a.ep), late);
}

}  // namespace
}  // namespace gaudi::proto
