// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "commands.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "hlsim.hpp"

namespace synsim {
namespace {

constexpr uint64_t wait_slice_us = 1'000'000;

}  // namespace

int outcome_of(int fd, uint64_t submission, uint64_t timeout_us) {
  if (submission == 0) return 0;
  uint32_t status = HL_WAIT_CS_STATUS_BUSY;
  const int rc = hlthunk_wait_for_cs(fd, submission, timeout_us, &status);
  if (rc != 0) return rc;
  if (status == HL_WAIT_CS_STATUS_COMPLETED) return 0;
  return status == HL_WAIT_CS_STATUS_BUSY ? -EBUSY : -EIO;
}

commands::commands(int fd) : fd_(fd) {
  void* const at = ::mmap(nullptr, slots * slot_bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return;
  host_ = static_cast<std::byte*>(at);
  ::madvise(at, slots * slot_bytes, MADV_DONTFORK);
  va_ = hlthunk_host_memory_map(fd, at, 0, slots * slot_bytes);
}

commands::~commands() {
  if (va_ != 0) hlthunk_memory_unmap(fd_, va_);
  if (host_) ::munmap(host_, slots * slot_bytes);
}

uint64_t commands::submit(uint32_t queue, std::span<const lin_dma> packets) {
  const size_t slot = next_++ % slots;
  int before = -EBUSY;
  // A submission that failed needs its buffer no more.
  while (before == -EBUSY) before = outcome_of(fd_, in_use_[slot], wait_slice_us);
  std::memcpy(host_ + slot * slot_bytes, packets.data(), packets.size_bytes());
  hl_cs_chunk chunk{};
  chunk.cb_handle = va_ + slot * slot_bytes;
  chunk.queue_index = queue;
  chunk.cb_size = static_cast<uint32_t>(packets.size_bytes());
  chunk.cs_chunk_flags = HL_CS_CHUNK_FLAGS_USER_ALLOC_CB;
  hlthunk_cs_in in{};
  in.chunks_execute = &chunk;
  in.num_chunks_execute = 1;
  hlthunk_cs_out out{};
  if (hlthunk_command_submission(fd_, &in, &out) != 0) return 0;
  return in_use_[slot] = out.seq;
}

}  // namespace synsim
