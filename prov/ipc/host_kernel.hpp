// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/result.hpp"
#include "ipc/fd_listener.hpp"
#include "ipc/peer_process.hpp"

namespace gaudi::ipc {

/// What processes on one host need of its kernel to share memory: to be known as one host's, to
/// send each other descriptors, to map what these name, and to reach each other's memory. A seam:
/// this is the kernel's own, and the simulator has hosts of its own. Has no state; any thread.
class host_kernel {
 public:
  virtual ~host_kernel() = default;

  /// The one of this machine.
  static host_kernel& real() noexcept;

  /// As host_identity().
  [[nodiscard]] virtual std::uint32_t identity();
  /// Bytes of a ring at least: few enough to stay in the processors' caches while it goes round.
  [[nodiscard]] virtual std::size_t min_ring() const noexcept { return std::size_t{128} * 1024; }
  /// Bytes of one piece of a copy that two processes make together: some 10 to 30 us, so that
  /// whoever has the last one is not waited for long.
  [[nodiscard]] virtual std::uint32_t copy_piece() const noexcept { return 128 * 1024; }
  /// Bytes of device memory at least whose dma-buf a peer gets that has none of the allocation yet:
  /// shorter ones are staged sooner than its NIC learns of their memory.
  [[nodiscard]] virtual std::size_t min_passed() const noexcept { return std::size_t{128} * 1024; }
  /// Who helps takes it from who copies then. (Not what this process may use: ranks are often bound
  /// to one each.)
  [[nodiscard]] virtual bool has_one_cpu() const noexcept;
  /// As fd_listener::open.
  virtual base::result<std::unique_ptr<fd_source>> listen(std::uint64_t instance);
  /// As ipc::send_fd.
  virtual base::result<control_socket> send_fd(const fd_handshake_id& says, int memory);
  /// Maps all of a memory file of so many bytes, which a fork's child does not have. Errors are
  /// mmap's, negative.
  virtual base::result<void*> map(int memory, std::size_t size);
  virtual void unmap(void* at, std::size_t size) noexcept;
  /// As peer_process::find, of the process at the other end; -FI_ENOMEM besides.
  virtual base::result<std::unique_ptr<peer_memory>> find(const control_socket& with,
                                                          std::uint64_t address,
                                                          std::uint64_t value);
};

}  // namespace gaudi::ipc
