// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "sharing.hpp"
#include "simulation.hpp"

// dma-buf export: reference, sections 3.2 to 3.4. Where /dev/udmabuf exists these run on real
// dma-bufs, whose size the module limits: hence the small HBM.

namespace hlsim_test {
namespace {

constexpr int flags = O_RDWR | O_CLOEXEC;
const environment small{{"HLSIM_HBM", "64M"}, {"HLSIM_HBM_PAGE", "4M"}};
constexpr uint64_t small_page = 4 * mib;

int export_all(const device_page& hbm) {
  return hlthunk_device_mapped_memory_export_dmabuf_fd(hbm.device, hbm.va, small_page, 0, flags);
}

TEST(exporting, is_checked_as_the_driver_does) {
  simulate(small, [] {
    const open_device device;
    const device_page hbm(device);
    const host_buffer host(device, 8192);
    const auto result = [&](uint64_t address, uint64_t size, uint64_t offset, uint32_t f = flags) {
      const int fd =
          hlthunk_device_mapped_memory_export_dmabuf_fd(device, address, size, offset, f);
      if (fd >= 0) ::close(fd);
      return fd < 0 ? fd : 0;
    };
    EXPECT_EQ(result(hbm.va, small_page, 0), 0);
    EXPECT_EQ(result(hbm.va, 4096, small_page - 4096), 0);
    EXPECT_EQ(result(hbm.va, 8192, small_page - 4096), -EINVAL) << "past the end";
    EXPECT_EQ(result(hbm.va, UINT64_MAX - 4095, 8192), -EINVAL) << "the sum wraps";
    EXPECT_EQ(result(hbm.va, 100, 0), -EINVAL) << "unaligned size";
    EXPECT_EQ(result(hbm.va, 4096, 100), -EINVAL) << "unaligned offset";
    EXPECT_EQ(result(hbm.va + 100, 4096, 0), -EINVAL) << "unaligned address";
    EXPECT_EQ(result(hbm.va, 0, 0), -EINVAL) << "no size";
    EXPECT_EQ(result(hbm.va + 4096, 4096, 0), -EINVAL) << "inside, but not what map returned";
    EXPECT_EQ(result(hbm.va + small_page, 4096, 0), -EINVAL) << "not mapped";
    EXPECT_EQ(result(host.va(), 4096, 0), -EINVAL) << "host memory";
    EXPECT_EQ(result(hbm.handle, 4096, 0), -EINVAL) << "a handle";
    EXPECT_EQ(result(hbm.va, 4096, 0, O_CLOEXEC), -EINVAL) << "flags";
    EXPECT_EQ(result(hbm.va, 4096, 0, 0), -EINVAL) << "flags";
  });
}

TEST(exporting, the_plain_form_ignores_flags) {
  simulate(small, [] {
    const open_device device;
    const device_page hbm(device);
    const int fd = hlthunk_device_memory_export_dmabuf_fd(device, hbm.va, 4096, 12345);
    ASSERT_GE(fd, 0);
    ::close(fd);
  });
}

TEST(exporting, blocks_unmap_until_the_last_reference_is_gone) {
  simulate(small, [] {
    const open_device device;
    const device_page hbm(device);
    const int first = export_all(hbm), second = export_all(hbm);
    ASSERT_GE(first, 0);
    ASSERT_GE(second, 0);
    EXPECT_TRUE(::fcntl(first, F_GETFD) & FD_CLOEXEC);
    const int copy = ::dup(first);
    ::close(first);
    ::close(second);
    EXPECT_EQ(hlthunk_memory_unmap(device, hbm.va), -EINVAL) << "a dup is left";
    EXPECT_EQ(hlthunk_device_memory_free(device, hbm.handle), -EINVAL);
    ::close(copy);
    EXPECT_EQ(hlthunk_memory_unmap(device, hbm.va), 0);
    EXPECT_EQ(hlthunk_device_memory_free(device, hbm.handle), 0);
  });
}

TEST(exporting, counts_references_in_other_processes) {
  const scratch_folder folder;
  const channel c, done;
  const pid_t exporter = start(folder.path(), small, [&] {
    const open_device device;
    const device_page hbm(device);
    const int fd = export_all(hbm);
    c.send_fd(1, fd);
    ::close(fd);
    done.await(1);
    EXPECT_EQ(hlthunk_memory_unmap(device, hbm.va), -EINVAL) << "the peer has it";
    c.signal(1);
    done.await(1);
    EXPECT_EQ(hlthunk_memory_unmap(device, hbm.va), 0);
  });
  const pid_t peer = start(folder.path(), small, [&] {
    const int fd = c.receive_fd(0);
    EXPECT_GE(fd, 0);
    done.signal(0);
    c.await(0);
    ::close(fd);
    done.signal(0);
  });
  EXPECT_TRUE(succeeded(exporter));
  EXPECT_TRUE(succeeded(peer));
}

TEST(exporting, only_pins_its_own_mapping) {
  simulate(small, [] {
    const open_device device;
    const device_page a(device), b(device);
    const int fd = export_all(a);
    EXPECT_EQ(hlthunk_memory_unmap(device, b.va), 0);
    ::close(fd);
  });
}

TEST(exporting, keeps_the_device_busy_after_close) {
  simulate(small, [] {
    int fd = -1;
    {
      const open_device device("0000:19:00.0");
      const device_page hbm(device);
      fd = export_all(hbm);
    }
    EXPECT_EQ(hlthunk_open(HLTHUNK_DEVICE_GAUDI2, "0000:19:00.0"), -EBUSY);
    ::close(fd);
    const open_device again("0000:19:00.0");
  });
}

TEST(exporting, wants_the_whole_allocation_behind_the_bar) {
  environment half = small;
  half["HLSIM_BAR"] = "32M";
  simulate(half, [] {
    const open_device device;
    const auto mapped = [&](uint64_t size) {
      const uint64_t handle = hlthunk_device_memory_alloc(device, size, 0, true, false);
      return hlthunk_device_memory_map(device, handle, 0);
    };
    const auto result = [&](uint64_t va) {
      const int fd = hlthunk_device_mapped_memory_export_dmabuf_fd(device, va, 4096, 0, flags);
      if (fd >= 0) ::close(fd);
      return fd < 0 ? fd : 0;
    };
    const uint64_t inside = mapped(28 * mib), across = mapped(8 * mib), behind = mapped(4 * mib);
    EXPECT_EQ(result(inside), 0);
    EXPECT_EQ(result(across), -EINVAL) << "its first page is inside";
    EXPECT_EQ(result(behind), -EINVAL);
  });
}

TEST(kernel_6_1, exports_nothing_of_a_device_with_an_mmu) {
  environment old = small;
  old["HLSIM_KERNEL"] = "6.1";
  simulate(old, [] {
    const open_device device;
    const device_page hbm(device);
    EXPECT_EQ(export_all(hbm), -EOPNOTSUPP);
    EXPECT_EQ(hlthunk_device_memory_export_dmabuf_fd(device, hbm.va, 4096, 0), -EOPNOTSUPP);
    EXPECT_EQ(hlthunk_cs_flush_pci_hbw_writes(device), -EINVAL);
  });
}

// The release waits for the export, and whoever opens meanwhile is to try again.
TEST(kernel_6_1, an_export_of_a_gaudi1_delays_its_release) {
  simulate({{"HLSIM_KERNEL", "6.1"}, {"HLSIM_GENERATION", "1"}}, [] {
    constexpr uint64_t first_address = 0x20000000;
    const char* const bus_id = "0000:19:00.0";
    const int device = hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, bus_id);
    const int fd = hlthunk_device_memory_export_dmabuf_fd(device, first_address, 4096, 0);
    ASSERT_GE(fd, 0);
    hlthunk_close(device);
    EXPECT_EQ(hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, bus_id), -EAGAIN);
    ::close(fd);
    const int again = hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, bus_id);
    EXPECT_GE(again, 0);
    hlthunk_close(again);
  });
}

TEST(exporting, the_stand_in_refuses_cpu_mmap) {
  if (::access("/dev/udmabuf", R_OK | W_OK) == 0 && ::access("/dev/fakegaudi", R_OK | W_OK) != 0)
    GTEST_SKIP() << "udmabuf allows mmap";
  simulate(small, [] {
    const open_device device;
    const device_page hbm(device);
    const int fd = export_all(hbm);
    EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0), MAP_FAILED);
    ::close(fd);
  });
}

}  // namespace
}  // namespace hlsim_test
