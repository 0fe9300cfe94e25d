// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <span>
#include <utility>
#include <vector>

#include "call.hpp"
#include "cs_table.hpp"
#include "hlsim.hpp"
#include "memory.hpp"

// Command buffers and submissions: reference, sections 5.2, 5.3 and 5.5.

using namespace hlsim;

namespace {

constexpr uint32_t most_chunks = 512;
constexpr uint32_t smallest_packet = 8;
constexpr uint32_t most_seqs = 32;
constexpr uint64_t page = 4096;
constexpr uint32_t largest_cb = 0x200000 - 32;

/// Gaudi2 takes buffers of the user's own, mapped to the device, and no others.
int check_chunk(const context& c, const hl_cs_chunk& chunk) {
  if (!c.device().has_queue(chunk.queue_index)) return -EINVAL;
  if ((chunk.cs_chunk_flags & HL_CS_CHUNK_FLAGS_USER_ALLOC_CB) == 0) return -EINVAL;
  if (chunk.cb_size == 0 || chunk.cb_size % smallest_packet != 0) return -EINVAL;
  const state_lock lock(c.state());
  return find_address(c.state(), chunk.cb_handle) ? 0 : -EFAULT;
}

int submit(context& c, const hlthunk_cs_in& in, hlthunk_cs_out& out) {
  out = {};
  if ((in.flags & HL_CS_FLAGS_FLUSH_PCI_HBW_WRITES) != 0) return 0;
  if (!in.chunks_execute || in.num_chunks_execute == 0 || in.num_chunks_execute > most_chunks)
    return -EINVAL;
  std::vector<command_buffer> buffers;
  for (const hl_cs_chunk& chunk :
       std::span(static_cast<const hl_cs_chunk*>(in.chunks_execute), in.num_chunks_execute)) {
    if (const int rc = check_chunk(c, chunk); rc != 0) return rc;
    buffers.push_back({chunk.queue_index, chunk.cb_handle, chunk.cb_size});
  }
  out.seq = c.submit(buffers);
  return out.seq != 0 ? 0 : -EBUSY;
}

}  // namespace

int hlthunk_command_submission(int fd, hlthunk_cs_in* in, hlthunk_cs_out* out) {
  if (!in || !out) return -EINVAL;
  return compute_call(fd, [&](context& c) { return submit(c, *in, *out); });
}

/// No submission of the simulation takes long enough for the limit to matter.
int hlthunk_command_submission_timeout(int fd, hlthunk_cs_in* in, hlthunk_cs_out* out, uint32_t) {
  return hlthunk_command_submission(fd, in, out);
}

int hlthunk_wait_for_cs(int fd, uint64_t seq, uint64_t timeout_us, uint32_t* status) {
  if (!status) return -EINVAL;
  *status = 0;
  const int rc = info_call(fd, [&](context& c) {
    if (c.is_control()) return -ENOTTY;
    c.lend_cpu(seq);
    return wait_cs(c.state(), seq, timeout_us, *status);
  });
  return rc;
}

int hlthunk_wait_for_multi_cs(int fd, hlthunk_wait_multi_cs_in* in,
                              hlthunk_wait_multi_cs_out* out) {
  if (!in || !out || !in->seq || in->seq_len == 0 || in->seq_len > most_seqs) return -EINVAL;
  *out = {};
  return info_call(fd, [&](context& c) {
    if (c.is_control()) return -ENOTTY;
    const std::span<const uint64_t> seqs(in->seq, in->seq_len);
    c.lend_cpu(*std::max_element(seqs.begin(), seqs.end()));
    const int rc = wait_any_cs(c.state(), seqs, in->timeout_us, out->seq_set);
    out->completed = static_cast<uint8_t>(std::popcount(out->seq_set));
    out->status = out->seq_set ? HL_WAIT_CS_STATUS_COMPLETED : HL_WAIT_CS_STATUS_BUSY;
    return rc;
  });
}

/// Nothing is on its way in the simulation: a write is in HBM when its completion is seen.
int hlthunk_cs_flush_pci_hbw_writes(int fd) {
  return compute_call(fd, [](context&) { return 0; });
}

/// The buffer lies in the device file behind its device_state, so that mmap(fd, handle) works.
int hlthunk_request_command_buffer(int fd, uint32_t size, uint64_t* handle) {
  if (!handle) return -EINVAL;
  return compute_call(fd, [&](context& c) {
    if (size == 0 || size > largest_cb) return -EINVAL;
    const state_lock lock(c.state());
    const uint64_t end = c.state().cb_end + (size + page - 1) / page * page;
    if (::ftruncate(fd, static_cast<off_t>(end)) != 0) return -errno;
    *handle = std::exchange(c.state().cb_end, end);
    return 0;
  });
}

/// The memory goes back to the machine when the context ends.
int hlthunk_destroy_command_buffer(int fd, uint64_t handle) {
  return compute_call(fd, [&](context& c) {
    const state_lock lock(c.state());
    const bool ours = handle >= state_bytes && handle < c.state().cb_end && handle % page == 0;
    return ours ? 0 : -EINVAL;
  });
}
