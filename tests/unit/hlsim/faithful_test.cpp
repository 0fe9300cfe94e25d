// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the vendor library's own tests found missing: what the stand-in does not do, it refuses.
#include <cerrno>

#include "simulation.hpp"

namespace hlsim_test {
namespace {

constexpr uint32_t first_edma = 8;
constexpr uint32_t force_restore = 1;

TEST(hw_ip_info, tells_the_engines_whose_queues_are_offered) {
  simulate({}, [] {
    const open_device device;
    hlthunk_hw_ip_info info{};
    ASSERT_EQ(hlthunk_get_hw_ip_info(device, &info), 0);
    EXPECT_EQ(info.edma_enabled_mask, 0xffU);
  });
  for (const char* generation : {"1", "3"}) {
    simulate({{"HLSIM_GENERATION", generation}}, [] {
      const int device = hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, nullptr);
      hlthunk_hw_ip_info info{};
      ASSERT_EQ(hlthunk_get_hw_ip_info(device, &info), 0);
      EXPECT_EQ(info.edma_enabled_mask, 0U);
      hlthunk_close(device);
    });
  }
}

/// One copy, in a buffer of its own, as a chunk of a submission.
struct copy_chunk {
  copy_chunk(int device, lin_dma packet) : buffer(device, 4096) {
    std::memcpy(buffer.data(), &packet, sizeof packet);
    chunk.cb_handle = buffer.va();
    chunk.queue_index = first_edma;
    chunk.cb_size = sizeof packet;
    chunk.cs_chunk_flags = HL_CS_CHUNK_FLAGS_USER_ALLOC_CB;
  }
  host_buffer buffer;
  hl_cs_chunk chunk{};
};

/// What a submission of two chunks says, and what `to` has after it.
std::pair<int, char> restore_and_execute(int device, uint32_t flags, hl_cs_chunk& restored,
                                         hl_cs_chunk& executed, const host_buffer& to) {
  hlthunk_cs_in in{};
  in.chunks_restore = &restored;
  in.num_chunks_restore = 1;
  in.chunks_execute = &executed;
  in.num_chunks_execute = 1;
  in.flags = flags;
  hlthunk_cs_out out{};
  const int rc = hlthunk_command_submission(device, &in, &out);
  if (rc != 0) return {rc, 0};
  EXPECT_EQ(wait_status(device, out.seq), HL_WAIT_CS_STATUS_COMPLETED);
  return {0, to.data()[0]};
}

TEST(restore_chunks, are_carried_out_before_the_others_where_that_is_demanded) {
  simulate({{"HLSIM_REORDER", "all"}}, [] {
    const open_device device;
    const device_page hbm(device);
    const host_buffer first(device, 4096), out(device, 4096);
    // What is restored is what the other chunk copies.
    copy_chunk restored(device, {4096, lin_dma_control, first.va(), hbm.va});
    copy_chunk executed(device, {4096, lin_dma_control, hbm.va, out.va()});
    executed.chunk.queue_index = 4;
    first.data()[0] = 'a';
    EXPECT_EQ(restore_and_execute(device, force_restore, restored.chunk, executed.chunk, out),
              std::pair(0, 'a'));
    first.data()[0] = 'b';
    EXPECT_EQ(restore_and_execute(device, 0, restored.chunk, executed.chunk, out),
              std::pair(0, 'a'))
        << "not on a Gaudi without being told to";
    EXPECT_EQ(restore_and_execute(device, force_restore, restored.chunk, executed.chunk, out),
              std::pair(0, 'b'));
  });
}

TEST(restore_chunks, that_fail_keep_the_others_from_being_begun) {
  simulate({}, [] {
    const open_device device;
    const device_page hbm(device);
    const host_buffer out(device, 4096);
    copy_chunk restored(device, {4096, lin_dma_control, hbm.va + 4 * page, out.va()});
    copy_chunk executed(device, {4096, lin_dma_control, hbm.va, out.va()});
    out.data()[0] = 'x';
    EXPECT_EQ(restore_and_execute(device, force_restore, restored.chunk, executed.chunk, out).first,
              -ENOEXEC);
    EXPECT_EQ(out.data()[0], 'x');
  });
}

TEST(restore_chunks, are_checked) {
  simulate({}, [] {
    const open_device device;
    const device_page hbm(device);
    const host_buffer out(device, 4096);
    copy_chunk executed(device, {4096, lin_dma_control, hbm.va, out.va()});
    hl_cs_chunk nowhere = executed.chunk;
    nowhere.queue_index = 300;
    EXPECT_EQ(restore_and_execute(device, force_restore, nowhere, executed.chunk, out).first,
              -EINVAL);
  });
}

TEST(a_command_buffer, of_a_gaudi2_may_lie_in_sram) {
  simulate({}, [] {
    const open_device device;
    hlthunk_hw_ip_info info{};
    ASSERT_EQ(hlthunk_get_hw_ip_info(device, &info), 0);
    const device_page hbm(device);
    const host_buffer in(device, 4096), out(device, 4096);
    in.data()[7] = 's';
    const lin_dma packets[] = {{4096, lin_dma_control, in.va(), hbm.va}};
    std::memcpy(out.data(), packets, sizeof packets);
    copy(device, out.va(), info.sram_base_address, sizeof packets);
    hl_cs_chunk chunk{};
    chunk.cb_handle = info.sram_base_address;
    chunk.queue_index = first_edma;
    chunk.cb_size = sizeof packets;
    chunk.cs_chunk_flags = HL_CS_CHUNK_FLAGS_USER_ALLOC_CB;
    hlthunk_cs_in submission{};
    submission.chunks_execute = &chunk;
    submission.num_chunks_execute = 1;
    hlthunk_cs_out given{};
    ASSERT_EQ(hlthunk_command_submission(device, &submission, &given), 0);
    EXPECT_EQ(wait_status(device, given.seq), HL_WAIT_CS_STATUS_COMPLETED);
    copy(device, hbm.va, out.va(), 4096);
    EXPECT_EQ(out.data()[7], 's');
    chunk.cb_handle = info.sram_base_address + info.sram_size - 8;
    EXPECT_EQ(hlthunk_command_submission(device, &submission, &given), -EFAULT) << "beyond its end";
  });
}

/// How a submission with that control word ends on a fresh device.
void expect_abort(uint32_t control) {
  simulate({}, [control] {
    const open_device device;
    const device_page hbm(device);
    const host_buffer in(device, 4096);
    command c(device, {{4096, control, in.va(), hbm.va}});
    uint64_t seq = 0;
    ASSERT_EQ(c.submit(0, seq), 0);
    uint32_t status = 0;
    EXPECT_EQ(hlthunk_wait_for_cs(device, seq, long_enough_us, &status), -EIO) << control;
    EXPECT_EQ(status, static_cast<uint32_t>(HL_WAIT_CS_STATUS_ABORTED)) << control;
  });
}

TEST(a_packet, that_would_change_the_data_is_refused) {
  for (const unsigned bit : {1U, 2U, 6U, 7U, 9U}) expect_abort(lin_dma_control | 1U << bit);
}

TEST(a_packet, that_writes_a_register_is_refused) {
  for (const uint32_t opcode : {3U, 4U, 8U}) expect_abort(opcode << 24);
}

}  // namespace
}  // namespace hlsim_test
