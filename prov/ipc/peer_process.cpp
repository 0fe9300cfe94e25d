// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ipc/peer_process.hpp"

#include <poll.h>
#include <rdma/fi_errno.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>

#include "base/cancellation_deferred.hpp"

namespace gaudi::ipc {
namespace {

// glibc has no name for it before 2.36.
base::scoped_fd watch_of(pid_t pid) noexcept {
  return base::scoped_fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

using copy_call = ssize_t (*)(pid_t, const iovec*, unsigned long, const iovec*, unsigned long,
                              unsigned long);

// The kernel stops at the first page that it cannot have, and at 2 GiB.
int copy_all(copy_call call, pid_t pid, void* here, std::uint64_t there,
             std::size_t length) noexcept {
  auto* at = static_cast<std::byte*>(here);
  while (length != 0) {
    const iovec local{at, length};
    const iovec remote{reinterpret_cast<void*>(there), length};
    const ssize_t done = call(pid, &local, 1, &remote, 1, 0);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return done < 0 ? -errno : -FI_EFAULT;
    at += done;
    there += static_cast<std::uint64_t>(done);
    length -= static_cast<std::size_t>(done);
  }
  return 0;
}

}  // namespace

base::result<peer_process> peer_process::find(pid_t pid, std::uint64_t address,
                                              std::uint64_t value) {
  if (pid <= 0) return base::error{-ESRCH};
  base::scoped_fd watch = watch_of(pid);
  if (!watch) return base::error{-errno};
  peer_process found(pid, std::move(watch));
  std::uint64_t seen = 0;
  if (const int ret = found.read(&seen, address, sizeof seen)) return base::error{ret};
  if (seen != value) return base::error{-FI_EINVAL};
  return found;
}

peer_process::peer_process(pid_t pid, base::scoped_fd watch) noexcept
    : pid_(pid), is_this_process_(pid == ::getpid()), watch_(std::move(watch)) {}

bool peer_process::has_ended() const noexcept {
  const base::cancellation_deferred until_it_is_known;
  pollfd ask{.fd = watch_.get(), .events = POLLIN, .revents = 0};
  return ::poll(&ask, 1, 0) > 0;
}

bool peer_process::is_denial(int code) noexcept {
  return code == -EPERM || code == -EACCES || code == -ENOSYS;
}

// Asked afterwards: as long as it has not ended, its number was its own.
int peer_process::read(void* to, std::uint64_t from, std::size_t length) const noexcept {
  const int ret = copy_all(::process_vm_readv, pid_, to, from, length);
  // A process that is ending has lost its memory before it has ended.
  return has_ended() || ret == -ESRCH ? -FI_ECONNRESET : ret;
}

// Asked before: numbers go round, and do not come back between two system calls.
int peer_process::write(std::uint64_t to, const void* from, std::size_t length) const noexcept {
  if (has_ended()) return -FI_ECONNRESET;
  const int ret = copy_all(::process_vm_writev, pid_, const_cast<void*>(from), to, length);
  return ret == -ESRCH ? -FI_ECONNRESET : ret;
}

}  // namespace gaudi::ipc
