// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>

// The part of libhl-thunk's C ABI that the provider uses, in our own words, because the vendor's
// headers are not on the build machine. Values and layouts: prov/docs/device.md, 1.2, 1.6, 5.1.
namespace gaudi::hl {

/// enum hlthunk_device_name: which kind of device an open or a count is for.
enum class device_name : int { dont_care = 4 };

/// enum hl_device_status.
enum class device_status : int {
  operational = 0,
  in_reset = 1,
  malfunction = 2,
  needs_reset = 3,
  in_creation = 4,
  in_reset_after_release = 5,
};

/// What a command submission has come to (the status word of hlthunk_wait_for_cs).
enum class cs_status : std::uint32_t { completed = 0, busy = 1, timed_out = 2, aborted = 3 };

/// Asynchronous events that the notifier tells of (HL_NOTIFIER_EVENT_*): those after which the
/// device's users have to go.
inline constexpr std::uint64_t event_device_reset = 1 << 2;
inline constexpr std::uint64_t event_device_unavailable = 1 << 4;

/// Chunk flag: cb_handle is the device address of a command buffer in host memory (Gaudi2), not the
/// handle of one of the driver's (Gaudi1).
inline constexpr std::uint32_t chunk_user_cb = 0x1;

/// struct hl_cs_chunk: one command buffer on one queue.
struct cs_chunk {
  std::uint64_t cb_handle = 0;
  std::uint32_t queue_index = 0;
  std::uint32_t cb_size = 0;
  std::uint32_t flags = 0;
  std::uint32_t collective_engine_id = 0;
  std::uint64_t pad[5] = {};
};
static_assert(sizeof(cs_chunk) == 64);

/// struct hlthunk_cs_in.
struct cs_in {
  const void* chunks_restore = nullptr;
  const void* chunks_execute = nullptr;
  std::uint32_t num_restore = 0;
  std::uint32_t num_execute = 0;
  std::uint32_t flags = 0;
  std::uint32_t pad = 0;
};
static_assert(sizeof(cs_in) == 32 && offsetof(cs_in, flags) == 24);

/// struct hlthunk_cs_out, with room for fields of later releases.
struct cs_out {
  std::uint64_t seq = 0;
  std::uint32_t status = 0;
  std::uint16_t sob_count = 0;
  std::byte later[50] = {};
};
static_assert(sizeof(cs_out) == 64 && offsetof(cs_out, status) == 8);

/// struct hlthunk_dram_usage_info, with room for fields of later releases.
struct dram_usage {
  std::uint64_t free_bytes = 0;
  std::uint64_t context_bytes = 0;
  std::byte later[48] = {};
};

/// struct hlthunk_open_stats_info, with room for fields of later releases.
struct open_stats {
  std::uint64_t open_counter = 0;
  std::uint64_t last_open_period_ms = 0;
  std::uint8_t is_compute_ctx_active = 0;
  std::uint8_t compute_ctx_in_release = 0;
  std::byte later[46] = {};
};
static_assert(sizeof(open_stats) == 64 && offsetof(open_stats, is_compute_ctx_active) == 16);

/// The LIN_DMA packet of a PDMA queue, the same size on all generations.
struct lin_dma {
  std::uint32_t size;
  std::uint32_t ctl;
  std::uint64_t src;
  std::uint64_t dst;
};
static_assert(sizeof(lin_dma) == 24);

/// Control word of a plain Gaudi2 copy: opcode LIN_DMA and the message barrier, so that
/// the queue's completion message stays behind the data.
inline constexpr std::uint32_t lin_dma_ctl_gaudi2 = (9U << 24) | (1U << 31);
/// The same for Gaudi1, whose packets say that they are linear (3) and always carry the register
/// barrier (30).
inline constexpr std::uint32_t lin_dma_ctl_gaudi1 = lin_dma_ctl_gaudi2 | (1U << 30) | (1U << 3);

}  // namespace gaudi::hl
