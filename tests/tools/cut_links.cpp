// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Preloaded into any program that uses libfabric: ends one of libfabric's own connections now and
// then, at random, as a link that fails does. Over tcp the connection is shut down or, one time in
// eight, reset, which throws away what is under way in both directions; over verbs the queue pair
// goes into the error state. Sockets that are not libfabric's (MPI's launcher, a test's own
// channel), and connections of a process with itself, are left alone.
//   GAUDI_CUT_EVERY_MS  mean time between two cuts of a process (default 50)
//   GAUDI_CUT_MOST      a process makes so many at most (default: no limit)
//   GAUDI_CUT_SEED      what times and connections are drawn from (default 1)
//   GAUDI_CUT_REPORT    a folder in which each process keeps a file cuts.PID, its number of cuts
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

std::uint64_t number(const char* name, std::uint64_t otherwise) {
  const char* text = getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

template <class Function>
Function real(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

bool is_libfabric(const void* caller) {
  Dl_info info{};
  if (dladdr(caller, &info) == 0 || info.dli_fname == nullptr) return false;
  const char* file = std::strrchr(info.dli_fname, '/');
  return std::strncmp(file ? file + 1 : info.dli_fname, "libfabric", 9) == 0;
}

bool is_ip(const sockaddr* address) {
  return address != nullptr && (address->sa_family == AF_INET || address->sa_family == AF_INET6);
}

/// An end of a connection, as getsockname or getpeername tells it. Empty: there is none.
std::string name_of(int (*tell)(int, sockaddr*, socklen_t*), int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (tell(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) return {};
  return {reinterpret_cast<const char*>(&address), length};
}

/// The connections of this process and the thread that cuts them. Never destroyed: the thread
/// outlives main().
class cutter {
 public:
  void add_socket(int fd) {
    const std::lock_guard lock(mutex_);
    start();
    sockets_.push_back(fd);
  }

  void add_queue_pair(rdma_cm_id* id) {
    const std::lock_guard lock(mutex_);
    start();
    queue_pairs_.push_back(id);
  }

  void remove(int fd) {
    const std::lock_guard lock(mutex_);
    std::erase(sockets_, fd);
  }

  void remove(rdma_cm_id* id) {
    const std::lock_guard lock(mutex_);
    std::erase(queue_pairs_, id);
  }

 private:
  // A fork has neither the thread nor a use for its parent's connections.
  void start() {
    if (owner_ == getpid()) return;
    owner_ = getpid();
    sockets_.clear();
    queue_pairs_.clear();
    random_.seed(number("GAUDI_CUT_SEED", 1) + static_cast<std::uint64_t>(owner_));
    std::thread([this] { run(); }).detach();
  }

  void run() {
    const std::uint64_t most = number("GAUDI_CUT_MOST", UINT64_MAX);
    const std::uint64_t mean = number("GAUDI_CUT_EVERY_MS", 50);
    for (std::uint64_t made = 0; made < most;) {
      std::this_thread::sleep_for(std::chrono::microseconds(draw(mean * 2000 + 1)));
      if (!cut()) continue;
      report(++made);
    }
  }

  bool cut() {
    const std::lock_guard lock(mutex_);
    const std::size_t all = sockets_.size() + queue_pairs_.size();
    if (all == 0) return false;
    const std::size_t chosen = random_() % all;
    if (chosen < sockets_.size()) {
      if (!cut(sockets_[chosen])) return false;
      sockets_.erase(sockets_.begin() + static_cast<std::ptrdiff_t>(chosen));
      return true;
    }
    return cut(queue_pairs_[chosen - sockets_.size()]);
  }

  // An endpoint's connection with itself has no link. Its other end is here, or the listener is.
  static bool is_with_itself(int fd) {
    constexpr int most = 1024;
    const std::string peer = name_of(getpeername, fd);
    for (int other = 0; other < most; ++other)
      if (name_of(getsockname, other) == peer) return true;
    return false;
  }

  bool cut(int fd) {
    if (is_with_itself(fd)) return false;
    if (random_() % 8 != 0) return shutdown(fd, SHUT_RDWR) == 0;
    // Dissolves the association: the peer is sent a reset.
    const sockaddr nobody{.sa_family = AF_UNSPEC, .sa_data = {}};
    static const auto call = real<int (*)(int, const sockaddr*, socklen_t)>("connect");
    if (call(fd, &nobody, sizeof nobody) != 0) return false;
    // As after any reset that the kernel makes: without it, poll(2) says POLLHUP alone, for which
    // libfabric's tcp does not look (1.17: tcpx_progress in prov/tcp/src/tcpx_cq.c).
    static_cast<void>(shutdown(fd, SHUT_RDWR));
    return true;
  }

  /// A NIC's connection with itself, both ends of which are here, has no link either.
  bool is_with_itself(rdma_cm_id* id) const {
    return std::ranges::any_of(queue_pairs_, [id](rdma_cm_id* other) {
      return rdma_get_src_port(other) == rdma_get_dst_port(id) &&
             rdma_get_dst_port(other) == rdma_get_src_port(id);
    });
  }

  bool cut(rdma_cm_id* id) {
    // One that is being connected sends nothing yet that could fail.
    if (id->qp == nullptr || id->qp->state != IBV_QPS_RTS || is_with_itself(id)) return false;
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_ERR;
    return ibv_modify_qp(id->qp, &attributes, IBV_QP_STATE) == 0;
  }

  void report(std::uint64_t made) const {
    if (const char* folder = getenv("GAUDI_CUT_REPORT"))
      std::ofstream(std::string(folder) + "/cuts." + std::to_string(owner_)) << made << '\n';
  }

  std::uint64_t draw(std::uint64_t below) {
    const std::lock_guard lock(mutex_);
    return random_() % below;
  }

  std::mutex mutex_;
  pid_t owner_ = 0;
  std::vector<int> sockets_;
  std::vector<rdma_cm_id*> queue_pairs_;
  std::mt19937_64 random_;
};

cutter& links() {
  static auto* const all = new cutter;
  return *all;
}

}  // namespace

#define GAUDI_CUT_EXPORT extern "C" __attribute__((visibility("default")))

GAUDI_CUT_EXPORT int connect(int fd, const sockaddr* address, socklen_t length) {
  static const auto call = real<int (*)(int, const sockaddr*, socklen_t)>("connect");
  const int result = call(fd, address, length);
  const int error = errno;
  if ((result == 0 || error == EINPROGRESS) && is_ip(address) &&
      is_libfabric(__builtin_return_address(0)))
    links().add_socket(fd);
  errno = error;
  return result;
}

GAUDI_CUT_EXPORT int accept(int fd, sockaddr* address, socklen_t* length) {
  static const auto call = real<int (*)(int, sockaddr*, socklen_t*)>("accept");
  const int result = call(fd, address, length);
  const int error = errno;
  if (result >= 0 && is_libfabric(__builtin_return_address(0))) links().add_socket(result);
  errno = error;
  return result;
}

GAUDI_CUT_EXPORT int close(int fd) {
  static const auto call = real<int (*)(int)>("close");
  links().remove(fd);
  return call(fd);
}

GAUDI_CUT_EXPORT int rdma_create_qp(rdma_cm_id* id, ibv_pd* pd, ibv_qp_init_attr* attributes) {
  static const auto call = real<int (*)(rdma_cm_id*, ibv_pd*, ibv_qp_init_attr*)>("rdma_create_qp");
  const int result = call(id, pd, attributes);
  if (result == 0) links().add_queue_pair(id);
  return result;
}

GAUDI_CUT_EXPORT void rdma_destroy_qp(rdma_cm_id* id) {
  static const auto call = real<void (*)(rdma_cm_id*)>("rdma_destroy_qp");
  links().remove(id);
  call(id);
}

GAUDI_CUT_EXPORT int rdma_destroy_id(rdma_cm_id* id) {
  static const auto call = real<int (*)(rdma_cm_id*)>("rdma_destroy_id");
  links().remove(id);
  return call(id);
}

GAUDI_CUT_EXPORT void rdma_destroy_ep(rdma_cm_id* id) {
  static const auto call = real<void (*)(rdma_cm_id*)>("rdma_destroy_ep");
  links().remove(id);
  call(id);
}
