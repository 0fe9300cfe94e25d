// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What it costs to take unexpected messages in the reverse of the order in which they came, as
// programs with many requests in flight do. An endpoint sends to itself, so that only matching is
// measured.
//   perf_unexpected PROVIDER DEPTH      prints nanoseconds per message
#include <rdma/fi_tagged.h>

#include <chrono>
#include <string>
#include <vector>

#include "fabric.hpp"

namespace {

using gaudi::perf::must;
using clock_type = std::chrono::steady_clock;

constexpr std::size_t batch = 16;

/// Takes a few completions, if there are any.
std::size_t read_some(fid_cq* cq) {
  fi_cq_tagged_entry entries[batch];
  const ssize_t ret = fi_cq_read(cq, entries, batch);
  if (ret == -FI_EAGAIN) return 0;
  must(ret, "fi_cq_read");
  return static_cast<std::size_t>(ret);
}

/// Takes `count` completions.
void reap(fid_cq* cq, std::size_t count) {
  while (count > 0) count -= read_some(cq);
}

template <class Call>
void post(fid_cq* cq, std::size_t& done, Call call) {
  fi_cq_tagged_entry entry{};
  long ret;
  while ((ret = call()) == -FI_EAGAIN) {
    if (fi_cq_read(cq, &entry, 1) == 1) ++done;
  }
  must(ret, "posting");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s PROVIDER DEPTH\n", argv[0]);
    return 2;
  }
  const auto depth = static_cast<std::size_t>(std::atoll(argv[2]));
  gaudi::perf::rdm self(argv[1]);
  self.open_endpoint();
  char name[64];
  std::size_t length = sizeof name;
  must(fi_getname(&self.ep->fid, name, &length), "fi_getname");
  fi_addr_t to = 0;
  must(fi_av_insert(self.av.get(), name, 1, &to, 0, nullptr) == 1 ? 0 : -FI_EINVAL, "fi_av_insert");

  std::vector<fi_context2> contexts(depth + 2);
  std::vector<std::uint64_t> in(depth);
  std::uint64_t out = 7;
  std::size_t sent = 0;
  for (std::size_t tag = 0; tag < depth; ++tag) {
    post(self.cq.get(), sent, [&] {
      return fi_tsend(self.ep.get(), &out, sizeof out, nullptr, to, tag, &contexts[tag]);
    });
  }
  reap(self.cq.get(), depth - sent);
  // The last one sent has come when this one, sent behind it, is received.
  std::size_t none = 0;
  post(self.cq.get(), none, [&] {
    return fi_trecv(self.ep.get(), &in[0], sizeof out, nullptr, to, depth, 0, &contexts[depth]);
  });
  post(self.cq.get(), none, [&] {
    return fi_tsend(self.ep.get(), &out, sizeof out, nullptr, to, depth, &contexts[depth + 1]);
  });
  reap(self.cq.get(), 2 - none);

  const auto start = clock_type::now();
  std::size_t received = 0;
  for (std::size_t tag = depth; tag-- > 0;) {
    post(self.cq.get(), received, [&] {
      return fi_trecv(self.ep.get(), &in[tag], sizeof out, nullptr, to, tag, 0, &contexts[tag]);
    });
    // As programs do, before the queue of completions gets long.
    if (tag % batch == 0) received += read_some(self.cq.get());
  }
  reap(self.cq.get(), depth - received);
  const std::chrono::duration<double, std::nano> took = clock_type::now() - start;
  std::printf("%.2f\n", took.count() / static_cast<double>(depth));
}
