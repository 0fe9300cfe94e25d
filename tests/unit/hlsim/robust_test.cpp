// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What becomes of a device whose users are killed, or have no descriptors or memory left.
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <cerrno>
#include <fstream>
#include <thread>

#include "simulation.hpp"

namespace hlsim_test {
namespace {

std::string fault_file() {
  return std::string(::getenv("HLSIM_DIR")) + "/fault";
}

/// Neither asleep, nor ended.
bool runs(pid_t process) {
  std::ifstream stat("/proc/" + std::to_string(process) + "/stat");
  std::string number, name, state;
  stat >> number >> name >> state;
  return state == "R";
}

/// A submission that never ends, on its own queue.
uint64_t hang(command& c) {
  std::ofstream(fault_file()) << "0:hang";
  uint64_t seq = 0;
  EXPECT_EQ(c.submit(4, seq), 0);
  std::filesystem::remove(fault_file());
  return seq;
}

TEST(a_killed_user, holds_up_nobody_who_waits_for_submissions) {
  simulate({{"HLSIM_CS_TIMEOUT_MS", "0"}, {"HLSIM_REORDER", "0"}}, [] {
    const open_device device;
    const device_page hbm(device);
    const host_buffer in(device, 4096);
    command endless(device, {{4096, lin_dma_control, in.va(), hbm.va}});
    const uint64_t seq = hang(endless);
    for (int round = 0; round < 4; ++round) {
      const pid_t user = ::fork();
      if (user == 0) {
        uint32_t status = 0;
        ::_exit(hlthunk_wait_for_cs(device, seq, UINT64_MAX, &status) == 0 ? 0 : 1);
      }
      while (runs(user)) std::this_thread::yield();
      ::kill(user, SIGKILL);
      ::waitpid(user, nullptr, 0);
      for (int i = 0; i < 4; ++i) copy(device, in.va(), hbm.va, 4096);
    }
  });
}

/// How many descriptors this process may still open. One at a time.
class descriptors {
 public:
  descriptors() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    // Open ones may lie above those that are free.
    for (int fd = ::dup(1); fd < 64; fd = ::dup(1)) {
    }
    next_ = ::dup(1);
    ::close(next_);
  }
  ~descriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  descriptors(const descriptors&) = delete;
  descriptors& operator=(const descriptors&) = delete;

  void limit_to(unsigned count) {
    const rlimit limit{static_cast<rlim_t>(next_) + count, before_.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  }

 private:
  rlimit before_{};
  int next_ = -1;
};

/// The first device, of whatever generation.
int open_any() {
  return hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, "0000:19:00.0");
}

TEST(a_user_without_descriptors, gets_an_error_and_no_wrong_bytes) {
  simulate({}, [] {
    const open_device device;
    const device_page hbm(device);
    const pid_t user = ::fork();
    if (user == 0) {
      // It meets the device anew, for which it needs two.
      descriptors left;
      for (const unsigned room : {0U, 1U}) {
        left.limit_to(room);
        EXPECT_EQ(hlthunk_get_device_status_info(device), -EMFILE) << room;
        EXPECT_EQ(hlthunk_memory_unmap(device, hbm.va), -EMFILE) << room;
      }
      left.limit_to(16);
      const host_buffer out(device, 4096);
      out.data()[0] = 'x';
      copy(device, hbm.va, out.va(), 4096);
      EXPECT_EQ(out.data()[0], 0);
      ::_exit(testing::Test::HasFailure() ? 1 : 0);
    }
    EXPECT_TRUE(succeeded(user));
  });
}

TEST(a_user_without_descriptors, opens_nothing) {
  simulate({}, [] {
    descriptors left;
    for (const unsigned room : {0U, 1U, 2U}) {
      left.limit_to(room);
      const int fd = open_any();
      EXPECT_EQ(fd, -EMFILE) << room;
      if (fd >= 0) hlthunk_close(fd);
    }
    left.limit_to(64);
    const int fd = open_any();
    EXPECT_GE(fd, 0);
    hlthunk_close(fd);
  });
}

/// A folder with so much memory behind it, for this process alone. False: it may not have one.
bool mount_small(const char* size) {
  const std::string folder = ::getenv("HLSIM_DIR");
  const bool is_apart = ::unshare(CLONE_NEWNS) == 0 || ::unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0;
  return is_apart && ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("tmpfs", folder.c_str(), "tmpfs", 0, size) == 0;
}

TEST(a_machine_without_memory, has_no_room_for_a_device) {
  simulate({}, [] {
    if (!mount_small("size=1m")) GTEST_SKIP() << "no rights to mount";
    EXPECT_EQ(open_any(), -ENOSPC);
  });
}

TEST(a_machine_without_memory, fails_a_copy_to_hbm) {
  simulate({}, [] {
    if (!mount_small("size=48m")) GTEST_SKIP() << "no rights to mount";
    const open_device device;
    const device_page hbm(device);
    const host_buffer in(device, 64 * mib);
    command c(device, {{static_cast<uint32_t>(in.size()), lin_dma_control, in.va(), hbm.va}});
    std::memset(in.data(), 1, in.size());
    uint64_t seq = 0;
    ASSERT_EQ(c.submit(0, seq), 0);
    uint32_t status = 0;
    EXPECT_EQ(hlthunk_wait_for_cs(device, seq, long_enough_us, &status), -EIO);
    EXPECT_EQ(status, static_cast<uint32_t>(HL_WAIT_CS_STATUS_ABORTED));
  });
}

TEST(a_machine_without_memory, gives_no_command_buffer) {
  simulate({{"HLSIM_GENERATION", "1"}, {"HLSIM_DEVICES", "1"}}, [] {
    if (!mount_small("size=16m")) GTEST_SKIP() << "no rights to mount";
    const int device = open_any();
    ASSERT_GE(device, 0);
    uint64_t handle = 0;
    int rc = 0;
    for (int i = 0; i < 16 && rc == 0; ++i)
      rc = hlthunk_request_command_buffer(device, 0x200000 - 32, &handle);
    EXPECT_EQ(rc, -ENOMEM);
    hlthunk_close(device);
  });
}

}  // namespace
}  // namespace hlsim_test
