// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// fork(2) by a process with traffic: its data stays right, and the child cannot spoil it.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "node.hpp"

namespace gaudi::test {
namespace {

using bytes = std::vector<std::byte>;

/// Runs `body` in a child; true when it gives true.
template <class Body>
bool in_child(Body body) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(body() ? 0 : 1);
  int status = -1;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void exchange(rank& r, node& n, std::size_t size) {
  const int other = 1 - r.id();
  const bytes out = bytes_of(static_cast<std::uint64_t>(r.id()), size);
  bytes in(size);
  n.post([&] { return fi_trecv(n.ep(), in.data(), size, nullptr, n.peer(other), 1, 0, ctx(1)); });
  n.post([&] { return fi_tsend(n.ep(), out.data(), size, nullptr, n.peer(other), 1, ctx(2)); });
  EXPECT_EQ(n.wait(ctx(1)).err, 0);
  EXPECT_EQ(n.wait(ctx(2)).err, 0);
  expect_same(bytes_of(static_cast<std::uint64_t>(other), size), in, "message");
}

class fork_with : public testing::TestWithParam<fi_progress> {};

TEST_P(fork_with, traffic_leaves_it_right) {
  run({}, [&](rank& r) {
    node n({.caps = FI_MSG | FI_TAGGED | FI_RMA, .mr_mode = 0, .progress = GetParam()});
    n.meet(r);
    memory m(n, 4096, false, 3);
    exchange(r, n, 100000);
    // Something is under way at the moment of the fork.
    const bytes out = bytes_of(5, 500000);
    bytes in(500000);
    const int other = 1 - r.id();
    n.post([&] {
      return fi_trecv(n.ep(), in.data(), in.size(), nullptr, n.peer(other), 2, 0, ctx(3));
    });
    n.post([&] {
      return fi_tsend(n.ep(), out.data(), out.size(), nullptr, n.peer(other), 2, ctx(4));
    });
    EXPECT_TRUE(in_child([&] {
      char byte = 0;
      fi_cq_tagged_entry entry{};
      fid_mr* mr = nullptr;
      return fi_tsend(n.ep(), &byte, 1, nullptr, n.peer(other), 1, nullptr) == -FI_EOPBADSTATE &&
             fi_trecv(n.ep(), &byte, 1, nullptr, n.peer(other), 1, 0, nullptr) == -FI_EOPBADSTATE &&
             fi_write(n.ep(), &byte, 1, nullptr, n.peer(other), 0, 3, nullptr) == -FI_EOPBADSTATE &&
             fi_cq_read(n.cq(), &entry, 1) == -FI_EOPBADSTATE &&
             fi_cq_sread(n.cq(), &entry, 1, nullptr, 10) == -FI_EOPBADSTATE &&
             fi_mr_reg(n.domain(), &byte, 1, FI_REMOTE_READ, 0, 9, 0, &mr, nullptr) ==
                 -FI_EOPBADSTATE &&
             fi_close(&n.ep()->fid) == 0 && fi_close(&n.domain()->fid) == 0;
    }));
    EXPECT_TRUE(in_child([] {
      ::execl("/bin/true", "true", static_cast<char*>(nullptr));
      return false;
    }));
    EXPECT_EQ(n.wait(ctx(3)).err, 0);
    EXPECT_EQ(n.wait(ctx(4)).err, 0);
    expect_same(out, in, "message under way");
    exchange(r, n, 100000);
    r.barrier();
  });
}

INSTANTIATE_TEST_SUITE_P(progress, fork_with, testing::Values(FI_PROGRESS_MANUAL, FI_PROGRESS_AUTO),
                         [](const auto& p) {
                           return p.param == FI_PROGRESS_AUTO ? "automatic" : "manual";
                         });

TEST(fork, child_can_open_its_own) {
  run({.ranks = 1}, [](rank& r) {
    node n({.mr_mode = 0});
    n.meet(r);
    EXPECT_TRUE(in_child([] {
      node own({.mr_mode = 0});
      const std::string name = own.name();
      fi_addr_t self = FI_ADDR_NOTAVAIL;
      if (fi_av_insert(own.av(), name.data(), 1, &self, 0, nullptr) != 1) return false;
      char in = 0;
      own.post([&] { return fi_trecv(own.ep(), &in, 1, nullptr, self, 1, 0, ctx(1)); });
      own.post([&] { return fi_tsend(own.ep(), "y", 1, nullptr, self, 1, ctx(2)); });
      return own.wait(ctx(1)).err == 0 && own.wait(ctx(2)).err == 0 && in == 'y';
    }));
  });
}

}  // namespace
}  // namespace gaudi::test
