// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The stand-in for libSynapse: streams, events and copies.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "acquired.hpp"

namespace hlsim_test {
namespace {

uint64_t address_of(const void* at) {
  return reinterpret_cast<uint64_t>(at);
}

std::vector<char> numbered(size_t size) {
  std::vector<char> bytes(size);
  std::iota(bytes.begin(), bytes.end(), '\0');
  return bytes;
}

TEST(synapse_copy, wants_host_memory_that_is_mapped) {
  simulate({}, [] {
    const acquired_device device;
    const uint64_t hbm = device.allocate(8192);
    std::vector<char> host = numbered(8192), back(8192);
    EXPECT_EQ(device.copy(hbm, host.data(), host.size()), synMappingNotFound);
    ASSERT_EQ(synHostMap(device.id, host.size(), host.data()), synSuccess);
    EXPECT_EQ(synHostMap(device.id, host.size(), host.data()), synFail);
    EXPECT_EQ(device.copy(hbm, host.data() + 1, host.size()), synMappingNotFound) << "past its end";
    EXPECT_EQ(device.copy(back.data(), hbm, back.size()), synMappingNotFound);
    ASSERT_EQ(synHostMap(device.id, back.size(), back.data()), synSuccess);
    ASSERT_EQ(device.copy(hbm, host.data(), host.size()), synSuccess);
    ASSERT_EQ(device.copy(back.data(), hbm, back.size()), synSuccess);
    device.synchronise();
    EXPECT_EQ(back, host);
    EXPECT_EQ(synHostUnmap(device.id, host.data() + 1), synInvalidArgument);
    EXPECT_EQ(synHostFree(device.id, host.data(), 0), synInvalidArgument) << "not of synHostMalloc";
    EXPECT_EQ(synHostUnmap(device.id, host.data()), synSuccess);
    EXPECT_EQ(device.copy(hbm, host.data(), host.size()), synMappingNotFound);
  });
}

TEST(synapse_copy, takes_any_size_and_alignment) {
  simulate({}, [] {
    const acquired_device device;
    char* const host = device.allocate_host(1 << 20);
    const uint64_t hbm = device.allocate(1 << 20);
    for (const size_t size : {1, 3, 127, 4097, 300001}) {
      const std::vector<char> bytes = numbered(size);
      std::memcpy(host + 5, bytes.data(), size);
      ASSERT_EQ(device.copy(hbm + 3, host + 5, size), synSuccess);
      ASSERT_EQ(device.copy(host + 400001, hbm + 3, size), synSuccess);
      device.synchronise();
      EXPECT_EQ(std::memcmp(host + 400001, bytes.data(), size), 0) << size;
    }
    EXPECT_EQ(synHostFree(device.id, host, 0), synSuccess);
  });
}

TEST(synapse_copy, goes_within_the_device_and_in_lists) {
  simulate({}, [] {
    const acquired_device device;
    constexpr size_t count = 300, size = 64;  // more than a command buffer holds
    char* const host = device.allocate_host(2 * count * size);
    const uint64_t hbm = device.allocate(count * size), other = device.allocate(count * size);
    const std::vector<char> bytes = numbered(count * size);
    std::memcpy(host, bytes.data(), bytes.size());
    std::vector<uint64_t> from, to, sizes(count, size);
    for (size_t i = 0; i < count; ++i) {
      from.push_back(address_of(host) + i * size);
      to.push_back(hbm + i * size);
    }
    ASSERT_EQ(synMemCopyAsyncMultiple(device.stream, from.data(), sizes.data(), to.data(),
                                      HOST_TO_DRAM, count),
              synSuccess);
    ASSERT_EQ(synMemCopyAsync(device.stream, hbm, count * size, other, DRAM_TO_DRAM), synSuccess);
    ASSERT_EQ(device.copy(host + count * size, other, count * size), synSuccess);
    device.synchronise();
    EXPECT_EQ(std::memcmp(host + count * size, bytes.data(), bytes.size()), 0);
    EXPECT_EQ(synMemCopyAsync(device.stream, hbm, 1, other, static_cast<synDmaDir>(9)),
              synInvalidArgument);
  });
}

TEST(synapse_copy, keeps_order_within_a_stream) {
  simulate({{"HLSIM_REORDER", "all"}}, [] {
    const acquired_device device;
    constexpr int rounds = 200;  // more than are in flight at a time
    auto* const host = reinterpret_cast<int*>(device.allocate_host((rounds + 1) * sizeof(int)));
    const uint64_t hbm = device.allocate(sizeof(int));
    for (int i = 0; i < rounds; ++i) {
      host[i] = i + 1;
      ASSERT_EQ(device.copy(hbm, host + i, sizeof(int)), synSuccess);
    }
    ASSERT_EQ(device.copy(host + rounds, hbm, sizeof(int)), synSuccess);
    device.synchronise();
    EXPECT_EQ(host[rounds], rounds);
  });
}

TEST(synapse_copy, needs_no_queue_of_a_gaudi3) {
  simulate({{"HLSIM_GENERATION", "3"}}, [] {
    const acquired_device device;
    char* const host = device.allocate_host(1 << 20);
    const uint64_t hbm = device.allocate(1 << 20);
    const std::vector<char> bytes = numbered(300001);
    std::memcpy(host, bytes.data(), bytes.size());
    ASSERT_EQ(device.copy(hbm + 7, host, bytes.size()), synSuccess);
    ASSERT_EQ(synMemsetD8Async(hbm + 7, '!', 100, device.stream), synSuccess);
    ASSERT_EQ(device.copy(host + 400001, hbm + 7, bytes.size()), synSuccess);
    device.synchronise();
    EXPECT_EQ(std::string(host + 400001, 100), std::string(100, '!'));
    EXPECT_EQ(std::memcmp(host + 400101, bytes.data() + 100, bytes.size() - 100), 0);
    EXPECT_EQ(hlthunk_get_device_status_info(device.info().fd), HL_DEVICE_STATUS_OPERATIONAL);
  });
}

TEST(channel, takes_packets_where_queues_do_not) {
  simulate({}, [] {
    const open_device fd;
    const device_page hbm(fd);
    const host_buffer host(fd, 4096);
    std::strcpy(host.data(), "through a channel");
    const lin_dma there{18, lin_dma_control, host.va(), hbm.va};
    const lin_dma back{18, lin_dma_control, hbm.va, host.va() + 100};
    uint64_t seq = 0;
    ASSERT_EQ(hlsim_start(fd, 0, &there, sizeof there, &seq), 0);
    ASSERT_EQ(hlsim_start(fd, 0, &back, sizeof back, &seq), 0);
    EXPECT_EQ(wait_status(fd, seq), HL_WAIT_CS_STATUS_COMPLETED);
    EXPECT_STREQ(host.data() + 100, "through a channel");
    EXPECT_EQ(hlsim_start(fd, hlsim_channels, &back, sizeof back, &seq), -EINVAL);
    EXPECT_EQ(hlsim_start(fd, 0, &back, 0, &seq), -EINVAL);
    EXPECT_EQ(hlsim_start(fd, 0, nullptr, 24, &seq), -EINVAL);
  });
  simulate({{"HLSIM_GENERATION", "1"}}, [] {
    const int fd = hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, nullptr);
    const lin_dma any{};
    uint64_t seq = 0;
    EXPECT_EQ(hlsim_start(fd, 0, &any, sizeof any, &seq), -EOPNOTSUPP);
    hlthunk_close(fd);
  });
}

TEST(synapse_copy, fills_with_a_byte) {
  simulate({}, [] {
    const acquired_device device;
    char* const host = device.allocate_host(4096);
    const uint64_t hbm = device.allocate(4096);
    ASSERT_EQ(synMemsetD8Async(hbm, 1, 4096, device.stream), synSuccess);
    ASSERT_EQ(synMemsetD8Async(hbm + 1, 0xA5, 1001, device.stream), synSuccess);
    ASSERT_EQ(device.copy(host, hbm, 4096), synSuccess);
    device.synchronise();
    std::string wanted(4096, '\1');
    std::fill_n(wanted.begin() + 1, 1001, '\xA5');
    EXPECT_EQ(std::string(host, 4096), wanted);
  });
}

TEST(synapse_copy, is_asynchronous) {
  simulate({}, [] {
    const acquired_device device;
    engines_paused engines;
    char* const host = device.allocate_host(4096);
    const uint64_t hbm = device.allocate(4096);
    synEventHandle early = nullptr, late = nullptr;
    ASSERT_EQ(synEventCreate(&early, device.id, 0), synSuccess);
    ASSERT_EQ(synEventCreate(&late, device.id, 0), synSuccess);
    EXPECT_EQ(synEventQuery(late), synSuccess) << "nothing recorded";
    ASSERT_EQ(synEventRecord(early, device.stream), synSuccess);
    ASSERT_EQ(device.copy(hbm, host, 4096), synSuccess);
    ASSERT_EQ(synEventRecord(late, device.stream), synSuccess);
    EXPECT_EQ(synStreamQuery(device.stream), synBusy);
    EXPECT_EQ(synEventQuery(late), synBusy);
    EXPECT_EQ(synEventQuery(early), synSuccess);
    engines.resume();
    EXPECT_EQ(synEventSynchronize(late), synSuccess);
    EXPECT_EQ(synStreamQuery(device.stream), synSuccess);
    EXPECT_EQ(synEventDestroy(late), synSuccess);
    EXPECT_EQ(synEventQuery(late), synInvalidEventHandle);
    EXPECT_EQ(synStreamQuery(nullptr), synInvalidArgument);
  });
}

TEST(synapse_copy, one_stream_can_wait_for_another) {
  simulate({{"HLSIM_LATENCY_US", "20000"}, {"HLSIM_REORDER", "all"}}, [] {
    const acquired_device device;
    char* const host = device.allocate_host(2);
    const uint64_t hbm = device.allocate(1);
    host[0] = 'x';
    synStreamHandle other = nullptr;
    synEventHandle there = nullptr;
    ASSERT_EQ(synStreamCreateGeneric(&other, device.id, 0), synSuccess);
    ASSERT_EQ(synEventCreate(&there, device.id, 0), synSuccess);
    ASSERT_EQ(device.copy(hbm, host, 1), synSuccess);
    ASSERT_EQ(synEventRecord(there, device.stream), synSuccess);
    ASSERT_EQ(synStreamWaitEvent(other, there, 0), synSuccess);
    ASSERT_EQ(synMemCopyAsync(other, hbm, 1, address_of(host + 1), DRAM_TO_HOST), synSuccess);
    ASSERT_EQ(synStreamSynchronize(other), synSuccess);
    EXPECT_EQ(host[1], 'x');
    EXPECT_EQ(synStreamDestroy(other), synSuccess);
    EXPECT_EQ(synStreamDestroy(other), synInvalidArgument);
  });
}

TEST(synapse_copy, tells_of_a_reset) {
  simulate({}, [] {
    const acquired_device device;
    const engines_paused engines;
    char* const host = device.allocate_host(4096);
    const uint64_t hbm = device.allocate(4096);
    ASSERT_EQ(device.copy(hbm, host, 4096), synSuccess);
    hlthunk_err_inject_loss_of_heartbeat(::dup(device.info().fd));
    EXPECT_EQ(synStreamSynchronize(device.stream), synDeviceReset);
    EXPECT_EQ(device.copy(hbm, host, 4096), synDeviceReset);
    EXPECT_EQ(synDeviceSynchronize(device.id), synDeviceReset);
  });
}

}  // namespace
}  // namespace hlsim_test
