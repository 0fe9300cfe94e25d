// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "base/result.hpp"
#include "base/scoped_fd.hpp"

namespace gaudi::ipc {

/// Another process on this host whose memory we may read and write, in one copy and without its
/// help.
class peer_memory {
 public:
  virtual ~peer_memory() = default;

  [[nodiscard]] virtual bool is_this_process() const noexcept = 0;
  /// It reads and writes no memory any more, its own or another's.
  [[nodiscard]] virtual bool has_ended() const noexcept = 0;
  /// Copies `length` bytes at `from` in its memory to `to`. -FI_EFAULT: not its memory.
  /// -FI_ECONNRESET: it has ended, `to` may hold anything. Else see peer_process::is_denial.
  virtual int read(void* to, std::uint64_t from, std::size_t length) const noexcept = 0;
  /// Copies to its memory. Errors as read.
  virtual int write(std::uint64_t to, const void* from, std::size_t length) const noexcept = 0;
};

/// The same by process_vm_readv(2), as far as the kernel allows. It is the process that was there
/// when this was made, and no later one with its number.
class peer_process final : public peer_memory {
 public:
  /// `value` is what must stand at `address` in its memory: the proof that `pid` means the same
  /// process to both. 0 for a pid, as the kernel gives one of another PID namespace, fails.
  /// -EPERM: the kernel forbids it (Yama's ptrace_scope, a container's seccomp filter).
  /// -ESRCH: no such process here. -FI_EINVAL: another process.
  static base::result<peer_process> find(pid_t pid, std::uint64_t address, std::uint64_t value);

  [[nodiscard]] bool is_this_process() const noexcept override { return is_this_process_; }
  /// Whether with this code of read() or write() the kernel has forbidden it, as it may at any
  /// time: to who gives up privileges, and by a seccomp filter.
  [[nodiscard]] static bool is_denial(int code) noexcept;

  [[nodiscard]] bool has_ended() const noexcept override;
  int read(void* to, std::uint64_t from, std::size_t length) const noexcept override;
  int write(std::uint64_t to, const void* from, std::size_t length) const noexcept override;

 private:
  peer_process(pid_t pid, base::scoped_fd watch) noexcept;

  pid_t pid_;
  bool is_this_process_;   // asked once: nothing is used in a child that forks
  base::scoped_fd watch_;  // readable once it has ended (pidfd_open(2))
};

}  // namespace gaudi::ipc
