// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What a connected peer costs that says nothing: resident memory of one endpoint per peer, each in
// a process of its own that sent one message.
//   perf_idle_peers PROVIDER PEERS      prints KiB per peer
#include <rdma/fi_tagged.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "fabric.hpp"

namespace {

using gaudi::perf::must;

long resident_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmRSS:", 0) == 0) return std::stol(line.substr(6));
  }
  return 0;
}

void wait_for_one(fid_cq* cq) {
  fi_cq_tagged_entry entry{};
  for (;;) {
    const ssize_t ret = fi_cq_read(cq, &entry, 1);
    if (ret == 1) return;
    if (ret != -FI_EAGAIN) must(ret, "fi_cq_read");
  }
}

void be_peer(const char* provider, int name_pipe, int end_pipe) {
  char name[64];
  if (::read(name_pipe, name, sizeof name) <= 0) std::_Exit(1);
  gaudi::perf::rdm self(provider);
  self.open_endpoint();
  fi_addr_t root = 0;
  must(fi_av_insert(self.av.get(), name, 1, &root, 0, nullptr) == 1 ? 0 : -FI_EINVAL,
       "fi_av_insert");
  char byte = 1;
  fi_context2 context{};
  ssize_t ret;
  do {
    ret = fi_tsend(self.ep.get(), &byte, 1, nullptr, root, 1, &context);
    fi_cq_read(self.cq.get(), nullptr, 0);
  } while (ret == -FI_EAGAIN);
  must(ret, "fi_tsend");
  wait_for_one(self.cq.get());
  // Stays connected until the root has looked.
  if (::read(end_pipe, &byte, 1) < 0) std::_Exit(1);
  std::_Exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s PROVIDER PEERS\n", argv[0]);
    return 2;
  }
  const int peers = std::atoi(argv[2]);
  int name_pipe[2];
  int end_pipe[2];
  if (::pipe(name_pipe) != 0 || ::pipe(end_pipe) != 0) return 1;
  std::vector<pid_t> children;
  for (int i = 0; i < peers; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(end_pipe[1]);
      ::close(name_pipe[1]);
      be_peer(argv[1], name_pipe[0], end_pipe[0]);
    }
    children.push_back(child);
  }

  gaudi::perf::rdm self(argv[1]);
  self.open_endpoint();
  char name[64] = {};
  std::size_t length = sizeof name;
  must(fi_getname(&self.ep->fid, name, &length), "fi_getname");
  char byte = 0;
  fi_context2 context{};
  // One peer before counting: what the endpoint itself needs is there then.
  const auto admit = [&] {
    if (::write(name_pipe[1], name, sizeof name) != sizeof name) std::exit(1);
    must(fi_trecv(self.ep.get(), &byte, 1, nullptr, FI_ADDR_UNSPEC, 1, 0, &context), "fi_trecv");
    wait_for_one(self.cq.get());
  };
  admit();
  const long before = resident_kib();
  for (int i = 1; i < peers; ++i) admit();
  const long after = resident_kib();
  std::printf("%.2f\n", static_cast<double>(after - before) / (peers - 1));
  ::close(end_pipe[1]);
  int bad = 0;
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    bad += status != 0;
  }
  return bad != 0;
}
