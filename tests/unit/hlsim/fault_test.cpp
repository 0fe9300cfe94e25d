// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <fstream>

#include "simulation.hpp"

// Fault injection: what section 2.4 and 2.6 of the reference say a consumer must expect.

namespace hlsim_test {
namespace {

int open_first() {
  return hlthunk_open(HLTHUNK_DEVICE_GAUDI2, "0000:19:00.0");
}

TEST(faults, of_opening) {
  for (const auto& [name, code] : std::map<std::string, int>{{"busy", -EBUSY},
                                                             {"in-reset", -EAGAIN},
                                                             {"malfunction", -EPERM},
                                                             {"removal", -ENODEV}}) {
    SCOPED_TRACE(name);
    simulate({{"HLSIM_FAULT", "0:" + name}}, [code = code] {
      EXPECT_EQ(open_first(), code);
      const open_device other("0000:1a:00.0");
    });
  }
}

TEST(faults, strike_at_the_nth_call) {
  simulate({{"HLSIM_FAULT", "enomem=2,emfile=1"}}, [] {
    const open_device device;
    const device_page hbm(device);
    errno = 0;
    EXPECT_EQ(hlthunk_device_memory_alloc(device, 1, 0, false, false), 0U);
    EXPECT_EQ(errno, ENOMEM);
    EXPECT_NE(hlthunk_device_memory_alloc(device, 1, 0, false, false), 0U);
    const auto exported = [&] {
      return hlthunk_device_mapped_memory_export_dmabuf_fd(device, hbm.va, 4096, 0,
                                                           O_RDWR | O_CLOEXEC);
    };
    EXPECT_EQ(exported(), -EMFILE);
    const int fd = exported();
    EXPECT_GE(fd, 0);
    ::close(fd);
  });
}

TEST(faults, an_old_driver_cannot_export) {
  simulate({{"HLSIM_FAULT", "no-dmabuf"}}, [] {
    const open_device device;
    const device_page hbm(device);
    EXPECT_EQ(hlthunk_device_memory_export_dmabuf_fd(device, hbm.va, 4096, 0), -EOPNOTSUPP);
  });
}

TEST(faults, a_submission_times_out_and_resets_the_device) {
  simulate({{"HLSIM_FAULT", "cs-timeout=2"}}, [] {
    const open_device device;
    const device_page hbm(device);
    const host_buffer in(device, 4096);
    copy(device, in.va(), hbm.va, 4096);
    command c(device, {{4096, lin_dma_control, in.va(), hbm.va}});
    uint64_t seq = 0;
    ASSERT_EQ(c.submit(0, seq), 0);
    uint32_t status = 0;
    EXPECT_EQ(hlthunk_wait_for_cs(device, seq, long_enough_us, &status), -ETIMEDOUT);
    EXPECT_EQ(status, HL_WAIT_CS_STATUS_TIMEDOUT);
    EXPECT_EQ(hlthunk_get_device_status_info(device), HL_DEVICE_STATUS_IN_RESET);
  });
}

TEST(faults, come_and_go_with_the_control_file) {
  const scratch_folder folder;
  const std::string file = folder.path() + "/fault";
  EXPECT_TRUE(succeeded(start(folder.path(), {}, [&] {
    const open_device device;
    const device_page hbm(device);
    const host_buffer in(device, 4096);
    std::ofstream(file) << "0:in-reset\n";
    EXPECT_EQ(hlthunk_get_device_status_info(device), HL_DEVICE_STATUS_IN_RESET);
    EXPECT_EQ(hlthunk_memory_unmap(device, hbm.va), -EBUSY);
    std::filesystem::remove(file);
    copy(device, in.va(), hbm.va, 4096);
    std::ofstream(file) << "removal";
    EXPECT_EQ(hlthunk_device_memory_free(device, hbm.handle), -ENODEV);
    EXPECT_EQ(hlthunk_get_device_status_info(device), -ENODEV);
    std::filesystem::remove(file);
  })));
}

TEST(faults, abort_what_is_in_flight) {
  const scratch_folder folder;
  EXPECT_TRUE(succeeded(start(folder.path(), {}, [&] {
    const open_device device;
    const engines_paused engines;
    const device_page hbm(device);
    const host_buffer in(device, 4096);
    command c(device, {{4096, lin_dma_control, in.va(), hbm.va}});
    uint64_t seq = 0;
    ASSERT_EQ(c.submit(0, seq), 0);
    std::ofstream(folder.path() + "/fault") << "in-reset";
    uint32_t status = 0;
    EXPECT_EQ(hlthunk_wait_for_cs(device, seq, long_enough_us, &status), -EIO);
    EXPECT_EQ(status, HL_WAIT_CS_STATUS_ABORTED);
    std::filesystem::remove(folder.path() + "/fault");
  })));
}

}  // namespace
}  // namespace hlsim_test
