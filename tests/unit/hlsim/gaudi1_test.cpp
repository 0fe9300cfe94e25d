// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <array>
#include <numeric>

#include "sharing.hpp"
#include "simulation.hpp"

// What a Gaudi1 does otherwise than a Gaudi2: reference, sections 2.1, 2.2, 2.4, 3.1 to 3.3
// and 5.2.

namespace hlsim_test {
namespace {

const environment gaudi1{{"HLSIM_GENERATION", "1"}};
constexpr uint64_t dram = 0x20000000;
constexpr uint64_t dram_bytes = 0x800000000 - dram;
constexpr uint32_t copy_control = 9U << 24 | 1U << 31 | 1U << 30 | 1U << 3;
constexpr uint32_t nop_control = 10U << 24 | 1U << 30;

/// Any Gaudi of the simulation, whose name the tests look at themselves.
class gaudi {
 public:
  gaudi() : fd_(hlthunk_open(HLTHUNK_DEVICE_GAUDI, nullptr)) {
    EXPECT_GE(fd_, 0) << std::strerror(errno);
  }
  ~gaudi() { hlthunk_close(fd_); }
  gaudi(const gaudi&) = delete;
  gaudi& operator=(const gaudi&) = delete;
  operator int() const { return fd_; }

 private:
  int fd_;
};

/// A command buffer of the driver's, mapped here.
class kernel_command {
 public:
  kernel_command(int device, uint32_t size) : device_(device), size_(size) {
    EXPECT_EQ(hlthunk_request_command_buffer(device, size, &handle_), 0);
    void* const at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, device,
                            static_cast<off_t>(handle_));
    EXPECT_NE(at, MAP_FAILED) << std::strerror(errno);
    data_ = static_cast<char*>(at);
  }
  ~kernel_command() {
    ::munmap(data_, size_);
    hlthunk_destroy_command_buffer(device_, handle_);
  }
  kernel_command(const kernel_command&) = delete;
  kernel_command& operator=(const kernel_command&) = delete;

  [[nodiscard]] uint64_t handle() const { return handle_; }
  template <class Packet>
  void write(const Packet& packet) {
    std::memcpy(data_, &packet, sizeof packet);
  }

 private:
  int device_;
  uint32_t size_;
  uint64_t handle_ = 0;
  char* data_ = nullptr;
};

hl_cs_chunk chunk_of(uint64_t handle, uint32_t size, uint32_t queue) {
  hl_cs_chunk chunk{};
  chunk.cb_handle = handle;
  chunk.cb_size = size;
  chunk.queue_index = queue;
  return chunk;
}

int submit(int device, std::vector<hl_cs_chunk> chunks, uint64_t& seq) {
  hlthunk_cs_in in{};
  in.chunks_execute = chunks.data();
  in.num_chunks_execute = static_cast<uint32_t>(chunks.size());
  hlthunk_cs_out out{};
  const int rc = hlthunk_command_submission(device, &in, &out);
  seq = out.seq;
  return rc;
}

/// What the driver says to one packet of `bytes` bytes with that control word.
int verdict(int device, uint32_t control, uint32_t bytes, uint32_t queue = 0) {
  kernel_command cb(device, 4096);
  cb.write(std::array<uint32_t, 2>{0, control});
  uint64_t seq = 0;
  return submit(device, {chunk_of(cb.handle(), bytes, queue)}, seq);
}

void copy_by_kernel_cb(int device, uint64_t source, uint64_t destination, uint32_t size,
                       uint32_t queue) {
  kernel_command cb(device, 4096);
  cb.write(lin_dma{size, copy_control, source, destination});
  uint64_t seq = 0;
  ASSERT_EQ(submit(device, {chunk_of(cb.handle(), sizeof(lin_dma), queue)}, seq), 0);
  EXPECT_EQ(wait_status(device, seq), HL_WAIT_CS_STATUS_COMPLETED);
}

TEST(gaudi1, says_what_it_is) {
  simulate(gaudi1, [] {
    const gaudi device;
    EXPECT_EQ(hlthunk_get_device_id_from_fd(device), 0x1000U);
    EXPECT_EQ(hlthunk_get_device_name_from_fd(device), HLTHUNK_DEVICE_GAUDI);
    EXPECT_STREQ(hlsim_description(), "simulated Gaudi1");
    EXPECT_EQ(hlthunk_get_device_count(HLTHUNK_DEVICE_GAUDI), 2);
    EXPECT_EQ(hlthunk_get_device_count(HLTHUNK_DEVICE_GAUDI2), 0);
    hlthunk_hw_ip_info info{};
    ASSERT_EQ(hlthunk_get_hw_ip_info(device, &info), 0);
    EXPECT_EQ(info.dram_base_address, dram);
    EXPECT_EQ(info.dram_size, dram_bytes);
    EXPECT_EQ(info.dram_page_size, 2 * mib);
    EXPECT_EQ(info.sram_base_address, 0x7FF0000000U);
    EXPECT_EQ(info.sram_size, 20 * mib);
    EXPECT_EQ(info.device_id, 0x1000U);
    EXPECT_EQ(info.server_type, 1);
  });
}

TEST(gaudi1, a_folder_is_of_one_generation_at_a_time) {
  const scratch_folder folder;
  const auto id = [](uint32_t expected) {
    return [=] {
      const int fd = hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, "0000:19:00.0");
      EXPECT_EQ(hlthunk_get_device_id_from_fd(fd), expected);
    };
  };
  EXPECT_TRUE(succeeded(start(folder.path(), {}, id(0x1020))));
  EXPECT_TRUE(succeeded(start(folder.path(), gaudi1, id(0x1000))));
  EXPECT_TRUE(succeeded(start(folder.path(), {}, id(0x1020))));
  const channel opened, done;
  const pid_t first = start(folder.path(), gaudi1, [&] {
    const gaudi device;
    opened.signal(1);
    done.await(1);
  });
  opened.await(0);
  EXPECT_TRUE(succeeded(start(folder.path(), {}, [] {
    EXPECT_EQ(hlthunk_open(HLTHUNK_DEVICE_GAUDI2, "0000:19:00.0"), -EBUSY);
  })));
  done.signal(0);
  EXPECT_TRUE(succeeded(first));
}

TEST(gaudi1, the_driver_only_keeps_accounts_of_memory) {
  simulate(gaudi1, [] {
    const gaudi device;
    errno = 0;
    EXPECT_EQ(hlthunk_device_memory_alloc(device, 64 * mib, 0, true, false), 0U);
    EXPECT_EQ(errno, 0) << "success looks as failure does";
    hlthunk_dram_usage_info usage{};
    ASSERT_EQ(hlthunk_get_dram_usage(device, &usage), 0);
    EXPECT_EQ(usage.ctx_dram_mem, 64 * mib);
    EXPECT_EQ(usage.dram_free_mem, dram_bytes - 64 * mib);
    EXPECT_EQ(hlthunk_device_memory_alloc(device, 0, 0, true, false), 0U);
    EXPECT_EQ(errno, EINVAL);
    errno = 0;
    EXPECT_EQ(hlthunk_device_memory_map(device, 0, 0), 0U);
    EXPECT_EQ(errno, EINVAL) << "there is no handle to map";
    EXPECT_EQ(hlthunk_device_memory_free(device, 64 * mib), 0);
    ASSERT_EQ(hlthunk_get_dram_usage(device, &usage), 0);
    EXPECT_EQ(usage.ctx_dram_mem, 0U);
  });
}

TEST(gaudi1, is_not_in_reset_after_its_release) {
  simulate({{"HLSIM_GENERATION", "1"}, {"HLSIM_RELEASE_MS", "60000"}}, [] {
    { const gaudi device; }
    { const gaudi again; }
  });
}

TEST(gaudi1, exports_by_physical_address_and_checks_it) {
  simulate({{"HLSIM_GENERATION", "1"}, {"HLSIM_HBM", "64M"}}, [] {
    const gaudi device;
    const host_buffer host(device, 8192);
    const uint64_t end = dram + 64 * mib;
    const auto result = [&](uint64_t address, uint64_t size) {
      const int fd = hlthunk_device_memory_export_dmabuf_fd(device, address, size, 0);
      if (fd >= 0) ::close(fd);
      return fd < 0 ? fd : 0;
    };
    EXPECT_EQ(result(dram, 64 * mib), 0);
    EXPECT_EQ(result(dram + 4096, 4096), 0) << "inside, nothing of it was allocated";
    EXPECT_EQ(result(end - 4096, 4096), 0);
    EXPECT_EQ(result(end - 4096, 8192), -EINVAL) << "past the end";
    EXPECT_EQ(result(end, 4096), -EINVAL);
    EXPECT_EQ(result(dram - 4096, 8192), -EINVAL) << "in the driver's part";
    EXPECT_EQ(result(0, 4096), -EINVAL) << "in the driver's part";
    EXPECT_EQ(result(dram + 8, 4096), -EINVAL) << "unaligned address";
    EXPECT_EQ(result(dram, 100), -EINVAL) << "unaligned size";
    EXPECT_EQ(result(dram, 0), -EINVAL) << "no size";
    EXPECT_EQ(result(dram, UINT64_MAX - 4095), -EINVAL) << "the sum wraps";
    EXPECT_EQ(result(0x7FF0000000, 4096), -EINVAL) << "SRAM";
    EXPECT_EQ(result(host.va(), 4096), -EINVAL) << "host memory";
    constexpr uint32_t flags = O_RDWR | O_CLOEXEC;
    EXPECT_EQ(hlthunk_device_mapped_memory_export_dmabuf_fd(device, dram, 4096, 4096, flags),
              -EINVAL)
        << "an offset";
  });
}

TEST(gaudi1, an_export_keeps_the_device_busy) {
  simulate({{"HLSIM_GENERATION", "1"}, {"HLSIM_HBM", "64M"}}, [] {
    int exported = -1;
    {
      const gaudi device;
      exported = hlthunk_device_memory_export_dmabuf_fd(device, dram, 4096, 0);
      ASSERT_GE(exported, 0);
    }
    EXPECT_EQ(hlthunk_open(HLTHUNK_DEVICE_GAUDI, "0000:19:00.0"), -EBUSY);
    ::close(exported);
    const gaudi again;
  });
}

TEST(gaudi1, copies_both_ways_by_command_buffers_of_the_drivers) {
  simulate(gaudi1, [] {
    const gaudi device;
    const host_buffer in(device, 3 * mib), out(device, 3 * mib);
    EXPECT_GE(in.va(), 0x1000000000000U);
    std::iota(in.data(), in.data() + in.size(), static_cast<char>(5));
    const uint64_t a = dram + 4093, b = dram + dram_bytes - 3 * mib;
    copy_by_kernel_cb(device, in.va() + 5, a, 2 * mib + 11, 0);
    copy_by_kernel_cb(device, a, b, 2 * mib + 11, 5);
    copy_by_kernel_cb(device, b, out.va() + 1, 2 * mib + 11, 7);
    EXPECT_EQ(std::memcmp(in.data() + 5, out.data() + 1, 2 * mib + 11), 0);
    EXPECT_EQ(out.data()[0], 0) << "a byte before the range was written";
    EXPECT_EQ(out.data()[2 * mib + 12], 0) << "a byte behind the range was written";
  });
}

TEST(gaudi1, the_driver_copies_the_command_buffer_at_submission) {
  simulate(gaudi1, [] {
    const gaudi device;
    engines_paused engines;
    const host_buffer in(device, 8192), out(device, 4096);
    std::memset(in.data(), 1, 4096);
    std::memset(in.data() + 4096, 2, 4096);
    kernel_command cb(device, 77);
    cb.write(lin_dma{4096, copy_control, in.va(), dram});
    uint64_t seq = 0;
    ASSERT_EQ(submit(device, {chunk_of(cb.handle(), sizeof(lin_dma), 0)}, seq), 0);
    cb.write(lin_dma{4096, copy_control, in.va() + 4096, dram});
    engines.resume();
    EXPECT_EQ(wait_status(device, seq), HL_WAIT_CS_STATUS_COMPLETED);
    copy_by_kernel_cb(device, dram, out.va(), 4096, 4);
    EXPECT_EQ(out.data()[17], 1);
  });
}

TEST(gaudi1, only_takes_command_buffers_of_the_drivers) {
  simulate(gaudi1, [] {
    const gaudi device;
    const host_buffer own(device, 4096);
    const std::array<uint32_t, 2> nop{0, nop_control};
    std::memcpy(own.data(), nop.data(), sizeof nop);
    uint64_t seq = 0;
    hl_cs_chunk user = chunk_of(own.va(), 8, 0);
    EXPECT_EQ(submit(device, {user}, seq), -EINVAL);
    user.cs_chunk_flags = HL_CS_CHUNK_FLAGS_USER_ALLOC_CB;
    EXPECT_EQ(submit(device, {user}, seq), -EINVAL) << "the flag changes nothing";

    kernel_command cb(device, 4096);
    cb.write(nop);
    hl_cs_chunk good = chunk_of(cb.handle(), 8, 0);
    EXPECT_EQ(submit(device, {good}, seq), 0);
    EXPECT_EQ(wait_status(device, seq), HL_WAIT_CS_STATUS_COMPLETED);
    good.cs_chunk_flags = HL_CS_CHUNK_FLAGS_USER_ALLOC_CB;
    EXPECT_EQ(submit(device, {good}, seq), 0) << "the flag changes nothing";
    EXPECT_EQ(submit(device, {chunk_of(cb.handle() + 4096, 8, 0)}, seq), -EINVAL) << "handle";
    EXPECT_EQ(submit(device, {chunk_of(cb.handle(), 4, 0)}, seq), -EINVAL) << "no packet";
    EXPECT_EQ(submit(device, {chunk_of(cb.handle(), 4104, 0)}, seq), -EINVAL) << "too long";
    EXPECT_EQ(submit(device, {chunk_of(cb.handle(), 8, 8)}, seq), -EINVAL) << "the CPU's queue";
    EXPECT_EQ(submit(device, {chunk_of(cb.handle(), 8, 33)}, seq), -EINVAL) << "no queue";
  });
}

TEST(gaudi1, the_driver_checks_the_packets) {
  simulate(gaudi1, [] {
    const gaudi device;
    for (const uint32_t forbidden : {2U, 5U, 7U, 11U, 15U})
      EXPECT_EQ(verdict(device, forbidden << 24 | 1U << 30, 16), -EPERM) << forbidden;
    EXPECT_EQ(verdict(device, 0x1fU << 24, 8), -EINVAL) << "no such opcode";
    EXPECT_EQ(verdict(device, copy_control, 16), -EINVAL) << "cut short";
    EXPECT_EQ(verdict(device, nop_control, 8), 0);
  });
}

TEST(gaudi1, a_tensor_copy_by_mistake_resets_the_device) {
  simulate(gaudi1, [] {
    const gaudi device;
    const host_buffer in(device, 4096);
    kernel_command cb(device, 4096);
    cb.write(lin_dma{4096, copy_control & ~(1U << 3), in.va(), dram});
    uint64_t seq = 0;
    ASSERT_EQ(submit(device, {chunk_of(cb.handle(), sizeof(lin_dma), 0)}, seq), 0);
    uint32_t status = 0;
    EXPECT_EQ(hlthunk_wait_for_cs(device, seq, long_enough_us, &status), -EIO);
    EXPECT_EQ(hlthunk_get_device_status_info(device), HL_DEVICE_STATUS_IN_RESET);
  });
}

TEST(gaudi1, an_inner_queue_reads_its_buffer_from_device_memory_and_needs_an_outer_one) {
  simulate(gaudi1, [] {
    const gaudi device;
    const host_buffer in(device, 4096), out(device, 4096);
    std::memset(in.data(), 3, 4096);
    const lin_dma move{64, copy_control, dram + 4096, dram + 8192};
    std::memcpy(in.data(), &move, sizeof move);
    copy_by_kernel_cb(device, in.va(), dram, 4096, 0);
    copy_by_kernel_cb(device, in.va() + 128, dram + 4096, 64, 0);
    uint64_t seq = 0;
    const hl_cs_chunk inner = chunk_of(dram, sizeof move, 9);
    EXPECT_EQ(submit(device, {inner}, seq), -EINVAL) << "nobody tells of its end";
    kernel_command cb(device, 4096);
    cb.write(std::array<uint32_t, 2>{0, nop_control});
    const hl_cs_chunk outer = chunk_of(cb.handle(), 8, 4);
    EXPECT_EQ(submit(device, {chunk_of(0x1000, sizeof move, 9), outer}, seq), -EFAULT);
    ASSERT_EQ(submit(device, {inner, outer}, seq), 0);
    EXPECT_EQ(wait_status(device, seq), HL_WAIT_CS_STATUS_COMPLETED);
    copy_by_kernel_cb(device, dram + 8192, out.va(), 64, 4);
    EXPECT_EQ(out.data()[63], 3);
  });
}

TEST(gaudi1, command_buffers_have_a_largest_size_and_end_once) {
  simulate(gaudi1, [] {
    const gaudi device;
    uint64_t handle = 0;
    EXPECT_EQ(hlthunk_request_command_buffer(device, 0x200000 - 31, &handle), -EINVAL);
    EXPECT_EQ(hlthunk_request_command_buffer(device, 0, &handle), -EINVAL);
    ASSERT_EQ(hlthunk_request_command_buffer(device, 0x200000 - 32, &handle), 0);
    EXPECT_EQ(hlthunk_destroy_command_buffer(device, handle), 0);
    EXPECT_EQ(hlthunk_destroy_command_buffer(device, handle), -EINVAL);
    uint64_t seq = 0;
    EXPECT_EQ(submit(device, {chunk_of(handle, 8, 0)}, seq), -EINVAL) << "destroyed";
  });
}

TEST(gaudi1, has_room_for_more_submissions_than_a_gaudi2) {
  simulate(gaudi1, [] {
    const gaudi device;
    engines_paused engines;
    kernel_command cb(device, 4096);
    cb.write(std::array<uint32_t, 2>{0, nop_control});
    uint64_t first = 0, seq = 0;
    ASSERT_EQ(submit(device, {chunk_of(cb.handle(), 8, 0)}, first), 0);
    for (int i = 0; i < 100; ++i) ASSERT_EQ(submit(device, {chunk_of(cb.handle(), 8, 0)}, seq), 0);
    EXPECT_EQ(wait_status(device, first, 0), HL_WAIT_CS_STATUS_BUSY);
    engines.resume();
    EXPECT_EQ(wait_status(device, seq), HL_WAIT_CS_STATUS_COMPLETED);
  });
}

}  // namespace
}  // namespace hlsim_test
