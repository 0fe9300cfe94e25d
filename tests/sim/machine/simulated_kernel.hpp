// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <utility>

#include "ipc/host_kernel.hpp"
#include "sim/core/network.hpp"
#include "sim/machine/memory_forger.hpp"

namespace gaudi::sim {

struct machine_process;

/// What the kernels of all machines know: which process takes descriptors for which endpoint.
struct machines {
  std::map<std::uint64_t, machine_process*> listening;  // by the endpoint's instance
  std::map<int, std::weak_ptr<machine_process>> processes;
  int last_pid = 0;
};

/// The kernel of one process's machine. Memory is shared by real descriptors and sockets within the
/// simulator, which wait for nobody; but processes end when the simulation says so, and the kernel
/// refuses what real ones refuse (conditions::refused_sharing, denied_memory).
class simulated_kernel final : public ipc::host_kernel {
 public:
  /// `machine`: processes with the same number share memory. All references outlive it.
  simulated_kernel(machines& all, host& process, unsigned machine);
  ~simulated_kernel() override;
  simulated_kernel(const simulated_kernel&) = delete;
  simulated_kernel& operator=(const simulated_kernel&) = delete;

  /// What the process still writes is seen by nobody, and its memory is gone.
  void kill();
  /// Its application has closed the endpoint: nobody reads or writes its memory any more.
  void closed() noexcept;
  /// The end of a turn, of a process that may not be honest.
  void forge();

  [[nodiscard]] std::uint32_t identity() override;
  [[nodiscard]] std::size_t min_ring() const noexcept override;
  [[nodiscard]] std::uint32_t copy_piece() const noexcept override { return 512; }
  [[nodiscard]] std::size_t min_passed() const noexcept override { return 512; }
  [[nodiscard]] bool has_one_cpu() const noexcept override { return false; }
  base::result<std::unique_ptr<ipc::fd_source>> listen(std::uint64_t instance) override;
  base::result<ipc::control_socket> send_fd(const ipc::fd_handshake_id& says, int memory) override;
  base::result<void*> map(int memory, std::size_t size) override;
  void unmap(void* at, std::size_t size) noexcept override;
  base::result<std::unique_ptr<ipc::peer_memory>> find(const ipc::control_socket& with,
                                                       std::uint64_t address,
                                                       std::uint64_t value) override;

 private:
  [[nodiscard]] bool is_refused() const;

  machines& all_;
  const unsigned machine_;
  const std::shared_ptr<machine_process> self_;
  std::map<void*, memory_forger> forged_;  // what it shares, where it is not honest
};

}  // namespace gaudi::sim
