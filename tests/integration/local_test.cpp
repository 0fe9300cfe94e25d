// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Long messages in host memory of two processes on one host, whose kernel may keep each one's
// memory from the other.
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <fstream>
#include <optional>

#include "node.hpp"

namespace gaudi::test {
namespace {

// Nobody without the capability may look into a process that is not dumpable (ptrace(2)). Not for
// longer than the test: LeakSanitizer looks into its own process at the end.
class private_memory {
 public:
  private_memory() { must(::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), "PR_SET_DUMPABLE"); }
  ~private_memory() { ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); }
  private_memory(const private_memory&) = delete;
  private_memory& operator=(const private_memory&) = delete;
};

void look_into_nobody() {
  __user_cap_header_struct head{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> sets{};
  must(::syscall(SYS_capget, &head, sets.data()), "capget");
  auto& set = sets.at(CAP_TO_INDEX(CAP_SYS_PTRACE));
  set.effective &= ~CAP_TO_MASK(CAP_SYS_PTRACE);
  set.permitted &= ~CAP_TO_MASK(CAP_SYS_PTRACE);
  must(::syscall(SYS_capset, &head, sets.data()), "capset");
}

bool yama_is_strict() {
  int scope = 0;
  std::ifstream("/proc/sys/kernel/yama/ptrace_scope") >> scope;
  return scope != 0;
}

class local : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_gaudi()) GTEST_SKIP() << "gaudi's own way";
  }
};

void send(rank& r, node& n, int from, std::size_t size, std::uint64_t tag) {
  memory own(n, size, false);
  if (r.id() == from) {
    own.put(0, bytes_of(tag, size));
    n.post([&] {
      return fi_tsend(n.ep(), own.at(0), size, own.desc(), n.peer(1 - from), tag, ctx(1));
    });
    EXPECT_EQ(0, n.wait(ctx(1)).err);
  } else {
    n.post([&] {
      return fi_trecv(n.ep(), own.at(0), size, own.desc(), FI_ADDR_UNSPEC, tag, 0, ctx(1));
    });
    EXPECT_EQ(size, n.wait(ctx(1)).len);
    expect_same(bytes_of(tag, size), own.get(0, size), "message");
  }
  r.barrier();
}

// Rank 0 writes to the other's memory, and reads it back.
void write_and_read(rank& r, node& n) {
  constexpr std::size_t size = 3'000'001;
  memory own(n, size, false);
  const std::array<std::uint64_t, 2> mine{own.remote(0), own.key()};
  const auto all = r.all_gather({reinterpret_cast<const char*>(mine.data()), sizeof mine});
  if (r.id() == 0) {
    std::array<std::uint64_t, 2> other{};
    std::memcpy(other.data(), all[1].data(), sizeof other);
    own.put(0, bytes_of(1, size));
    n.post([&] {
      return fi_write(n.ep(), own.at(0), size, own.desc(), n.peer(1), other[0], other[1], ctx(1));
    });
    EXPECT_EQ(0, n.wait(ctx(1)).err);
    own.put(0, bytes_of(2, size));
    n.post([&] {
      return fi_read(n.ep(), own.at(0), size, own.desc(), n.peer(1), other[0], other[1], ctx(2));
    });
    EXPECT_EQ(0, n.wait(ctx(2)).err);
    expect_same(bytes_of(1, size), own.get(0, size), "read");
  }
  r.barrier();
  expect_same(bytes_of(1, size), own.get(0, size), "written");
  r.barrier();
}

// What each of two ranks does that the kernel keeps from looking into the other.
template <class Body>
void between_strangers(Body body) {
  run({}, [&](rank& r) {
    setenv("FI_GAUDI_IPC", "auto", 1);
    const private_memory mine_alone;
    look_into_nobody();
    r.barrier();
    node n;
    n.meet(r);
    body(r, n);
  });
}

TEST_F(local, out_of_each_other_s_reach_memory_goes_through_the_segment) {
  between_strangers([](rank& r, node& n) {
    std::uint64_t tag = 1;
    std::size_t sent = 0;
    for (const std::size_t size :
         {std::size_t{20'000}, std::size_t{1'000'003}, std::size_t{20} << 20}) {
      for (const int from : {0, 1}) send(r, n, from, size, tag++);
      sent += size;
    }
    const auto went = n.paths();
    EXPECT_EQ(sent, went.staged_bytes);
    EXPECT_EQ(0U, went.cma_bytes + went.direct_bytes);
    r.barrier();
  });
}

TEST_F(local, out_of_each_other_s_reach_memory_is_written_and_read) {
  between_strangers(write_and_read);
}

TEST_F(local, who_reaches_the_other_copies_for_both) {
  if (yama_is_strict()) GTEST_SKIP() << "kernel.yama.ptrace_scope keeps all memory private";
  run({}, [](rank& r) {
    setenv("FI_GAUDI_IPC", "auto", 1);
    look_into_nobody();
    std::optional<private_memory> mine_alone;
    if (r.id() == 0) mine_alone.emplace();
    r.barrier();
    node n;
    n.meet(r);
    constexpr std::size_t size = 1'000'003;
    for (const int from : {0, 1}) send(r, n, from, size, 1U + static_cast<unsigned>(from));
    const auto went = n.paths();
    EXPECT_EQ(r.id() == 0 ? 2 * size : 0, went.cma_bytes);
    EXPECT_EQ(0U, went.staged_bytes + went.direct_bytes);
    r.barrier();
  });
}

// The kernel asks each time, and a process may give up privileges at any time.
template <class Before, class After>
void between_ranks_that_become_strangers(Before before, After after) {
  if (yama_is_strict()) GTEST_SKIP() << "kernel.yama.ptrace_scope keeps all memory private";
  run({}, [&](rank& r) {
    setenv("FI_GAUDI_IPC", "auto", 1);
    look_into_nobody();
    node n;
    n.meet(r);
    before(r, n);
    r.barrier();
    const private_memory mine_alone;
    r.barrier();
    after(r, n);
  });
}

TEST_F(local, messages_to_who_becomes_out_of_reach_go_by_the_core_and_then_through_the_segment) {
  constexpr std::size_t first = 100'000;  // none helps
  std::size_t copied_once = 0;
  between_ranks_that_become_strangers(
      [&](rank& r, node& n) {
        for (const int from : {0, 1}) send(r, n, from, first, 1);
        copied_once = n.paths().cma_bytes;
        EXPECT_LT(0U, copied_once);
      },
      [&](rank& r, node& n) {
        std::uint64_t tag = 2;
        std::size_t later = 0;
        for (const int from : {0, 1}) send(r, n, from, first, tag++);
        for (const std::size_t size :
             {std::size_t{20'000}, std::size_t{1'000'003}, std::size_t{20} << 20}) {
          for (const int from : {0, 1}) send(r, n, from, size, tag++);
          later += size;
        }
        // What was begun. Older releases' tcp does not read safely: there it begins again.
        const std::size_t by_core = fi_version() >= FI_VERSION(1, 18) ? first : 0;
        const auto went = n.paths();
        EXPECT_EQ(copied_once, went.cma_bytes);
        EXPECT_EQ(by_core, went.direct_bytes);
        EXPECT_EQ(later + first - by_core, went.staged_bytes);
        r.barrier();
      });
}

TEST_F(local, memory_of_who_becomes_out_of_reach_is_written_and_read) {
  between_ranks_that_become_strangers([](rank& r, node& n) { send(r, n, 0, 300'000, 1); },
                                      [](rank& r, node& n) { write_and_read(r, n); });
}

// Rank 0 copies for both, until rank 1 is private, too.
TEST_F(local, who_loses_the_reach_of_the_other_copies_for_nobody) {
  if (yama_is_strict()) GTEST_SKIP() << "kernel.yama.ptrace_scope keeps all memory private";
  run({}, [](rank& r) {
    setenv("FI_GAUDI_IPC", "auto", 1);
    look_into_nobody();
    std::optional<private_memory> mine_alone;
    if (r.id() == 0) mine_alone.emplace();
    r.barrier();
    node n;
    n.meet(r);
    constexpr std::size_t size = 1'000'003;
    std::uint64_t tag = 1;
    for (const int from : {0, 1}) send(r, n, from, size, tag++);
    const std::size_t copied_once = n.paths().cma_bytes;
    r.barrier();
    if (r.id() == 1) mine_alone.emplace();
    r.barrier();
    for (const int from : {0, 1, 0, 1}) send(r, n, from, size, tag++);
    EXPECT_EQ(copied_once, n.paths().cma_bytes);
    r.barrier();
  });
}

// The sink reads the source, which does not reach the sink any more: it helps with nothing.
TEST_F(local, a_helper_that_loses_its_reach_leaves_the_copy_to_the_other) {
  if (yama_is_strict()) GTEST_SKIP() << "kernel.yama.ptrace_scope keeps all memory private";
  run({}, [](rank& r) {
    setenv("FI_GAUDI_IPC", "auto", 1);
    look_into_nobody();
    node n;
    n.meet(r);
    constexpr std::size_t size = std::size_t{20} << 20;
    send(r, n, 0, size, 1);
    std::optional<private_memory> mine_alone;
    if (r.id() == 1) mine_alone.emplace();
    r.barrier();
    for (std::uint64_t tag = 2; tag < 6; ++tag) send(r, n, 0, size, tag);
    EXPECT_EQ(0U, n.paths().staged_bytes + n.paths().direct_bytes);
    r.barrier();
  });
}

}  // namespace
}  // namespace gaudi::test
