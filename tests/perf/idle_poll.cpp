// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Reads an empty completion queue of an endpoint with many connected peers that say nothing, for
// instruction_cost.py to count its instructions. The peers are endpoints of the same process; all
// of them send their first message at once, so that this is a storm of connection requests, too.
//   perf_idle_poll PEERS COUNT
// More than 1,024 peers need FI_GAUDI_MAX_CONNECTIONS=0, and three files each.
#include <rdma/fi_tagged.h>

#include <array>
#include <cstddef>
#include <deque>
#include <vector>

#include "fabric.hpp"

namespace {

using gaudi::perf::must;
using gaudi::perf::owned;

/// One message to the endpoint in the middle, from an endpoint of its own.
class peer {
 public:
  peer(gaudi::perf::rdm& of, fi_addr_t to) : to_(to) {
    fid_ep* ep = nullptr;
    must(fi_endpoint(of.domain.get(), of.info.get(), &ep, nullptr), "fi_endpoint");
    ep_.reset(ep);
    must(fi_ep_bind(ep, &of.cq->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
    must(fi_ep_bind(ep, &of.av->fid, 0), "fi_ep_bind");
    must(fi_enable(ep), "fi_enable");
  }
  /// Whether the message is posted; false: to be tried again.
  bool post() {
    if (is_posted_) return true;
    const long ret = fi_tsend(ep_.get(), &byte_, 1, nullptr, to_, 1, &context_);
    if (ret != -FI_EAGAIN) must(ret, "fi_tsend");
    is_posted_ = ret == 0;
    return is_posted_;
  }

 private:
  fi_addr_t to_;
  owned<fid_ep> ep_;
  fi_context2 context_{};
  char byte_ = 1;
  bool is_posted_ = false;
};

fi_addr_t insert(const gaudi::perf::rdm& into, fid_ep* whose) {
  std::array<std::byte, 64> name{};
  std::size_t length = name.size();
  must(fi_getname(&whose->fid, name.data(), &length), "fi_getname");
  fi_addr_t to = 0;
  must(fi_av_insert(into.av.get(), name.data(), 1, &to, 0, nullptr) == 1 ? 0 : -FI_EINVAL,
       "fi_av_insert");
  return to;
}

/// 1 or 0 completions.
std::size_t read_one(fid_cq* cq) {
  fi_cq_tagged_entry entry{};
  const ssize_t ret = fi_cq_read(cq, &entry, 1);
  if (ret == -FI_EAGAIN) return 0;
  must(ret, "fi_cq_read");
  return static_cast<std::size_t>(ret);
}

/// Each peer's message arrives.
void connect_all(const gaudi::perf::rdm& middle, const gaudi::perf::rdm& others,
                 std::deque<peer>& peers) {
  std::vector<fi_context2> contexts(peers.size());
  std::vector<char> bytes(peers.size());
  std::size_t posted = 0;
  std::size_t received = 0;
  std::size_t sent = 0;
  while (received < peers.size() || sent < peers.size()) {
    // As many receives as a queue takes, and the next as those end.
    while (posted < peers.size() && fi_trecv(middle.ep.get(), &bytes[posted], 1, nullptr,
                                             FI_ADDR_UNSPEC, 1, 0, &contexts[posted]) == 0)
      ++posted;
    if (sent < peers.size()) {
      for (peer& p : peers) p.post();
    }
    received += read_one(middle.cq.get());
    sent += read_one(others.cq.get());
  }
}

}  // namespace

/// Callgrind counts from its start to its end.
extern "C" __attribute__((noinline)) void counted(fid_cq* cq, int count) {
  for (int i = 0; i < count; ++i) read_one(cq);
}

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s PEERS COUNT\n", argv[0]);
    return 2;
  }
  gaudi::perf::rdm middle("gaudi");
  gaudi::perf::rdm others("gaudi");
  middle.open_endpoint();
  others.open_endpoint();
  const fi_addr_t to = insert(others, middle.ep.get());
  std::deque<peer> peers;
  for (int i = 0; i < std::atoi(argv[1]); ++i) peers.emplace_back(others, to);
  connect_all(middle, others, peers);
  for (int warm = 0; warm < 1000; ++warm) read_one(middle.cq.get());
  counted(middle.cq.get(), std::atoi(argv[2]));
}
