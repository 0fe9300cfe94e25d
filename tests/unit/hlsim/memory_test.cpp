// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <csignal>

#include "simulation.hpp"

// Device memory and host maps: reference, sections 2.2, 2.3 and 4.

namespace hlsim_test {
namespace {

constexpr uint64_t first_va = 0x1001001800000000;
const environment ten_pages{{"HLSIM_HBM", "7680M"}};

uint64_t used(int device) {
  hlthunk_dram_usage_info usage{};
  EXPECT_EQ(hlthunk_get_dram_usage(device, &usage), 0);
  return usage.ctx_dram_mem;
}

uint64_t alloc(int device, uint64_t size, bool contiguous = false) {
  errno = 0;
  return hlthunk_device_memory_alloc(device, size, 0, contiguous, false);
}

TEST(allocation, is_rounded_to_pages_and_counted) {
  simulate({}, [] {
    const open_device device;
    const uint64_t a = alloc(device, 1), b = alloc(device, page + 1);
    EXPECT_EQ(a, 1U);
    EXPECT_EQ(b, 2U);
    EXPECT_EQ(used(device), 3 * page);
    EXPECT_EQ(hlthunk_device_memory_free(device, b), 0);
    EXPECT_EQ(used(device), page);
  });
}

TEST(allocation, fails_as_the_driver_does) {
  simulate(ten_pages, [] {
    const open_device device;
    EXPECT_EQ(alloc(device, 0), 0U);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_EQ(alloc(device, 10 * page + 1), 0U);
    EXPECT_EQ(errno, ENOMEM);
    EXPECT_NE(alloc(device, 10 * page), 0U);
    EXPECT_EQ(alloc(device, 1), 0U);
    EXPECT_EQ(errno, ENOMEM);
    EXPECT_EQ(hlthunk_device_memory_free(device, 77), -EINVAL);
    EXPECT_EQ(hlthunk_device_memory_free(device, 0), -EINVAL);
  });
}

TEST(allocation, contiguous_needs_one_block_and_scattered_does_not) {
  simulate(ten_pages, [] {
    const open_device device;
    std::vector<uint64_t> handles;
    for (int i = 0; i < 10; ++i) handles.push_back(alloc(device, page));
    for (int i = 0; i < 10; i += 2) hlthunk_device_memory_free(device, handles[i]);
    EXPECT_EQ(alloc(device, 2 * page, true), 0U);
    EXPECT_EQ(errno, ENOMEM);
    EXPECT_NE(alloc(device, 2 * page, false), 0U);
  });
}

TEST(allocation, is_small_when_hbm_is) {
  simulate({{"HLSIM_HBM", "64M"}, {"HLSIM_HBM_PAGE", "4M"}}, [] {
    const open_device device;
    hlthunk_hw_ip_info info{};
    ASSERT_EQ(hlthunk_get_hw_ip_info(device, &info), 0);
    EXPECT_EQ(info.dram_size, 64 * mib);
    EXPECT_EQ(info.dram_page_size, 4 * mib);
    for (int i = 0; i < 16; ++i) EXPECT_NE(alloc(device, 1), 0U);
    EXPECT_EQ(alloc(device, 1), 0U);
  });
}

TEST(mapping, gives_page_aligned_addresses_from_the_true_range) {
  simulate({}, [] {
    const open_device device;
    const uint64_t a = alloc(device, 1), b = alloc(device, 2 * page);
    EXPECT_EQ(hlthunk_device_memory_map(device, a, 0), first_va);
    EXPECT_EQ(hlthunk_device_memory_map(device, b, 0), first_va + page);
    const uint64_t again = hlthunk_device_memory_map(device, a, 0);
    EXPECT_EQ(again, first_va + 3 * page);
    EXPECT_EQ(hlthunk_device_memory_free(device, a), -EINVAL) << "still mapped";
    EXPECT_EQ(hlthunk_memory_unmap(device, first_va + 4096), -EINVAL);
    EXPECT_EQ(hlthunk_memory_unmap(device, first_va), 0);
    EXPECT_EQ(hlthunk_memory_unmap(device, first_va), -EINVAL);
    EXPECT_EQ(hlthunk_device_memory_free(device, a), -EINVAL) << "mapped once more";
    EXPECT_EQ(hlthunk_memory_unmap(device, again), 0);
    EXPECT_EQ(hlthunk_device_memory_free(device, a), 0);
    errno = 0;
    EXPECT_EQ(hlthunk_device_memory_map(device, a, 0), 0U);
    EXPECT_EQ(errno, EINVAL);
  });
}

TEST(mapping, takes_the_smallest_gap_and_merges_neighbours) {
  simulate({}, [] {
    const open_device device;
    const uint64_t one = alloc(device, page), two = alloc(device, 2 * page);
    std::vector<uint64_t> va;
    for (const uint64_t h : {two, one, one, one, two})
      va.push_back(hlthunk_device_memory_map(device, h, 0));
    hlthunk_memory_unmap(device, va[0]);
    hlthunk_memory_unmap(device, va[3]);
    EXPECT_EQ(hlthunk_device_memory_map(device, one, 0), va[3]) << "the smaller gap";
    hlthunk_memory_unmap(device, va[1]);
    hlthunk_memory_unmap(device, va[2]);
    const uint64_t four = alloc(device, 4 * page);
    EXPECT_EQ(hlthunk_device_memory_map(device, four, 0), va[0]) << "three gaps made one";
  });
}

TEST(mapping, follows_good_hints_and_ignores_others) {
  simulate({}, [] {
    const open_device device;
    const uint64_t h = alloc(device, page);
    const uint64_t good = 0x1001000000000000 + 9000 * page;
    EXPECT_EQ(hlthunk_device_memory_map(device, h, good), good);
    EXPECT_NE(hlthunk_device_memory_map(device, h, good), good) << "occupied";
    EXPECT_NE(hlthunk_device_memory_map(device, h, good + page + 4096), good + page + 4096);
    EXPECT_NE(hlthunk_device_memory_map(device, h, 4096), 0U) << "out of range";
  });
}

TEST(mapping, is_at_addresses_no_cpu_access_survives) {
  simulate({}, [] {
    const open_device device;
    const device_page hbm(device);
    const pid_t child = ::fork();
    if (child == 0) {
      // The sanitizers' handlers would turn the signal into an exit with their report.
      ::signal(SIGSEGV, SIG_DFL);
      ::signal(SIGBUS, SIG_DFL);
      *reinterpret_cast<volatile char*>(hbm.va) = 1;
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status));
  });
}

TEST(host_map, keeps_the_offset_and_the_rules) {
  simulate({}, [] {
    const open_device device;
    auto* const host = static_cast<char*>(
        ::mmap(nullptr, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    const uint64_t va = hlthunk_host_memory_map(device, host + 100, 0, 5000);
    EXPECT_EQ(va % 4096, 100U);
    EXPECT_EQ(va - 100, 0xFFF0000000000000U);
    const uint64_t again = hlthunk_host_memory_map(device, host + 100, 0, 5000);
    EXPECT_NE(again, va);
    EXPECT_EQ(hlthunk_memory_unmap(device, va - 100), -EINVAL);
    EXPECT_EQ(hlthunk_memory_unmap(device, va), 0);
    EXPECT_EQ(hlthunk_memory_unmap(device, again), 0);

    errno = 0;
    EXPECT_EQ(hlthunk_host_memory_map(device, host, 0, 0), 0U);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_EQ(hlthunk_host_memory_map(device, host, 0, UINT64_MAX), 0U);
    EXPECT_EQ(errno, EINVAL);
    ::munmap(host + 8192, 4096);
    EXPECT_EQ(hlthunk_host_memory_map(device, host, 0, 16384), 0U) << "a hole in the range";
    EXPECT_EQ(errno, EFAULT);
    ::mprotect(host, 4096, PROT_READ);
    errno = 0;
    EXPECT_EQ(hlthunk_host_memory_map(device, host, 0, 4096), 0U) << "read-only";
    EXPECT_EQ(errno, EFAULT);
    const device_page hbm(device);
    auto* const device_address = reinterpret_cast<void*>(hbm.va);
    EXPECT_EQ(hlthunk_host_memory_map(device, device_address, 0, 4096), 0U) << "not host memory";
  });
}

TEST(host_map, forced_hint_fails_where_another_is_moved) {
  simulate({}, [] {
    const open_device device;
    const host_buffer b(device, 4096);
    constexpr uint64_t hint = 0xFFF0000100000000;
    EXPECT_EQ(hlthunk_host_memory_map_flags(device, b.data(), hint, 4096, HL_MEM_FORCE_HINT), hint);
    EXPECT_EQ(hlthunk_host_memory_map_flags(device, b.data(), hint, 4096, HL_MEM_FORCE_HINT), 0U);
    EXPECT_NE(hlthunk_host_memory_map_flags(device, b.data(), hint, 4096, 0), 0U);
  });
}

TEST(kernel_command_buffer, is_mmapped_through_the_device) {
  simulate({}, [] {
    const open_device device;
    uint64_t a = 0, b = 0;
    ASSERT_EQ(hlthunk_request_command_buffer(device, 5000, &a), 0);
    ASSERT_EQ(hlthunk_request_command_buffer(device, 77, &b), 0);
    EXPECT_EQ(hlthunk_request_command_buffer(device, 0x200000, &b), -EINVAL);
    auto* const at = static_cast<char*>(
        ::mmap(nullptr, 5000, PROT_READ | PROT_WRITE, MAP_SHARED, device, static_cast<off_t>(a)));
    ASSERT_NE(at, MAP_FAILED);
    std::memset(at, 1, 5000);
    ::munmap(at, 5000);
    EXPECT_EQ(hlthunk_destroy_command_buffer(device, a), 0);
    EXPECT_EQ(hlthunk_destroy_command_buffer(device, 1), -EINVAL);
  });
}

}  // namespace
}  // namespace hlsim_test
