// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "commands.hpp"

#include <cerrno>

#include "hlsim.hpp"

namespace synsim {

int outcome_of(int fd, uint64_t submission, uint64_t timeout_us) {
  if (submission == 0) return 0;
  uint32_t status = HL_WAIT_CS_STATUS_BUSY;
  const int rc = hlthunk_wait_for_cs(fd, submission, timeout_us, &status);
  if (rc != 0) return rc;
  if (status == HL_WAIT_CS_STATUS_COMPLETED) return 0;
  return status == HL_WAIT_CS_STATUS_BUSY ? -EBUSY : -EIO;
}

uint64_t submit(int fd, uint32_t channel, std::span<const lin_dma> packets) {
  uint64_t number = 0;
  const int rc = hlsim_start(fd, channel, packets.data(),
                             static_cast<uint32_t>(packets.size_bytes()), &number);
  return rc == 0 ? number : 0;
}

}  // namespace synsim
