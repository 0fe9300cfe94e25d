// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <fstream>

#include "sharing.hpp"
#include "simulation.hpp"

// Resets, hangs and removals: what the driver does to who has the device open, sections 2.4 to 2.6
// of the reference.

namespace hlsim_test {
namespace {

constexpr const char* first_bus_id = "0000:19:00.0";
/// A submission that nobody waits for to begin.
constexpr const char* an_hour_us = "3600000000";

int open_first() {
  return hlthunk_open(HLTHUNK_DEVICE_GAUDI2, first_bus_id);
}
int open_control() {
  return hlthunk_open_control_by_bus_id(first_bus_id);
}

/// What a wait for `seq` says, and the status.
std::pair<int, uint32_t> outcome_of(int device, uint64_t seq) {
  uint32_t status = 0;
  const int rc = hlthunk_wait_for_cs(device, seq, long_enough_us, &status);
  return {rc, status};
}

const std::pair<int, uint32_t> aborted{-EIO, HL_WAIT_CS_STATUS_ABORTED};

uint32_t hard_resets(int device) {
  hlthunk_reset_count_info count{};
  EXPECT_EQ(hlthunk_get_reset_count_info(device, &count), 0);
  return count.hard_reset_count;
}

uint64_t events_of(int device, int notifier) {
  uint64_t events = 0, count = 0;
  EXPECT_EQ(hlthunk_notifier_recv(device, notifier, &events, &count, 0, 20'000), 0);
  EXPECT_GT(count, 0U);
  return events;
}

/// Opens as soon as the reset is over.
int open_after_reset() {
  int fd = open_first();
  while (fd == -EAGAIN) {
    ::usleep(1000);
    fd = open_first();
  }
  return fd;
}

TEST(reset, makes_the_descriptor_useless_until_it_is_opened_anew) {
  simulate({{"HLSIM_FAULT", "0:reset=2"}}, [] {
    const int fd = open_first();
    ASSERT_GE(fd, 0);
    const device_page hbm(fd);
    {
      const host_buffer in(fd, 4096);
      copy(fd, in.va(), hbm.va, 4096);
      command c(fd, {{4096, lin_dma_control, in.va(), hbm.va}});
      uint64_t seq = 0;
      ASSERT_EQ(c.submit(0, seq), 0);
      EXPECT_EQ(outcome_of(fd, seq), aborted);
      EXPECT_EQ(c.submit(0, seq), -EBUSY);
    }
    EXPECT_EQ(hlthunk_get_device_status_info(fd), HL_DEVICE_STATUS_IN_RESET);
    EXPECT_EQ(hard_resets(fd), 1U);
    errno = 0;
    EXPECT_EQ(hlthunk_device_memory_alloc(fd, 1, 0, true, false), 0U);
    EXPECT_EQ(errno, EBUSY);
    EXPECT_EQ(hlthunk_memory_unmap(fd, hbm.va), -EBUSY);
    EXPECT_EQ(open_first(), -EAGAIN) << "the driver waits for the last user to go";
    const int dup = ::dup(fd);
    EXPECT_EQ(hlthunk_close(fd), 0);
    EXPECT_EQ(hlthunk_memory_unmap(dup, hbm.va), -EBUSY);
    EXPECT_EQ(open_first(), -EAGAIN);
    EXPECT_EQ(hlthunk_close(dup), 0);
    const open_device anew(first_bus_id);
    const device_page fresh(anew);
    const host_buffer in(anew, 4096);
    copy(anew, in.va(), fresh.va, 4096);
    EXPECT_EQ(hard_resets(anew), 1U);
  });
}

TEST(reset, takes_its_time_once_nobody_holds_the_device) {
  const scratch_folder folder;
  EXPECT_TRUE(succeeded(start(folder.path(), {{"HLSIM_RESET_MS", "3600000"}}, [] {
    const int fd = open_first();
    const int control = open_control();
    EXPECT_EQ(hlthunk_err_inject_loss_of_heartbeat(fd), 0);
    EXPECT_LT(hlthunk_close(fd), 0) << "it is closed already, as the real one does";
    EXPECT_EQ(open_first(), -EAGAIN);
    EXPECT_EQ(hlthunk_get_device_status_info(control), HL_DEVICE_STATUS_IN_RESET);
    hlthunk_close(control);
  })));
  EXPECT_TRUE(succeeded(start(folder.path(), {{"HLSIM_RESET_MS", "20"}}, [] {
    const int control = open_control();
    const int anew = open_after_reset();
    EXPECT_GE(anew, 0);
    EXPECT_EQ(hlthunk_get_device_status_info(control), HL_DEVICE_STATUS_OPERATIONAL);
    hlthunk_close(anew);
    hlthunk_close(control);
  })));
}

TEST(reset, waits_for_exports_as_well) {
  simulate({}, [] {
    const int fd = open_first();
    const device_page hbm(fd);
    const int exported =
        hlthunk_device_mapped_memory_export_dmabuf_fd(fd, hbm.va, 4096, 0, O_RDWR | O_CLOEXEC);
    ASSERT_GE(exported, 0);
    EXPECT_EQ(hlthunk_err_inject_fatal_event(fd, nullptr), 0);
    EXPECT_EQ(open_first(), -EAGAIN);
    ::close(exported);
    const open_device anew(first_bus_id);
  });
}

TEST(reset, aborts_what_has_not_begun_at_once) {
  simulate({{"HLSIM_LATENCY_US", an_hour_us}}, [] {
    const open_device device(first_bus_id);
    const device_page hbm(device);
    const host_buffer in(device, 4096);
    command c(device, {{4096, lin_dma_control, in.va(), hbm.va}});
    uint64_t a = 0, b = 0, other = 0;
    ASSERT_EQ(c.submit(0, a), 0);
    ASSERT_EQ(c.submit(0, b), 0);
    ASSERT_EQ(c.submit(4, other), 0);
    int event = -1;
    EXPECT_EQ(hlthunk_err_inject_fatal_event(::dup(device), &event), 0);
    EXPECT_GE(event, 0);
    for (const uint64_t seq : {a, b, other}) EXPECT_EQ(outcome_of(device, seq), aborted);
  });
}

TEST(reset, of_another_process_ends_a_wait) {
  const scratch_folder folder;
  const channel ready;
  const environment env{{"HLSIM_LATENCY_US", an_hour_us}};
  const pid_t user = start(folder.path(), env, [&] {
    const open_device device(first_bus_id);
    const device_page hbm(device);
    const host_buffer in(device, 4096);
    command c(device, {{4096, lin_dma_control, in.va(), hbm.va}});
    uint64_t seq = 0;
    ASSERT_EQ(c.submit(0, seq), 0);
    ready.signal(1);
    EXPECT_EQ(outcome_of(device, seq), aborted);
  });
  const pid_t breaker = start(folder.path(), env, [&] {
    ready.await(0);
    EXPECT_EQ(hlthunk_err_inject_fatal_event(open_control(), nullptr), 0);
  });
  EXPECT_TRUE(succeeded(breaker));
  EXPECT_TRUE(succeeded(user));
}

TEST(reset, leaves_other_devices_alone) {
  simulate({}, [] {
    const open_device other("0000:1a:00.0");
    const device_page hbm(other);
    const host_buffer in(other, 4096);
    EXPECT_EQ(hlthunk_err_inject_fatal_event(open_first(), nullptr), 0);
    copy(other, in.va(), hbm.va, 4096);
    EXPECT_EQ(hard_resets(other), 0U);
  });
}

TEST(reset, comes_some_time_after_the_opening) {
  simulate({{"HLSIM_FAULT", "reset-after-ms=20"}}, [] {
    const int fd = open_first();
    while (hlthunk_get_device_status_info(fd) == HL_DEVICE_STATUS_OPERATIONAL) ::usleep(1000);
    EXPECT_EQ(hlthunk_get_device_status_info(fd), HL_DEVICE_STATUS_IN_RESET);
    EXPECT_EQ(hard_resets(fd), 1U);
    hlthunk_close(fd);
    const open_device anew(first_bus_id);
  });
}

TEST(hang, lasts_and_holds_up_its_queue_only) {
  simulate({{"HLSIM_FAULT", "hang=1"}, {"HLSIM_CS_TIMEOUT_MS", "0"}}, [] {
    const open_device device(first_bus_id);
    const device_page hbm(device);
    const host_buffer in(device, 4096);
    command c(device, {{4096, lin_dma_control, in.va(), hbm.va}});
    uint64_t hung = 0, behind = 0;
    ASSERT_EQ(c.submit(0, hung), 0);
    ASSERT_EQ(c.submit(0, behind), 0);
    copy(device, in.va(), hbm.va, 4096, 1);
    EXPECT_EQ(wait_status(device, hung, 20'000), HL_WAIT_CS_STATUS_BUSY);
    EXPECT_EQ(wait_status(device, behind, 0), HL_WAIT_CS_STATUS_BUSY);
  });
}

TEST(hang, ends_by_the_drivers_time_out_and_a_reset) {
  simulate({{"HLSIM_FAULT", "hang=1"}, {"HLSIM_CS_TIMEOUT_MS", "500"}}, [] {
    const open_device device(first_bus_id);
    const int notifier = hlthunk_notifier_create(device);
    const device_page hbm(device);
    const host_buffer in(device, 4096);
    command c(device, {{4096, lin_dma_control, in.va(), hbm.va}});
    uint64_t hung = 0, behind = 0;
    ASSERT_EQ(c.submit(0, hung), 0);
    ASSERT_EQ(c.submit(0, behind), 0);
    const std::pair<int, uint32_t> timed_out{-ETIMEDOUT, HL_WAIT_CS_STATUS_TIMEDOUT};
    EXPECT_EQ(outcome_of(device, hung), timed_out);
    EXPECT_EQ(outcome_of(device, behind), aborted);
    EXPECT_EQ(events_of(device, notifier),
              HL_NOTIFIER_EVENT_CS_TIMEOUT | HL_NOTIFIER_EVENT_DEVICE_RESET);
    ::close(notifier);
  });
}

TEST(hang, of_an_endless_command_ends_in_a_reset) {
  simulate({{"HLSIM_CS_TIMEOUT_MS", "20"}}, [] {
    const open_device device(first_bus_id);
    EXPECT_EQ(hlthunk_err_inject_endless_command(device), 0);
    EXPECT_EQ(hlthunk_get_device_status_info(device), HL_DEVICE_STATUS_IN_RESET);
    EXPECT_EQ(hard_resets(device), 1U);
  });
}

TEST(removal, ends_everything_for_good) {
  const scratch_folder folder;
  EXPECT_TRUE(succeeded(start(folder.path(), {{"HLSIM_LATENCY_US", an_hour_us}}, [&] {
    const int fd = open_first();
    const device_page hbm(fd);
    {
      const host_buffer in(fd, 4096);
      command c(fd, {{4096, lin_dma_control, in.va(), hbm.va}});
      uint64_t seq = 0;
      ASSERT_EQ(c.submit(0, seq), 0);
      std::ofstream(folder.path() + "/fault") << "0:removal";
      uint32_t status = 0;
      EXPECT_EQ(hlthunk_wait_for_cs(fd, seq, long_enough_us, &status), -ENODEV);
      EXPECT_EQ(c.submit(0, seq), -ENODEV);
    }
    EXPECT_EQ(hlthunk_close(fd), 0);
    EXPECT_EQ(open_first(), -ENODEV);
    EXPECT_EQ(open_control(), -ENODEV);
    const open_device other("0000:1a:00.0");
    std::filesystem::remove(folder.path() + "/fault");
  })));
}

// Which whoever listens to its events would take for the cause.
TEST(removal, is_no_reset) {
  const scratch_folder folder;
  EXPECT_TRUE(succeeded(start(folder.path(), {{"HLSIM_LATENCY_US", "20000"}}, [&] {
    const int fd = open_first();
    const int control = open_control();
    const device_page hbm(fd);
    const host_buffer in(fd, 4096);
    command c(fd, {{4096, lin_dma_control, in.va(), hbm.va}});
    uint64_t seq = 0;
    ASSERT_EQ(c.submit(0, seq), 0);
    std::ofstream(folder.path() + "/fault") << "0:removal";
    uint32_t status = 0;
    EXPECT_EQ(hlthunk_wait_for_cs(fd, seq, long_enough_us, &status), -ENODEV);
    ::usleep(100'000);  // the engine comes to the submission meanwhile
    std::filesystem::remove(folder.path() + "/fault");
    EXPECT_EQ(hard_resets(control), 0U);
    EXPECT_EQ(hlthunk_close(control), 0);
  })));
}

/// How a process ends that has a reset device open for as long as `body` takes.
int end_of(const char* patience, const std::function<void(int)>& body) {
  const scratch_folder folder;
  const pid_t pid = start(folder.path(), {{"HLSIM_KILL", patience}}, [&] {
    const int fd = open_first();
    ASSERT_GE(fd, 0);
    body(fd);
  });
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  return status;
}
void reset_and_sleep(int fd, useconds_t us) {
  hlthunk_err_inject_fatal_event(::dup(fd), nullptr);
  ::usleep(us);
}
constexpr useconds_t half_a_minute_us = 30'000'000;

TEST(kill, comes_to_who_keeps_a_reset_device_open) {
  const int status = end_of("0.05", [](int fd) { reset_and_sleep(fd, half_a_minute_us); });
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
}

TEST(kill, comes_to_who_keeps_an_export_of_it) {
  const int status = end_of("0.05", [](int fd) {
    const device_page hbm(fd);
    EXPECT_GE(
        hlthunk_device_mapped_memory_export_dmabuf_fd(fd, hbm.va, 4096, 0, O_RDWR | O_CLOEXEC), 0);
    hlthunk_err_inject_fatal_event(fd, nullptr);  // which closes it
    ::usleep(half_a_minute_us);
  });
  EXPECT_TRUE(WIFSIGNALED(status));
}

TEST(kill, spares_who_lets_go) {
  const int status = end_of("0.2", [](int fd) {
    hlthunk_err_inject_fatal_event(fd, nullptr);
    ::usleep(500'000);
    const int again = open_after_reset();
    EXPECT_GE(again, 0);
    hlthunk_close(again);
  });
  EXPECT_EQ(status, 0);
}

TEST(kill, waits_for_who_is_told_of_the_reset) {
  int status = end_of("0.05", [](int fd) {
    EXPECT_GE(hlthunk_notifier_create(fd), 0);
    reset_and_sleep(fd, 300'000);
    hlthunk_close(fd);
  });
  EXPECT_EQ(status, 0);
  status = end_of("0.005", [](int fd) {
    EXPECT_GE(hlthunk_notifier_create(fd), 0);
    reset_and_sleep(fd, half_a_minute_us);
  });
  EXPECT_TRUE(WIFSIGNALED(status));
}

TEST(kill, comes_to_nobody_unless_asked_for) {
  EXPECT_EQ(end_of("0", [](int fd) { reset_and_sleep(fd, 200'000); }), 0);
}

TEST(notifier, tells_of_events_that_reset_nothing) {
  simulate({}, [] {
    const open_device device(first_bus_id);
    const int notifier = hlthunk_notifier_create(device);
    ASSERT_GE(notifier, 0);
    EXPECT_EQ(hlthunk_notifier_create(device), -EINVAL) << "one for each open file";
    uint64_t events = 0, count = 1;
    EXPECT_EQ(hlthunk_notifier_recv(device, notifier, &events, &count, 0, 0), 0);
    EXPECT_EQ(count, 0U);
    int event = -1;
    EXPECT_EQ(hlthunk_err_inject_non_fatal_event(device, &event), 0);
    EXPECT_EQ(events_of(device, notifier), HL_NOTIFIER_EVENT_USER_ENGINE_ERR);
    EXPECT_EQ(hlthunk_get_device_status_info(device), HL_DEVICE_STATUS_OPERATIONAL);
    EXPECT_EQ(hlthunk_notifier_release(device, notifier), 0);
    EXPECT_EQ(fcntl(notifier, F_GETFD), -1);
  });
}

TEST(notifier, tells_of_a_reset_that_another_process_makes) {
  const scratch_folder folder;
  const channel ready;
  const pid_t user = start(folder.path(), {}, [&] {
    const open_device device(first_bus_id);
    const int notifier = hlthunk_notifier_create(device);
    ready.signal(1);
    EXPECT_EQ(events_of(device, notifier),
              HL_NOTIFIER_EVENT_DEVICE_RESET | HL_NOTIFIER_EVENT_DEVICE_UNAVAILABLE);
    ::close(notifier);
  });
  const pid_t breaker = start(folder.path(), {}, [&] {
    ready.await(0);
    EXPECT_EQ(hlthunk_err_inject_loss_of_heartbeat(open_control()), 0);
  });
  EXPECT_TRUE(succeeded(breaker));
  EXPECT_TRUE(succeeded(user));
}

TEST(notifier, is_for_who_has_the_device_open) {
  simulate({}, [] {
    const int control = open_control();
    EXPECT_EQ(hlthunk_notifier_create(control), -ENOTTY);
    hlthunk_close(control);
  });
}

}  // namespace
}  // namespace hlsim_test
