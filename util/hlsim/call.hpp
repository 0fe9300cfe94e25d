// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cerrno>

#include "context.hpp"

namespace hlsim {

/// Runs `work(context&)` for the context behind `fd` and leaves a failure in errno, as the ioctl
/// wrapper of the real library does; success leaves errno alone, by which alone an allocation of
/// Gaudi1's can be told from a failed one. 0 or more, or -errno: EBADF, ENOTTY, and what `work`
/// says.
template <class Work>
int info_call(int fd, Work work) {
  const int before = errno;
  const context_ref c = find_context(fd);
  const int rc = c ? work(*c) : -errno;
  errno = rc < 0 ? -rc : before;
  return rc;
}

/// The same for the calls that only a compute node takes, and only while the device works, by a
/// fault file that may have been read `fault_age_ns` ago.
template <class Work>
int compute_call(int fd, Work work, uint64_t fault_age_ns = 0) {
  return info_call(fd, [&](context& c) {
    if (c.is_control()) return -ENOTTY;
    const int rc = c.health(fault_age_ns);
    return rc != 0 ? rc : work(c);
  });
}

}  // namespace hlsim
