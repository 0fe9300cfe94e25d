// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ipc/host_kernel.hpp"

#include <rdma/fi_errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <new>
#include <utility>

#include "ipc/host_identity.hpp"

namespace gaudi::ipc {

host_kernel& host_kernel::real() noexcept {
  static host_kernel kernel;
  return kernel;
}

std::uint32_t host_kernel::identity() {
  return host_identity();
}

bool host_kernel::has_one_cpu() const noexcept {
  static const bool only_one = ::sysconf(_SC_NPROCESSORS_ONLN) == 1;
  return only_one;
}

base::result<std::unique_ptr<fd_source>> host_kernel::listen(std::uint64_t instance) {
  auto opened = fd_listener::open(instance);
  if (!opened) return opened.failure();
  return std::unique_ptr<fd_source>(std::make_unique<fd_listener>(std::move(*opened)));
}

base::result<control_socket> host_kernel::send_fd(const fd_handshake_id& says, int memory) {
  return ipc::send_fd(says, memory);
}

base::result<void*> host_kernel::map(int memory, std::size_t size) {
  void* const at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
  if (at == MAP_FAILED) return base::error{-errno};
  // A child of fork does not use the connection, and must not keep the memory.
  ::madvise(at, size, MADV_DONTFORK);
  return at;
}

void host_kernel::unmap(void* at, std::size_t size) noexcept {
  ::munmap(at, size);
}

base::result<std::unique_ptr<peer_memory>> host_kernel::find(const control_socket& with,
                                                             std::uint64_t address,
                                                             std::uint64_t value) {
  auto found = peer_process::find(with.pid, address, value);
  if (!found) return found.failure();
  // Not thrown: whoever asks has heard from the peer by now, and would not hear it again.
  std::unique_ptr<peer_memory> peer(new (std::nothrow) peer_process(std::move(*found)));
  if (!peer) return base::error{-FI_ENOMEM};
  return peer;
}

}  // namespace gaudi::ipc
