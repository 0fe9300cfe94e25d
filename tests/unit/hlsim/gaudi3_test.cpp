// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "sharing.hpp"
#include "simulation.hpp"

// What a simulated Gaudi3 does otherwise than a Gaudi2, and Gaudi2s with fewer HBM stacks:
// reference, sections 2.1 to 2.3, 3.1, 3.2, 4, 5.4 and 9.

namespace hlsim_test {
namespace {

constexpr uint64_t first_va = 0x0201002000000000;
constexpr uint64_t gib = 1024 * mib;
constexpr int flags = O_RDWR | O_CLOEXEC;
const environment gaudi3{{"HLSIM_GENERATION", "3"}};
const environment small3{{"HLSIM_GENERATION", "3"}, {"HLSIM_HBM", "256M"}};

class gaudi {
 public:
  explicit gaudi(const char* bus_id = nullptr) : fd_(hlthunk_open(HLTHUNK_DEVICE_GAUDI3, bus_id)) {
    EXPECT_GE(fd_, 0) << std::strerror(errno);
  }
  ~gaudi() {
    if (fd_ >= 0) hlthunk_close(fd_);
  }
  gaudi(const gaudi&) = delete;
  gaudi& operator=(const gaudi&) = delete;
  operator int() const { return fd_; }

 private:
  int fd_;
};

uint64_t alloc(int device, uint64_t size, uint64_t page_size = 0, bool contiguous = true) {
  errno = 0;
  return hlthunk_device_memory_alloc(device, size, page_size, contiguous, false);
}

uint64_t used(int device) {
  hlthunk_dram_usage_info usage{};
  EXPECT_EQ(hlthunk_get_dram_usage(device, &usage), 0);
  return usage.ctx_dram_mem;
}

int export_of(int device, uint64_t address, uint64_t size, uint64_t offset) {
  return hlthunk_device_mapped_memory_export_dmabuf_fd(device, address, size, offset, flags);
}

TEST(gaudi3, says_what_it_is) {
  simulate(gaudi3, [] {
    const gaudi device;
    EXPECT_EQ(hlthunk_get_device_id_from_fd(device), 0x1060U);
    EXPECT_EQ(hlthunk_get_device_name_from_fd(device), HLTHUNK_DEVICE_GAUDI3);
    EXPECT_STREQ(hlsim_description(), "simulated Gaudi3");
    EXPECT_EQ(hlthunk_get_device_count(HLTHUNK_DEVICE_GAUDI3), 2);
    EXPECT_EQ(hlthunk_get_device_count(HLTHUNK_DEVICE_GAUDI2), 0);
    hlthunk_hw_ip_info info{};
    ASSERT_EQ(hlthunk_get_hw_ip_info(device, &info), 0);
    EXPECT_EQ(info.dram_base_address, first_va);
    EXPECT_EQ(info.dram_size, 127 * gib);
    EXPECT_EQ(info.dram_page_size, 32 * mib);
    EXPECT_EQ(info.device_mem_alloc_default_page_size, 32 * mib);
    EXPECT_EQ(info.sram_size, 0U);
    EXPECT_EQ(info.device_id, 0x1060U);
    EXPECT_EQ(info.server_type, 8);
    EXPECT_STREQ(info.card_name, "sim Gaudi3");
    uint64_t orders = 0;
    EXPECT_EQ(hlthunk_get_dev_memalloc_page_orders(device, &orders), 0);
    EXPECT_EQ(orders, mib | 32 * mib | gib);
  });
}

TEST(gaudi3, allocates_in_pages_of_32_mib_or_of_the_users_choice) {
  simulate(gaudi3, [] {
    const gaudi device;
    const uint64_t by_default = alloc(device, 1);
    EXPECT_NE(by_default, 0U);
    EXPECT_EQ(used(device), 32 * mib);
    EXPECT_NE(alloc(device, mib + 1, mib), 0U);
    EXPECT_EQ(used(device), 34 * mib);
    EXPECT_NE(alloc(device, 1, gib), 0U);
    EXPECT_EQ(used(device), 34 * mib + gib);
    EXPECT_NE(alloc(device, 64 * mib, 64 * mib), 0U) << "any power of two between";
    for (const uint64_t wrong : {3 * mib, mib / 2, 2 * gib, uint64_t{1}}) {
      EXPECT_EQ(alloc(device, 1, wrong), 0U) << wrong;
      EXPECT_EQ(errno, EINVAL) << wrong;
    }
    EXPECT_EQ(alloc(device, 0), 0U);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_EQ(hlthunk_device_memory_free(device, by_default), 0);
    EXPECT_EQ(used(device), 66 * mib + gib);
  });
}

TEST(gaudi3, all_of_its_memory_can_be_had) {
  simulate(gaudi3, [] {
    const gaudi device;
    const uint64_t all = alloc(device, 127 * gib);
    EXPECT_NE(all, 0U);
    EXPECT_EQ(alloc(device, 1, mib), 0U);
    EXPECT_EQ(errno, ENOMEM);
    EXPECT_EQ(hlthunk_device_memory_map(device, all, 0), first_va);
    EXPECT_EQ(hlthunk_memory_unmap(device, first_va), 0);
    EXPECT_EQ(hlthunk_device_memory_free(device, all), 0);
    EXPECT_EQ(used(device), 0U);
  });
}

TEST(gaudi3, a_chosen_page_needs_that_much_in_one_piece) {
  simulate(small3, [] {
    const gaudi device;
    std::vector<uint64_t> handles;
    for (int i = 0; i < 256; ++i) handles.push_back(alloc(device, mib, mib));
    EXPECT_EQ(alloc(device, mib, mib), 0U);
    EXPECT_EQ(errno, ENOMEM);
    for (int i = 0; i < 256; i += 2) hlthunk_device_memory_free(device, handles[i]);
    EXPECT_EQ(alloc(device, 32 * mib, 0, false), 0U) << "no 32 MiB are together";
    EXPECT_EQ(errno, ENOMEM);
    EXPECT_NE(alloc(device, 32 * mib, mib, false), 0U);
    EXPECT_EQ(alloc(device, 2 * mib, mib, true), 0U) << "nor 2 MiB";
    EXPECT_EQ(errno, ENOMEM);
  });
}

TEST(gaudi3, maps_at_multiples_of_the_page) {
  simulate(gaudi3, [] {
    const gaudi device;
    const uint64_t little = alloc(device, mib, mib), plain = alloc(device, 1),
                   big = alloc(device, 1, gib);
    EXPECT_EQ(hlthunk_device_memory_map(device, little, 0), first_va);
    EXPECT_EQ(hlthunk_device_memory_map(device, plain, 0), first_va + 32 * mib);
    EXPECT_EQ(hlthunk_device_memory_map(device, big, 0), first_va + gib);
    EXPECT_EQ(hlthunk_device_memory_map(device, little, 0), first_va + mib) << "the smallest gap";
    EXPECT_EQ(hlthunk_device_memory_map(device, plain, first_va + 8 * gib), first_va + 8 * gib);
    EXPECT_NE(hlthunk_device_memory_map(device, plain, first_va + 9 * gib + mib),
              first_va + 9 * gib + mib)
        << "a hint between pages";
    constexpr uint64_t arc = 0x0201E00000000000;
    EXPECT_EQ(hlthunk_device_memory_map(device, plain, arc), arc) << "by hint only";
    EXPECT_EQ(hlthunk_device_memory_free(device, plain), -EINVAL) << "still mapped";
    EXPECT_EQ(hlthunk_memory_unmap(device, first_va + 4096), -EINVAL);
    EXPECT_EQ(hlthunk_memory_unmap(device, first_va), 0);
  });
}

TEST(gaudi3, host_addresses_have_bit_55_for_huge_pages) {
  simulate(gaudi3, [] {
    const gaudi device;
    const host_buffer plain(device, 8192);
    EXPECT_EQ(plain.va(), 0xFF70000000000000U);
    auto* const room = static_cast<char*>(
        ::mmap(nullptr, 6 * mib, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    auto* const huge = room + (2 * mib - reinterpret_cast<uint64_t>(room) % (2 * mib));
    EXPECT_EQ(hlthunk_host_memory_map(device, huge, 0, 4 * mib), 0xFFF0000000000000U);
    const uint64_t part = hlthunk_host_memory_map(device, huge + 100, 0, 2 * mib);
    EXPECT_EQ(part >> 52, 0xFF7U) << "not whole huge pages";
    EXPECT_EQ(part % 4096, 100U);
    EXPECT_EQ(hlthunk_memory_unmap(device, 0xFFF0000000000000U), 0);
    EXPECT_EQ(hlthunk_memory_unmap(device, part - 100), -EINVAL);
    EXPECT_EQ(hlthunk_memory_unmap(device, part), 0);
    ::munmap(room, 6 * mib);
  });
}

TEST(gaudi3, exports_by_the_mapped_form_and_checks_it) {
  simulate(small3, [] {
    const gaudi device;
    const uint64_t handle = alloc(device, 1);
    const uint64_t va = hlthunk_device_memory_map(device, handle, 0);
    const host_buffer host(device, 8192);
    const auto result = [&](uint64_t address, uint64_t size, uint64_t offset) {
      const int fd = export_of(device, address, size, offset);
      if (fd >= 0) ::close(fd);
      return fd < 0 ? fd : 0;
    };
    EXPECT_EQ(result(va, 32 * mib, 0), 0) << "the rounded size";
    EXPECT_EQ(result(va, 4096, 32 * mib - 4096), 0);
    EXPECT_EQ(result(va, 8192, 32 * mib - 4096), -EINVAL) << "past the end";
    EXPECT_EQ(result(va, UINT64_MAX - 4095, 8192), -EINVAL) << "the sum wraps";
    EXPECT_EQ(result(va, 100, 0), -EINVAL) << "unaligned size";
    EXPECT_EQ(result(va, 4096, 100), -EINVAL) << "unaligned offset";
    EXPECT_EQ(result(va + 100, 4096, 0), -EINVAL) << "unaligned address";
    EXPECT_EQ(result(va, 0, 0), -EINVAL) << "no size";
    EXPECT_EQ(result(va + 4096, 4096, 0), -EINVAL) << "inside, but not what map returned";
    EXPECT_EQ(result(host.va(), 4096, 0), -EINVAL) << "host memory";
    EXPECT_EQ(result(handle, 4096, 0), -EINVAL) << "a handle";
    EXPECT_EQ(hlthunk_device_mapped_memory_export_dmabuf_fd(device, va, 4096, 0, O_RDWR), -EINVAL);
    const int held = export_of(device, va, 32 * mib, 0);
    ASSERT_GE(held, 0);
    EXPECT_EQ(hlthunk_memory_unmap(device, va), -EINVAL) << "exported";
    ::close(held);
    EXPECT_EQ(hlthunk_memory_unmap(device, va), 0);
    EXPECT_EQ(hlthunk_device_memory_free(device, handle), 0);
  });
}

TEST(gaudi3, is_in_reset_after_its_release) {
  simulate({{"HLSIM_GENERATION", "3"}, {"HLSIM_RELEASE_MS", "60000"}}, [] {
    { const gaudi device; }
    EXPECT_EQ(hlthunk_open(HLTHUNK_DEVICE_GAUDI3, "0000:19:00.0"), -EAGAIN);
  });
}

TEST(gaudi3, no_queue_takes_a_copy) {
  simulate(small3, [] {
    const gaudi device;
    const uint64_t va = hlthunk_device_memory_map(device, alloc(device, 1), 0);
    const host_buffer host(device, 4096);
    command c(device, {{4096, lin_dma_control, host.va(), va}});
    for (uint32_t queue = 0; queue < 300; ++queue) {
      uint64_t seq = 0;
      EXPECT_EQ(c.submit(queue, seq), -EINVAL) << queue;
    }
    uint32_t status = 0;
    EXPECT_EQ(hlthunk_wait_for_cs(device, 1, 0, &status), -EINVAL) << "nothing was submitted";
    EXPECT_EQ(hlthunk_cs_flush_pci_hbw_writes(device), -EOPNOTSUPP);
  });
}

TEST(gaudi3, a_folder_is_of_one_kind_at_a_time) {
  const scratch_folder folder;
  const auto first_address = [](uint64_t expected) {
    return [=] {
      const int fd = hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, "0000:19:00.0");
      hlthunk_hw_ip_info info{};
      EXPECT_EQ(hlthunk_get_hw_ip_info(fd, &info), 0);
      EXPECT_EQ(info.dram_base_address, expected);
    };
  };
  EXPECT_TRUE(succeeded(start(folder.path(), {}, first_address(0x1001001800000000))));
  EXPECT_TRUE(succeeded(start(folder.path(), gaudi3, first_address(first_va))));
  EXPECT_TRUE(succeeded(
      start(folder.path(), {{"HLSIM_HBM_STACKS", "5"}}, first_address(0x1001001400000000))));
  EXPECT_TRUE(succeeded(start(folder.path(), {}, first_address(0x1001001800000000))));
}

TEST(binned_gaudi2, has_another_page_size_and_first_address) {
  simulate({{"HLSIM_HBM_STACKS", "5"}}, [] {
    const open_device device;
    hlthunk_hw_ip_info info{};
    ASSERT_EQ(hlthunk_get_hw_ip_info(device, &info), 0);
    EXPECT_EQ(info.dram_page_size, 640 * mib);
    EXPECT_EQ(info.device_mem_alloc_default_page_size, 640 * mib);
    EXPECT_EQ(info.dram_size, 127 * 640 * mib) << "80 GiB less a page of the driver's";
    EXPECT_EQ(info.dram_base_address, 0x1001001400000000U);
    EXPECT_EQ(info.device_id, 0x1020U);
    const device_page hbm(device);
    EXPECT_EQ(hbm.va, info.dram_base_address);
    EXPECT_EQ(used(device), 640 * mib);
    EXPECT_EQ(hlthunk_device_memory_map(device, hbm.handle, 0), hbm.va + 640 * mib);
    EXPECT_EQ(alloc(device, 127 * 640 * mib), 0U);
    EXPECT_EQ(errno, ENOMEM);
    EXPECT_NE(alloc(device, 126 * 640 * mib), 0U);
  });
}

TEST(binned_gaudi2, copies_as_a_whole_one_does) {
  simulate({{"HLSIM_HBM_STACKS", "5"}}, [] {
    const open_device device;
    const device_page hbm(device);
    const host_buffer in(device, 8192), out(device, 8192);
    std::memset(in.data(), 7, in.size());
    copy(device, in.va(), hbm.va + 640 * mib - 8192, 8192);
    copy(device, hbm.va + 640 * mib - 8192, out.va(), 8192, 4);
    EXPECT_EQ(std::memcmp(in.data(), out.data(), in.size()), 0);
  });
}

TEST(settings, an_unknown_number_of_stacks_is_the_default) {
  for (const environment& env : {environment{{"HLSIM_HBM_STACKS", "4"}},
                                 environment{{"HLSIM_GENERATION", "1"}, {"HLSIM_HBM_STACKS", "5"}}})
    simulate(env, [] {
      const int fd = hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, nullptr);
      hlthunk_hw_ip_info info{};
      EXPECT_EQ(hlthunk_get_hw_ip_info(fd, &info), 0);
      EXPECT_NE(info.dram_page_size, 640 * mib);
    });
}

}  // namespace
}  // namespace hlsim_test
