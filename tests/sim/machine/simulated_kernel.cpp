// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "sim/machine/simulated_kernel.hpp"

#include <fcntl.h>
#include <rdma/fi_errno.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <vector>

namespace gaudi::sim {

struct machine_process {
  host* at;
  unsigned machine;
  int pid;
  bool has_closed = false;
  nanoseconds known_from = 0;               // of its end
  std::map<void*, std::size_t> mappings{};  // of shared memory
  struct pending {
    ipc::fd_handshake_id id;
    ipc::received_fd received;
  };
  std::deque<pending> came{};
};

namespace {

class simulated_source final : public ipc::fd_source {
 public:
  simulated_source(machines& all, std::shared_ptr<machine_process> self, std::uint64_t instance)
      : all_(all), self_(std::move(self)), instance_(instance) {
    all_.listening[instance] = self_.get();
  }
  ~simulated_source() override {
    all_.listening.erase(instance_);
    self_->came.clear();
  }
  simulated_source(const simulated_source&) = delete;
  simulated_source& operator=(const simulated_source&) = delete;

  std::optional<ipc::received_fd> take(const ipc::fd_handshake_id& expected) override {
    auto& came = self_->came;
    const auto found =
        std::find_if(came.begin(), came.end(), [&](const auto& one) { return one.id == expected; });
    if (found == came.end()) return std::nullopt;
    ipc::received_fd received = std::move(found->received);
    came.erase(found);
    network& net = self_->at->net();
    if (net.numbers().chance(net.how().refused_sharing)) return std::nullopt;
    return received;
  }
  void accept_pending() override {}

 private:
  machines& all_;
  const std::shared_ptr<machine_process> self_;
  const std::uint64_t instance_;
};

// By the real kernel: at such an address there may be no memory, or none any more. 0 or -errno.
int read_from_anywhere(void* to, std::uint64_t from, std::size_t length) noexcept {
  const iovec here{to, length};
  const iovec there{reinterpret_cast<void*>(from), length};
  const ssize_t got = ::process_vm_readv(::getpid(), &here, 1, &there, 1, 0);
  if (got < 0) return -errno;
  return static_cast<std::size_t>(got) == length ? 0 : -EFAULT;
}

// All processes are one here: an address means the same everywhere.
class simulated_memory final : public ipc::peer_memory {
 public:
  simulated_memory(std::shared_ptr<machine_process> reader, std::shared_ptr<machine_process> of)
      : reader_(std::move(reader)), of_(std::move(of)) {}

  [[nodiscard]] bool is_this_process() const noexcept override { return reader_ == of_; }
  // A process that is ending has lost its memory before it has ended.
  [[nodiscard]] bool has_ended() const noexcept override {
    return !of_->at->is_alive() && net().now() >= of_->known_from;
  }
  int read(void* to, std::uint64_t from, std::size_t length) const noexcept override {
    const int ret = access();
    if (ret == 0 && is_of_forger()) return read_from_anywhere(to, from, length);
    if (ret == 0) std::memcpy(to, reinterpret_cast<const void*>(from), length);
    return ret;
  }
  // What a forger names may be another process's here, and nobody looks at what it has.
  int write(std::uint64_t to, const void* from, std::size_t length) const noexcept override {
    const int ret = access();
    if (ret == 0 && !is_of_forger()) std::memcpy(reinterpret_cast<void*>(to), from, length);
    return ret;
  }

  // Whoever is dead itself copies nothing.
  [[nodiscard]] int access() const noexcept {
    if (!of_->at->is_alive() || !reader_->at->is_alive()) return -FI_ECONNRESET;
    if (of_->has_closed && is_of_forger()) return -FI_EFAULT;
    if (of_->has_closed) {
      net().complain("memory of a process was accessed that has closed its endpoint");
      return -FI_EFAULT;
    }
    return net().numbers().chance(net().how().denied_memory) ? -EPERM : 0;
  }

 private:
  [[nodiscard]] network& net() const noexcept { return of_->at->net(); }
  [[nodiscard]] bool is_of_forger() const noexcept {
    return net().is_forger(*of_->at) || net().is_forger(*reader_->at);
  }

  const std::shared_ptr<machine_process> reader_;
  const std::shared_ptr<machine_process> of_;
};

// The peer may have given the memory back, and use it for anything.
std::optional<std::uint64_t> word_at(std::uint64_t address) noexcept {
  std::uint64_t word = 0;
  return read_from_anywhere(&word, address, sizeof word) == 0 ? std::optional(word) : std::nullopt;
}

}  // namespace

simulated_kernel::simulated_kernel(machines& all, host& process, unsigned machine)
    : all_(all),
      machine_(machine),
      self_(std::make_shared<machine_process>(
          machine_process{.at = &process, .machine = machine, .pid = ++all.last_pid})) {
  all_.processes[self_->pid] = self_;
}

simulated_kernel::~simulated_kernel() {
  all_.processes.erase(self_->pid);
}

void simulated_kernel::kill() {
  for (const auto& [at, size] : self_->mappings) {
    const auto* const bytes = static_cast<const std::byte*>(at);
    const std::vector<std::byte> now(bytes, bytes + size);
    ::mmap(at, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    std::memcpy(at, now.data(), size);
  }
  network& net = self_->at->net();
  self_->known_from = net.now() + net.some(net.how().notice);
}

void simulated_kernel::closed() noexcept {
  self_->has_closed = true;
}

void simulated_kernel::forge() {
  for (auto& [at, memory] : forged_) memory.forge(*self_->at);
}

bool simulated_kernel::is_refused() const {
  network& net = self_->at->net();
  return net.numbers().chance(net.how().refused_sharing);
}

std::uint32_t simulated_kernel::identity() {
  return machine_ + 1;
}

// So that rings get full.
std::size_t simulated_kernel::min_ring() const noexcept {
  return 1024;
}

base::result<std::unique_ptr<ipc::fd_source>> simulated_kernel::listen(std::uint64_t instance) {
  if (is_refused()) return base::error{-EMFILE};
  return std::unique_ptr<ipc::fd_source>(std::make_unique<simulated_source>(all_, self_, instance));
}

base::result<ipc::control_socket> simulated_kernel::send_fd(const ipc::fd_handshake_id& says,
                                                            int memory) {
  const auto to = all_.listening.find(says.to_instance);
  if (to == all_.listening.end() || !to->second->at->is_alive() || !self_->at->is_alive() ||
      is_refused())
    return base::error{-FI_ECONNREFUSED};
  if (to->second->machine != machine_) {
    // A forger may say that it is here.
    if (!self_->at->net().has_forger())
      self_->at->net().complain("memory was to be shared with another machine");
    return base::error{-FI_ECONNREFUSED};
  }
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0)
    return base::error{-errno};
  base::scoped_fd copy(::fcntl(memory, F_DUPFD_CLOEXEC, 0));
  to->second->came.push_back({says, {{base::scoped_fd(ends[1]), self_->pid}, std::move(copy)}});
  return ipc::control_socket{base::scoped_fd(ends[0]), to->second->pid};
}

base::result<void*> simulated_kernel::map(int memory, std::size_t size) {
  if (is_refused()) return base::error{-ENOMEM};
  auto mapped = host_kernel::map(memory, size);
  if (!mapped) return mapped;
  self_->mappings[*mapped] = size;
  if (self_->at->net().is_forger(*self_->at)) forged_.try_emplace(*mapped, *mapped, size);
  return mapped;
}

void simulated_kernel::unmap(void* at, std::size_t size) noexcept {
  self_->mappings.erase(at);
  forged_.erase(at);
  host_kernel::unmap(at, size);
}

base::result<std::unique_ptr<ipc::peer_memory>> simulated_kernel::find(
    const ipc::control_socket& with, std::uint64_t address, std::uint64_t value) {
  const auto known = all_.processes.find(with.pid);
  auto of = known == all_.processes.end() ? nullptr : known->second.lock();
  if (!of || !of->at->is_alive()) return base::error{-ESRCH};
  if (is_refused()) return base::error{-EPERM};
  auto found = std::make_unique<simulated_memory>(self_, std::move(of));
  if (const int ret = found->access()) return base::error{ret};
  if (word_at(address) != value) return base::error{-FI_EINVAL};
  return std::unique_ptr<ipc::peer_memory>(std::move(found));
}

}  // namespace gaudi::sim
