// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Tagged ping-pong of host memory between two processes, over two providers in turn in short
// blocks: what slows a whole process down (its pages, its CPU's clock, a neighbour) meets both
// alike, and a ratio of a few per cent can be told from noise.
//   perf_ping_pong SIZE ROUNDS PAIRS PROVIDER PROVIDER [OTHERS]
// prints, for each pair of blocks of ROUNDS, the mean one-way time in us over the first and the
// second. With OTHERS, as HCL does it: FI_PROGRESS_AUTO, and so many other endpoints in the domain,
// each with a queue of its own.
#include <rdma/fi_tagged.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <vector>

#include "fabric.hpp"

namespace {

using gaudi::perf::must;
using clock_type = std::chrono::steady_clock;

/// Both processes have the same CPU: whoever has nothing to do gives it up.
bool shares_cpu = false;

/// Of the CPUs that the process may use, the first or the last: each process has its own, if there
/// are two.
void stay_on_a_cpu(bool first) {
  cpu_set_t all;
  must(sched_getaffinity(0, sizeof all, &all), "sched_getaffinity");
  int chosen = -1;
  for (int cpu = 0; cpu < CPU_SETSIZE && !(first && chosen >= 0); ++cpu) {
    if (CPU_ISSET(cpu, &all)) chosen = cpu;
  }
  shares_cpu = CPU_COUNT(&all) == 1;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(chosen, &one);
  must(sched_setaffinity(0, sizeof one, &one), "sched_setaffinity");
}

/// One process's end of a conversation over one provider.
class end {
 public:
  end(const char* provider, std::size_t size, int to_peer, std::size_t others)
      : fabric_(provider, false, 0, others != 0 ? FI_PROGRESS_AUTO : FI_PROGRESS_MANUAL),
        in_(size),
        out_(size) {
    fabric_.open_endpoint();
    for (std::size_t i = 0; i < others; ++i) others_.push_back(fabric_.open_another());
    std::array<char, 64> name{};
    std::size_t length = name.size();
    must(fi_getname(&fabric_.ep->fid, name.data(), &length), "fi_getname");
    must(write(to_peer, name.data(), name.size()), "write");
    must(read(to_peer, name.data(), name.size()), "read");
    const bool known = fi_av_insert(fabric_.av.get(), name.data(), 1, &peer_, 0, nullptr) == 1;
    must(known ? 0 : -FI_EINVAL, "fi_av_insert");
    post_receive();
  }

  /// A first connection may need several tries.
  void send() {
    long ret;
    while ((ret = fi_tsend(fabric_.ep.get(), out_.data(), out_.size(), nullptr, peer_, 1,
                           &send_context_)) == -FI_EAGAIN) {
      take();
    }
    must(ret, "fi_tsend");
    ++unsent_;
  }

  /// A receive is posted for the next message as soon as this one has come.
  void receive() {
    while (!arrived_ || unsent_ > 0) take();
    arrived_ = false;
    post_receive();
  }

 private:
  void post_receive() {
    must(
        fi_trecv(fabric_.ep.get(), in_.data(), in_.size(), nullptr, peer_, 1, 0, &receive_context_),
        "fi_trecv");
  }

  void take() {
    fi_cq_tagged_entry entry{};
    const ssize_t ret = fi_cq_read(fabric_.cq.get(), &entry, 1);
    if (ret == -FI_EAGAIN) {
      if (shares_cpu) sched_yield();
      return;
    }
    must(ret, "fi_cq_read");
    if (entry.op_context == &receive_context_) {
      arrived_ = true;
    } else {
      --unsent_;
    }
  }

  gaudi::perf::rdm fabric_;
  std::vector<gaudi::perf::endpoint_set> others_;
  std::vector<char> in_, out_;
  fi_addr_t peer_ = 0;
  fi_context2 send_context_{}, receive_context_{};
  bool arrived_ = false;
  int unsent_ = 0;
};

void answer(end& one, std::size_t rounds) {
  for (std::size_t i = 0; i < rounds; ++i) {
    one.receive();
    one.send();
  }
}

/// us, one way
double ask(end& one, std::size_t rounds) {
  const auto from = clock_type::now();
  for (std::size_t i = 0; i < rounds; ++i) {
    one.send();
    one.receive();
  }
  return std::chrono::duration<double, std::micro>(clock_type::now() - from).count() /
         static_cast<double>(2 * rounds);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6 && argc != 7) {
    std::fprintf(stderr, "usage: %s SIZE ROUNDS PAIRS PROVIDER PROVIDER [OTHERS]\n", argv[0]);
    return 2;
  }
  const auto number = [&](int i) { return static_cast<std::size_t>(std::atoll(argv[i])); };
  const std::size_t size = number(1), rounds = number(2), pairs = number(3);
  const std::size_t others = argc == 7 ? number(6) : 0;
  std::array<int, 2> sockets{};
  must(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets.data()), "socketpair");
  // Before libfabric is used: what it has open must not be shared.
  const pid_t child = fork();
  must(child, "fork");
  const bool asks = child != 0;
  if (!asks) prctl(PR_SET_PDEATHSIG, SIGKILL);
  stay_on_a_cpu(asks);
  const int to_peer = sockets[asks ? 0 : 1];
  std::array<end, 2> ends{end(argv[4], size, to_peer, others), end(argv[5], size, to_peer, others)};
  const std::size_t warm_up = 100;
  for (std::size_t pair = 0; pair <= pairs; ++pair) {
    std::array<double, 2> took{};
    for (std::size_t i = 0; i < 2; ++i) {
      // The answer to the last of a block's messages has been taken before the next block begins.
      if (asks) {
        took[i] = ask(ends[i], pair == 0 ? warm_up : rounds);
      } else {
        answer(ends[i], pair == 0 ? warm_up : rounds);
      }
    }
    if (asks && pair > 0) std::printf("%.3f %.3f\n", took[0], took[1]);
  }
  if (!asks) _exit(0);
  int status = 0;
  must(waitpid(child, &status, 0), "waitpid");
  return status == 0 ? 0 : 1;
}
