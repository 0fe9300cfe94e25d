// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <sys/stat.h>

#include <chrono>
#include <csignal>

#include "base/scoped_fd.hpp"
#include "sharing.hpp"
#include "simulation.hpp"

// Opening, sharing and closing devices: reference, sections 1.4, 1.6, 2.1, 2.4 and 2.5.

namespace hlsim_test {
namespace {

const environment two{{"HLSIM_DEVICES", "2"}};

TEST(opening, finds_devices_by_name_bus_id_and_module) {
  simulate(two, [] {
    EXPECT_EQ(hlthunk_get_device_count(HLTHUNK_DEVICE_GAUDI2), 2);
    EXPECT_EQ(hlthunk_get_device_count(HLTHUNK_DEVICE_INVALID), 0);
    EXPECT_EQ(hlthunk_get_device_index_from_pci_bus_id("0000:1a:00.0"), 1);
    EXPECT_EQ(hlthunk_get_device_index_from_pci_bus_id("1a:00.0"), 1);
    EXPECT_EQ(hlthunk_get_device_index_from_pci_bus_id("0000:77:00.0"), -EINVAL);
    const open_device second("1a:00.0");
    char id[13];
    ASSERT_EQ(hlthunk_get_pci_bus_id_from_fd(second, id, sizeof id), 0);
    EXPECT_STREQ(id, "0000:1a:00.0");
    EXPECT_EQ(hlthunk_get_pci_bus_id_from_fd(second, id, sizeof id - 1), -EINVAL);
    EXPECT_EQ(hlthunk_open_by_module_id(1), -EBUSY);
    const int first = hlthunk_open_by_module_id(0);
    ASSERT_GE(first, 0);
    EXPECT_EQ(hlthunk_close(first), 0);
    EXPECT_LT(hlthunk_open_by_module_id(2), 0);
  });
}

TEST(opening, fails_in_the_forms_of_the_real_library) {
  simulate(two, [] {
    errno = 0;
    EXPECT_EQ(hlthunk_open(HLTHUNK_DEVICE_INVALID, nullptr), -1);
    EXPECT_EQ(errno, ENOENT);
    EXPECT_EQ(hlthunk_open(HLTHUNK_DEVICE_GAUDI2, "0000:77:00.0"), -EINVAL);
    const open_device first, second;
    EXPECT_EQ(hlthunk_open(HLTHUNK_DEVICE_GAUDI2, "0000:19:00.0"), -EBUSY);
    errno = 0;
    EXPECT_EQ(hlthunk_open(HLTHUNK_DEVICE_GAUDI2, nullptr), -1);
    EXPECT_EQ(errno, EBUSY);
    EXPECT_EQ(hlthunk_close(12345), -1);
    EXPECT_EQ(hlthunk_open_control_by_module_id(9), -EBADF);
    EXPECT_EQ(hlthunk_open_control_by_bus_id("0000:77:00.0"), -EBADF);
  });
}

TEST(opening, gives_a_close_on_exec_kernel_fd) {
  simulate({}, [] {
    const open_device device;
    EXPECT_TRUE(::fcntl(device, F_GETFD) & FD_CLOEXEC);
    EXPECT_EQ(::fcntl(device, F_GETFL) & O_ACCMODE, O_RDWR);
  });
}

TEST(opening, describes_a_gaudi2) {
  simulate({}, [] {
    const open_device device;
    hlthunk_hw_ip_info info{};
    ASSERT_EQ(hlthunk_get_hw_ip_info(device, &info), 0);
    EXPECT_EQ(info.dram_base_address, 0x1001001800000000U);
    EXPECT_EQ(info.dram_page_size, page);
    EXPECT_EQ(info.device_mem_alloc_default_page_size, page);
    EXPECT_EQ(info.dram_size, 127 * page);
    EXPECT_EQ(info.device_id, 0x1020U);
    EXPECT_EQ(info.dram_enabled, 1);
    EXPECT_NE(std::string(hlsim_description()).find("simulated Gaudi2"), std::string::npos);
    EXPECT_EQ(hlthunk_get_device_id_from_fd(device), 0x1020U);
    EXPECT_EQ(hlthunk_get_device_name_from_fd(device), HLTHUNK_DEVICE_GAUDI2);
    EXPECT_EQ(hlthunk_get_device_status_info(device), HL_DEVICE_STATUS_OPERATIONAL);
    EXPECT_EQ(hlthunk_get_device_id_from_fd(STDIN_FILENO), 0U);
    EXPECT_EQ(hlthunk_get_device_name_from_fd(-1), HLTHUNK_DEVICE_INVALID);
    EXPECT_EQ(hlthunk_get_hw_ip_info(-1, &info), -EBADF);
  });
}

TEST(control_node, is_shared_and_only_informs) {
  simulate({{"HLSIM_HBM", "1536M"}}, [] {
    const int early = hlthunk_open_control(0, nullptr);
    hlthunk_hw_ip_info info{};
    ASSERT_EQ(hlthunk_get_hw_ip_info(early, &info), 0);
    EXPECT_EQ(info.dram_size, 2 * page) << "before the first open";
    const open_device device;
    const int a = hlthunk_open_control_by_bus_id("0000:19:00.0");
    const int b = hlthunk_open_control_by_name(HLTHUNK_DEVICE_GAUDI2, nullptr);
    ASSERT_GE(a, 0);
    ASSERT_GE(b, 0);
    hlthunk_open_stats_info stats{};
    EXPECT_EQ(hlthunk_get_open_stats(a, &stats), 0);
    EXPECT_EQ(stats.is_compute_ctx_active, 1);
    errno = 0;
    EXPECT_EQ(hlthunk_device_memory_alloc(a, 1, 0, false, false), 0U);
    EXPECT_EQ(errno, ENOTTY);
    uint32_t status = 0;
    EXPECT_EQ(hlthunk_wait_for_cs(b, 1, 0, &status), -ENOTTY);
    for (const int fd : {early, a, b}) EXPECT_EQ(hlthunk_close(fd), 0);
    EXPECT_EQ(hlthunk_get_device_status_info(device), HL_DEVICE_STATUS_OPERATIONAL);
  });
}

ino_t inode_of(int fd) {
  struct stat is {};
  EXPECT_EQ(::fstat(fd, &is), 0);
  return is.st_ino;
}

/// What a process knows of a file it finds by the inode, and most file systems give the inode of a
/// removed file to one of the next (tmpfs never does).
TEST(control_node, shares_its_inode_with_no_file_that_is_made_once_it_is_removed) {
  std::string folder = (std::filesystem::temp_directory_path() / "hlsim-test-XXXXXX").string();
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const auto body = [&] {
    const int control = hlthunk_open_control(0, nullptr);
    EXPECT_EQ(hlthunk_get_device_status_info(control), HL_DEVICE_STATUS_OPERATIONAL);
    const ino_t known = inode_of(control);
    EXPECT_EQ(hlthunk_close(control), 0);
    std::filesystem::remove_all(folder);
    std::filesystem::create_directory(folder);
    for (int i = 0; i < 100; ++i) {
      const std::string next = folder + "/" + std::to_string(i);
      const gaudi::base::scoped_fd file(::open(next.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
      EXPECT_NE(inode_of(file.get()), known) << i;
    }
  };
  EXPECT_TRUE(succeeded(start(folder, {}, body)));
  std::filesystem::remove_all(folder);
}

TEST(exclusiveness, holds_between_processes_until_the_last_dup_is_gone) {
  const scratch_folder folder;
  const channel opened, tried, closed;
  const pid_t owner = start(folder.path(), {}, [&] {
    int fd = hlthunk_open(HLTHUNK_DEVICE_GAUDI2, "0000:19:00.0");
    ASSERT_GE(fd, 0);
    const int copy = ::dup(fd);
    EXPECT_EQ(hlthunk_close(fd), 0);
    opened.signal(1);
    tried.await(1);
    EXPECT_EQ(hlthunk_close(copy), 0);
    closed.signal(1);
  });
  const pid_t other = start(folder.path(), {}, [&] {
    opened.await(0);
    EXPECT_EQ(hlthunk_open(HLTHUNK_DEVICE_GAUDI2, "0000:19:00.0"), -EBUSY);
    tried.signal(0);
    closed.await(0);
    const open_device now_free("0000:19:00.0");
  });
  EXPECT_TRUE(succeeded(owner));
  EXPECT_TRUE(succeeded(other));
}

TEST(exclusiveness, ends_with_a_killed_process) {
  const scratch_folder folder;
  const channel opened;
  const pid_t victim = start(folder.path(), {}, [&] {
    const open_device device;
    const device_page hbm(device);
    opened.signal(1);
    ::pause();
  });
  opened.await(0);
  ::kill(victim, SIGKILL);
  EXPECT_FALSE(succeeded(victim));
  EXPECT_TRUE(succeeded(start(folder.path(), {}, [] {
    const open_device device("0000:19:00.0");
    hlthunk_dram_usage_info usage{};
    EXPECT_EQ(hlthunk_get_dram_usage(device, &usage), 0);
    EXPECT_EQ(usage.ctx_dram_mem, 0U) << "the driver frees what its user left";
  })));
}

TEST(exclusiveness, that_ended_with_a_process_is_seen_on_the_control_node) {
  const scratch_folder folder;
  const channel opened;
  const auto is_used = [](int fd) {
    hlthunk_open_stats_info stats{};
    EXPECT_EQ(hlthunk_get_open_stats(fd, &stats), 0);
    return stats.is_compute_ctx_active;
  };
  const pid_t victim = start(folder.path(), {}, [&] {
    const open_device device;
    const device_page hbm(device);
    opened.signal(1);
    ::pause();
  });
  opened.await(0);
  EXPECT_TRUE(succeeded(start(folder.path(), {}, [&] {
    const int node = hlthunk_open_control_by_name(HLTHUNK_DEVICE_GAUDI2, "0000:19:00.0");
    ASSERT_GE(node, 0);
    EXPECT_TRUE(is_used(node));
    ::kill(victim, SIGKILL);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (is_used(node) && std::chrono::steady_clock::now() < deadline) ::usleep(1000);
    EXPECT_FALSE(is_used(node));
    hlthunk_dram_usage_info usage{};
    EXPECT_EQ(hlthunk_get_dram_usage(node, &usage), 0);
    EXPECT_EQ(usage.ctx_dram_mem, 0U) << "the driver frees what its user left";
    EXPECT_EQ(hlthunk_close(node), 0);
  })));
  EXPECT_FALSE(succeeded(victim));
}

TEST(exclusiveness, is_kept_by_close_on_exec) {
  simulate({}, [] {
    const open_device device;
    const pid_t child = ::fork();
    if (child == 0) {
      const std::string path = "/proc/self/fd/" + std::to_string(device);
      ::execl("/usr/bin/test", "test", "!", "-e", path.c_str(), nullptr);
      ::_exit(1);
    }
    EXPECT_TRUE(succeeded(child)) << "the exec'ed program holds the device";
  });
}

TEST(release, is_followed_by_a_reset) {
  const auto open = [] { return hlthunk_open(HLTHUNK_DEVICE_GAUDI2, "0000:19:00.0"); };
  simulate({{"HLSIM_RELEASE_MS", "600000"}}, [&] {
    hlthunk_close(open());
    EXPECT_EQ(open(), -EAGAIN);
  });
  simulate({{"HLSIM_RELEASE_MS", "100"}}, [&] {
    hlthunk_close(open());
    int again = -EAGAIN;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (again == -EAGAIN && std::chrono::steady_clock::now() < deadline) again = open();
    ASSERT_GE(again, 0);
    EXPECT_EQ(hlthunk_close(again), 0);
  });
}

TEST(context, is_shared_by_whoever_holds_the_fd) {
  const scratch_folder folder;
  const channel c;
  const pid_t owner = start(folder.path(), {}, [&] {
    const open_device device;
    const device_page hbm(device);
    const host_buffer in(device, 4096);
    std::memset(in.data(), 0x5a, 4096);
    copy(device, in.va(), hbm.va, 4096);
    c.send_fd(1, device);
    c.await(1);
  });
  const pid_t guest = start(folder.path(), {}, [&] {
    const int device = c.receive_fd(0);
    ASSERT_GE(device, 0);
    hlthunk_dram_usage_info usage{};
    EXPECT_EQ(hlthunk_get_dram_usage(device, &usage), 0);
    EXPECT_EQ(usage.ctx_dram_mem, page);
    const host_buffer out(device, 4096);
    copy(device, 0x1001001800000000, out.va(), 4096, 4);
    EXPECT_EQ(out.data()[4095], 0x5a);
    EXPECT_EQ(hlthunk_memory_unmap(device, 0x1001001800000000), 0);
    EXPECT_EQ(hlthunk_close(device), 0);
    c.signal(0);
  });
  EXPECT_TRUE(succeeded(guest));
  EXPECT_TRUE(succeeded(owner));
}

TEST(context, works_on_both_sides_of_a_fork) {
  if (built_with_tsan) GTEST_SKIP() << "TSan allows no threads after a multi-threaded fork";
  simulate({}, [] {
    const open_device device;
    const device_page hbm(device);
    const host_buffer in(device, 4096), out(device, 4096);
    std::memset(in.data(), 0x33, 4096);
    copy(device, in.va(), hbm.va, 4096);
    const pid_t child = ::fork();
    if (child == 0) {
      const host_buffer mine(device, 4096);
      copy(device, hbm.va, mine.va(), 4096);
      ::_exit(mine.data()[9] == 0x33 && !testing::Test::HasFailure() ? 0 : 1);
    }
    EXPECT_TRUE(succeeded(child));
    copy(device, hbm.va, out.va(), 4096);
    EXPECT_EQ(out.data()[9], 0x33);
  });
}

}  // namespace
}  // namespace hlsim_test
