// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "call.hpp"
#include "cs_table.hpp"
#include "hlsim.hpp"
#include "memory.hpp"
#include "packets.hpp"
#include "settings.hpp"

// Command buffers and submissions: reference, sections 5.2, 5.3 and 5.5.

using namespace hlsim;

namespace {

constexpr uint32_t max_chunks = 512;
constexpr uint32_t smallest_packet = 8;
constexpr uint32_t max_seqs = 32;
constexpr uint64_t page = 4096;
/// What the driver says when the device worked at the call's entry and not when it got to the
/// scheduler.
constexpr int failed_meanwhile = -EPERM;
constexpr uint32_t largest_cb = 0x200000 - 32;
/// Where the engine has Synapse's channels: behind all queues that a driver publishes.
constexpr uint32_t first_channel = 1024;

/// A queue that reads the buffer from device address space when it gets there: one of the user's
/// own, mapped to the device (Gaudi2), or anything that the device reaches (Gaudi1's inner DMA
/// queues).
int take_user_buffer(const context& c, const hl_cs_chunk& chunk, command_buffer& out) {
  const bool physical = c.device().physical_hbm;
  if (!physical && (chunk.cs_chunk_flags & HL_CS_CHUNK_FLAGS_USER_ALLOC_CB) == 0) return -EINVAL;
  if (chunk.cb_size == 0 || chunk.cb_size % smallest_packet != 0) return -EINVAL;
  const state_lock lock(c.state());
  const bool reached =
      find_address(c.state(), chunk.cb_handle) != nullptr ||
      c.device().sram.holds(chunk.cb_handle, chunk.cb_size) ||
      (physical && c.device().physical_range(hbm_bytes(c.state())).holds(chunk.cb_handle, 1));
  if (!reached) return -EFAULT;
  out = {chunk.queue_index, chunk.cb_handle, chunk.cb_size};
  return 0;
}

kernel_cb* find_cb(device_state& state, uint64_t handle) {
  auto* const found =
      std::find_if(std::begin(state.cbs), std::end(state.cbs),
                   [&](const kernel_cb& cb) { return handle != 0 && cb.handle == handle; });
  return found != std::end(state.cbs) ? found : nullptr;
}

/// Gaudi1's DMA_0 and DMA_1: a buffer of the driver's, which it checks and copies. The flag that it
/// is the user's own is not looked at.
int take_kernel_buffer(int fd, const context& c, const hl_cs_chunk& chunk, command_buffer& out) {
  {
    const state_lock lock(c.state());
    const kernel_cb* const cb = find_cb(c.state(), chunk.cb_handle);
    if (!cb || chunk.cb_size < smallest_packet || chunk.cb_size > cb->size) return -EINVAL;
  }
  out = {chunk.queue_index, 0, chunk.cb_size, std::vector<char>(chunk.cb_size)};
  const auto at = static_cast<off_t>(chunk.cb_handle);
  if (::pread(fd, out.copied.data(), chunk.cb_size, at) != static_cast<ssize_t>(chunk.cb_size))
    return -EINVAL;
  return check_gaudi1_buffer(out.copied);
}

bool takes_kernel_buffer(const context& c, uint32_t queue) {
  return queue < c.device().kernel_cb_queues;
}

int take_buffer(int fd, const context& c, const hl_cs_chunk& chunk, command_buffer& out) {
  if (!c.device().has_queue(chunk.queue_index)) return -EINVAL;
  return takes_kernel_buffer(c, chunk.queue_index) ? take_kernel_buffer(fd, c, chunk, out)
                                                   : take_user_buffer(c, chunk, out);
}

/// Nothing is on its way in the simulation: a write is in HBM when its completion is seen. To Linux
/// 6.1 it is a submission without chunks.
int flush(const context& c) {
  if (current_settings().old_kernel) return -EINVAL;
  return c.device().flushes ? 0 : -EOPNOTSUPP;
}

/// Gives the chunks to the queues.
int start(int fd, context& c, const void* chunks, uint32_t count, uint64_t& seq) {
  if (!chunks || count > max_chunks) return -EINVAL;
  std::vector<command_buffer> buffers;
  for (const hl_cs_chunk& chunk : std::span(static_cast<const hl_cs_chunk*>(chunks), count))
    if (const int rc = take_buffer(fd, c, chunk, buffers.emplace_back()); rc != 0) return rc;
  // Gaudi1's inner queues do not tell the driver of their end.
  const auto tells = [&](const command_buffer& b) { return takes_kernel_buffer(c, b.queue); };
  if (c.device().kernel_cb_queues != 0 && std::none_of(buffers.begin(), buffers.end(), tells))
    return -EINVAL;
  seq = c.submit(buffers);
  return seq != 0 ? 0 : failed_meanwhile;
}

/// The driver carries these out, and awaits them, before it begins the others; only when it is told
/// to, as it knows no switch of contexts on a Gaudi.
int restore(int fd, context& c, const hlthunk_cs_in& in) {
  if ((in.flags & HL_CS_FLAGS_FORCE_RESTORE) == 0 || in.num_chunks_restore == 0) return 0;
  uint64_t seq = 0;
  if (const int rc = start(fd, c, in.chunks_restore, in.num_chunks_restore, seq); rc != 0)
    return rc;
  uint32_t status = HL_WAIT_CS_STATUS_BUSY;
  c.lend_cpu(seq, true);
  const int rc = c.wait(seq, UINT64_MAX, status);
  return rc == 0 && status == HL_WAIT_CS_STATUS_COMPLETED ? 0 : -ENOEXEC;
}

int submit(int fd, context& c, const hlthunk_cs_in& in, hlthunk_cs_out& out) {
  out = {};
  if ((in.flags & HL_CS_FLAGS_FLUSH_PCI_HBW_WRITES) != 0) return flush(c);
  if (!in.chunks_execute || in.num_chunks_execute == 0) return -EINVAL;
  if (const int rc = restore(fd, c, in); rc != 0) return rc;
  return start(fd, c, in.chunks_execute, in.num_chunks_execute, out.seq);
}

}  // namespace

int hlthunk_command_submission(int fd, hlthunk_cs_in* in, hlthunk_cs_out* out) {
  if (!in || !out) return -EINVAL;
  return compute_call(
      fd, [&](context& c) { return submit(fd, c, *in, *out); }, context::frequent_fault_age_ns);
}

/// No submission of the simulation takes long enough for the limit to matter.
int hlthunk_command_submission_timeout(int fd, hlthunk_cs_in* in, hlthunk_cs_out* out, uint32_t) {
  return hlthunk_command_submission(fd, in, out);
}

int hlsim_start(int fd, uint32_t channel, const void* packets, uint32_t bytes, uint64_t* seq) {
  if (!packets || !seq || bytes == 0 || bytes % smallest_packet != 0 || channel >= hlsim_channels)
    return -EINVAL;
  return compute_call(fd, [&](context& c) {
    if (c.device().physical_hbm) return -EOPNOTSUPP;
    const auto* const first = static_cast<const char*>(packets);
    const command_buffer given{first_channel + channel, 0, bytes, {first, first + bytes}};
    *seq = c.submit(std::span(&given, 1));
    return *seq != 0 ? 0 : failed_meanwhile;
  });
}

int hlthunk_wait_for_cs(int fd, uint64_t seq, uint64_t timeout_us, uint32_t* status) {
  if (!status) return -EINVAL;
  *status = 0;
  return info_call(fd, [&](context& c) {
    if (c.is_control()) return -ENOTTY;
    c.lend_cpu(seq, timeout_us != 0);
    return c.wait(seq, timeout_us, *status);
  });
}

int hlthunk_wait_for_multi_cs(int fd, hlthunk_wait_multi_cs_in* in,
                              hlthunk_wait_multi_cs_out* out) {
  if (!in || !out || !in->seq || in->seq_len == 0 || in->seq_len > max_seqs) return -EINVAL;
  *out = {};
  return info_call(fd, [&](context& c) {
    if (c.is_control()) return -ENOTTY;
    if (const int gone = c.abort_if_down(); gone != 0) return gone;
    const std::span<const uint64_t> seqs(in->seq, in->seq_len);
    c.lend_cpu(*std::max_element(seqs.begin(), seqs.end()), in->timeout_us != 0);
    int rc = wait_any_cs(c.state(), seqs, in->timeout_us, out->seq_set);
    // As in context::wait: who saw the removal first has aborted everything.
    if (rc == -EIO) {
      if (const int gone = c.abort_if_down(); gone != 0) rc = gone;
    }
    out->completed = static_cast<uint8_t>(std::popcount(out->seq_set));
    out->status = out->seq_set ? HL_WAIT_CS_STATUS_COMPLETED : HL_WAIT_CS_STATUS_BUSY;
    return rc;
  });
}

int hlthunk_cs_flush_pci_hbw_writes(int fd) {
  return compute_call(fd, [](const context& c) { return flush(c); });
}

/// The buffer lies in the device file behind its device_state, so that mmap(fd, handle) works.
int hlthunk_request_command_buffer(int fd, uint32_t size, uint64_t* handle) {
  if (!handle) return -EINVAL;
  return compute_call(fd, [&](context& c) {
    if (size == 0 || size > largest_cb) return -EINVAL;
    const state_lock lock(c.state());
    auto* const slot = std::find_if(std::begin(c.state().cbs), std::end(c.state().cbs),
                                    [](const kernel_cb& cb) { return cb.handle == 0; });
    if (slot == std::end(c.state().cbs)) return -ENOMEM;
    const uint64_t end = c.state().cb_end + (size + page - 1) / page * page;
    // Memory is taken now: the user's mapping of what there is none for would end in SIGBUS.
    const auto begin = static_cast<off_t>(c.state().cb_end);
    if (const int rc = ::posix_fallocate(fd, begin, static_cast<off_t>(end) - begin); rc != 0)
      return rc == ENOSPC ? -ENOMEM : -rc;
    *slot = {std::exchange(c.state().cb_end, end), size};
    *handle = slot->handle;
    return 0;
  });
}

/// The memory goes back to the machine when the context ends.
int hlthunk_destroy_command_buffer(int fd, uint64_t handle) {
  return compute_call(fd, [&](context& c) {
    const state_lock lock(c.state());
    kernel_cb* const cb = find_cb(c.state(), handle);
    if (!cb) return -EINVAL;
    *cb = {};
    return 0;
  });
}
