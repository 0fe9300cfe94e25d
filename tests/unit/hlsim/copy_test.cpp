// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <sys/socket.h>

#include <numeric>
#include <thread>

#include "simulation.hpp"

// Command submission: reference, sections 5.1, 5.3, 5.5 and 2.6.

namespace hlsim_test {
namespace {

void fill(char* data, size_t size, int seed) {
  for (size_t i = 0; i < size; ++i) data[i] = static_cast<char>(i * 7 + i / 251 + seed);
}

TEST(copies, host_to_device_and_back_keeps_every_byte) {
  simulate({}, [] {
    const open_device device;
    const device_page hbm(device);
    const host_buffer in(device, 3 * mib), out(device, 3 * mib);
    fill(in.data(), in.size(), 1);
    copy(device, in.va() + 5, hbm.va + 4093, 2 * mib + 11, 0);
    copy(device, hbm.va + 4093, out.va() + 1, 2 * mib + 11, 4);
    EXPECT_EQ(std::memcmp(in.data() + 5, out.data() + 1, 2 * mib + 11), 0);
    EXPECT_EQ(out.data()[0], 0) << "a byte before the range was written";
    EXPECT_EQ(out.data()[2 * mib + 12], 0) << "a byte behind the range was written";
  });
}

TEST(copies, device_to_device_across_a_page_boundary) {
  simulate({}, [] {
    const open_device device;
    const uint64_t handle = hlthunk_device_memory_alloc(device, 2 * page, 0, false, false);
    const uint64_t va = hlthunk_device_memory_map(device, handle, 0);
    const host_buffer in(device, mib), out(device, mib);
    fill(in.data(), in.size(), 2);
    copy(device, in.va(), va + page - 1000, mib);
    copy(device, va + page - 1000, va + 64, mib, 8);
    copy(device, va + 64, out.va(), mib, 4);
    EXPECT_EQ(std::memcmp(in.data(), out.data(), mib), 0);
  });
}

TEST(copies, memset_repeats_the_pattern) {
  simulate({}, [] {
    const open_device device;
    const device_page hbm(device);
    const host_buffer out(device, mib);
    command c(device, {{mib - 2, lin_dma_control | memset_bit, 0x04030201, hbm.va}});
    uint64_t seq = 0;
    ASSERT_EQ(c.submit(0, seq), 0);
    EXPECT_EQ(wait_status(device, seq), HL_WAIT_CS_STATUS_COMPLETED);
    copy(device, hbm.va, out.va(), mib);
    for (size_t i = 0; i < mib - 2; ++i)
      ASSERT_EQ(out.data()[i], static_cast<char>(i % 4 + 1)) << i;
    EXPECT_EQ(out.data()[mib - 2], 0);
  });
}

TEST(copies, are_asynchronous_and_polling_says_busy) {
  simulate({}, [] {
    const open_device device;
    engines_paused engines;
    const device_page hbm(device);
    const host_buffer in(device, 4096), out(device, 4096);
    fill(in.data(), in.size(), 3);
    command c(device, {{4096, lin_dma_control, in.va(), hbm.va},
                       {4096, lin_dma_control, hbm.va, out.va()}});
    uint64_t seq = 0;
    ASSERT_EQ(c.submit(0, seq), 0);
    EXPECT_EQ(wait_status(device, seq, 0), HL_WAIT_CS_STATUS_BUSY);
    EXPECT_EQ(wait_status(device, seq, 10), HL_WAIT_CS_STATUS_BUSY);
    EXPECT_FALSE(hlthunk_is_device_idle(device));
    engines.resume();
    EXPECT_EQ(wait_status(device, seq), HL_WAIT_CS_STATUS_COMPLETED);
    EXPECT_TRUE(hlthunk_is_device_idle(device));
    EXPECT_EQ(std::memcmp(in.data(), out.data(), 4096), 0);
  });
}

TEST(copies, keep_their_order_within_a_queue) {
  simulate({{"HLSIM_REORDER", "0"}}, [] {
    const open_device device;
    const device_page hbm(device);
    const host_buffer in(device, 200 * 4096), out(device, 4096);
    std::vector<std::unique_ptr<command>> commands;
    uint64_t seq = 0;
    for (int i = 0; i < 200; ++i) {
      std::memset(in.data() + i * 4096, i, 4096);
      commands.push_back(std::make_unique<command>(
          device, std::vector<lin_dma>{{4096, lin_dma_control, in.va() + i * 4096UL, hbm.va}}));
      uint64_t next = 0;
      ASSERT_EQ(commands.back()->submit(0, next), 0);
      ASSERT_GT(next, seq);
      seq = next;
    }
    EXPECT_EQ(wait_status(device, seq), HL_WAIT_CS_STATUS_COMPLETED);
    EXPECT_EQ(wait_status(device, 1), HL_WAIT_CS_STATUS_COMPLETED) << "retired long ago";
    copy(device, hbm.va, out.va(), 4096);
    EXPECT_EQ(static_cast<unsigned char>(out.data()[17]), 199);
  });
}

TEST(copies, are_overtaken_by_later_ones_on_another_queue) {
  simulate({{"HLSIM_REORDER", "all"}}, [] {
    const open_device device;
    const device_page hbm(device);
    const host_buffer in(device, 2 * 4096), out(device, 4096);
    std::memset(in.data(), 1, 4096);
    std::memset(in.data() + 4096, 2, 4096);
    // On a busy machine the first one is mostly done before the second one is there.
    bool overtaken = false;
    for (int i = 0; i < 1000 && !overtaken; ++i) {
      command first(device, {{4096, lin_dma_control, in.va(), hbm.va}});
      command second(device, {{4096, lin_dma_control, in.va() + 4096, hbm.va}});
      uint64_t a = 0, b = 0;
      ASSERT_EQ(first.submit(0, a), 0);
      ASSERT_EQ(second.submit(4, b), 0);
      wait_status(device, a);
      wait_status(device, b);
      copy(device, hbm.va, out.va(), 4096);
      overtaken = out.data()[0] == 1;  // the first one's bytes came last
    }
    EXPECT_TRUE(overtaken);
  });
}

TEST(copies, of_one_buffer_overlap_where_no_packet_waits) {
  constexpr uint32_t waits = 1U << 29;
  for (const uint32_t second : {lin_dma_control, lin_dma_control | waits}) {
    simulate({{"HLSIM_REORDER", "all"}}, [second] {
      const open_device device;
      const device_page hbm(device);
      const host_buffer host(device, 4096);
      host.data()[0] = 'x';
      command c(device,
                {{1, lin_dma_control, host.va(), hbm.va}, {1, second, hbm.va, host.va() + 1}});
      uint64_t seq = 0;
      ASSERT_EQ(c.submit(0, seq), 0);
      ASSERT_EQ(wait_status(device, seq), HL_WAIT_CS_STATUS_COMPLETED);
      EXPECT_EQ(host.data()[1] == 'x', second != lin_dma_control);
    });
  }
}

// The 65th is waiting to be scheduled when the device is lost.
TEST(submission, that_is_not_scheduled_before_a_reset_is_not_permitted) {
  simulate({{"HLSIM_FAULT", "hang"}}, [] {
    const open_device device;
    const device_page hbm(device);
    command c(device, {{1, lin_dma_control | memset_bit, 0, hbm.va}});
    uint64_t seq = 0;
    for (int i = 0; i < 64; ++i) ASSERT_EQ(c.submit(0, seq), 0);
    std::thread breaks([&] {
      ::usleep(50'000);
      hlthunk_err_inject_fatal_event(::dup(device), nullptr);
    });
    EXPECT_EQ(c.submit(0, seq), -EPERM);
    breaks.join();
    EXPECT_EQ(c.submit(0, seq), -EBUSY) << "at its entry";
  });
}

TEST(copies, read_the_command_buffer_when_it_is_executed) {
  simulate({}, [] {
    const open_device device;
    engines_paused engines;
    const device_page hbm(device);
    const host_buffer in(device, 8192), out(device, 4096);
    fill(in.data(), in.size(), 5);
    command changed(device, {{4096, lin_dma_control, in.va(), hbm.va}});
    uint64_t second = 0;
    ASSERT_EQ(changed.submit(0, second), 0);
    changed.write({{4096, lin_dma_control, in.va() + 4096, hbm.va}});
    engines.resume();
    EXPECT_EQ(wait_status(device, second), HL_WAIT_CS_STATUS_COMPLETED);
    copy(device, hbm.va, out.va(), 4096);
    EXPECT_EQ(std::memcmp(in.data() + 4096, out.data(), 4096), 0);
  });
}

TEST(copies, a_page_fault_aborts_and_resets_the_device) {
  simulate({}, [] {
    const open_device device;
    const device_page hbm(device);
    command c(device, {{4096, lin_dma_control, hbm.va, hbm.va + page}});
    uint64_t seq = 0;
    ASSERT_EQ(c.submit(0, seq), 0);
    uint32_t status = 0;
    EXPECT_EQ(hlthunk_wait_for_cs(device, seq, long_enough_us, &status), -EIO);
    EXPECT_EQ(status, HL_WAIT_CS_STATUS_ABORTED);
    EXPECT_EQ(hlthunk_get_device_status_info(device), HL_DEVICE_STATUS_IN_RESET);
    EXPECT_EQ(c.submit(0, seq), -EBUSY);
    hlthunk_reset_count_info resets{};
    EXPECT_EQ(hlthunk_get_reset_count_info(device, &resets), 0);
    EXPECT_EQ(resets.hard_reset_count, 1U);
  });
}

TEST(copies, survive_host_memory_that_the_process_unmapped) {
  simulate({}, [] {
    const open_device device;
    const device_page hbm(device);
    void* gone = ::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const uint64_t va = hlthunk_host_memory_map(device, gone, 0, 8192);
    ASSERT_NE(va, 0U);
    ::munmap(gone, 8192);
    copy(device, hbm.va, va, 8192);
    copy(device, va, hbm.va, 8192);
    EXPECT_EQ(hlthunk_memory_unmap(device, va), 0);
  });
}

TEST(submission, is_checked) {
  simulate({}, [] {
    const open_device device;
    const device_page hbm(device);
    const host_buffer cb(device, 4096);
    hlthunk_cs_out out{};
    const auto submit = [&](std::vector<hl_cs_chunk> chunks, uint32_t count) {
      hlthunk_cs_in in{};
      in.chunks_execute = chunks.data();
      in.num_chunks_execute = count;
      return hlthunk_command_submission(device, &in, &out);
    };
    hl_cs_chunk good{};
    good.cb_handle = cb.va();
    good.cb_size = 8;
    good.cs_chunk_flags = HL_CS_CHUNK_FLAGS_USER_ALLOC_CB;
    const uint32_t nop[2] = {0, 10U << 24};
    std::memcpy(cb.data(), nop, sizeof nop);
    EXPECT_EQ(submit({good}, 1), 0);
    EXPECT_EQ(wait_status(device, out.seq), HL_WAIT_CS_STATUS_COMPLETED);
    EXPECT_EQ(submit({good}, 0), -EINVAL);
    EXPECT_EQ(submit(std::vector(513, good), 513), -EINVAL);
    hl_cs_chunk kernel_cb = good, bad_queue = good, unmapped = good;
    kernel_cb.cs_chunk_flags = 0;
    bad_queue.queue_index = 260;
    unmapped.cb_handle = 0xFFF0700000000000;
    EXPECT_EQ(submit({kernel_cb}, 1), -EINVAL);
    EXPECT_EQ(submit({bad_queue}, 1), -EINVAL);
    EXPECT_EQ(submit({unmapped}, 1), -EFAULT);
    uint32_t status = 7;
    EXPECT_EQ(hlthunk_wait_for_cs(device, out.seq + 100, 0, &status), -EINVAL);
    EXPECT_EQ(status, 0U);
    EXPECT_EQ(hlthunk_wait_for_cs(device, 1, 0, nullptr), -EINVAL);
    EXPECT_EQ(hlthunk_cs_flush_pci_hbw_writes(device), 0);
  });
}

TEST(submission, blocks_while_64_are_in_flight) {
  simulate({}, [] {
    const open_device device;
    engines_paused engines;
    const device_page hbm(device);
    const host_buffer in(device, 4096);
    command c(device, {{64, lin_dma_control, in.va(), hbm.va}});
    uint64_t first = 0, seq = 0;
    ASSERT_EQ(c.submit(0, first), 0);
    for (int i = 1; i < 64; ++i) ASSERT_EQ(c.submit(0, seq), 0);
    EXPECT_EQ(wait_status(device, first, 0), HL_WAIT_CS_STATUS_BUSY);
    std::thread one_more([&] {
      EXPECT_EQ(c.submit(0, seq), 0);
      EXPECT_EQ(wait_status(device, first, 0), HL_WAIT_CS_STATUS_COMPLETED);
    });
    ::usleep(20'000);  // time in which it would be taken if it did not wait
    engines.resume();
    one_more.join();
    wait_status(device, seq);
  });
}

TEST(submission, several_are_awaited_at_once) {
  simulate({}, [] {
    const open_device device;
    engines_paused engines;
    const device_page hbm(device);
    const host_buffer in(device, 4096);
    command c(device, {{64, lin_dma_control, in.va(), hbm.va}});
    uint64_t seqs[2] = {};
    ASSERT_EQ(c.submit(0, seqs[0]), 0);
    ASSERT_EQ(c.submit(0, seqs[1]), 0);
    hlthunk_wait_multi_cs_in in_args{seqs, 0, 2};
    hlthunk_wait_multi_cs_out out{};
    EXPECT_EQ(hlthunk_wait_for_multi_cs(device, &in_args, &out), 0);
    EXPECT_EQ(out.completed, 0);
    engines.resume();
    in_args.timeout_us = long_enough_us;
    EXPECT_EQ(hlthunk_wait_for_multi_cs(device, &in_args, &out), 0);
    EXPECT_TRUE(out.seq_set & 1U);
    wait_status(device, seqs[1]);
  });
}

}  // namespace
}  // namespace hlsim_test
