// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What gaudi_top sees of a process while that transfers, against what the process knows itself.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "node.hpp"

namespace gaudi::test {
namespace {

using nlohmann::json;

constexpr std::size_t short_size = 100;
constexpr std::size_t long_size = 300000;

/// Memory of all ranks.
struct shared {
  std::atomic<std::uint64_t> sent{0};
  std::atomic<bool> is_done{false};
};
shared& make_shared_memory() {
  void* const at =
      ::mmap(nullptr, sizeof(shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) throw std::runtime_error("mmap failed");
  return *new (at) shared;
}

/// The domain of that process, as the tool's JSON has it.
json domain_of(const std::string& pid) {
  const std::string command = GAUDI_TOP " --once --json --interval 0.01 --pid " + pid;
  FILE* const pipe = ::popen(command.c_str(), "r");  // NOLINT(cert-env33-c)
  std::string text;
  std::array<char, 4096> part{};
  while (pipe && std::fgets(part.data(), part.size(), pipe)) text += part.data();
  if (!pipe || ::pclose(pipe) != 0) throw std::runtime_error("gaudi_top failed: " + command);
  const json document = json::parse(text);
  const json& process = document.at("processes").at(0);
  EXPECT_EQ(std::to_string(process.at("pid").get<int>()), pid);
  EXPECT_EQ(process.at("domains").size(), 1U);
  return process.at("domains").at(0).at("counters");
}

std::uint64_t value(const json& domain, const char* name) {
  return domain.at(name).get<std::uint64_t>();
}

void exchange(node& n, rank& r, std::size_t size) {
  std::vector<std::byte> buffer(size);
  const fi_addr_t peer = n.peer(1 - r.id());
  if (r.id() == 0)
    n.post([&] { return fi_recv(n.ep(), buffer.data(), size, nullptr, peer, ctx(1)); });
  else
    n.post([&] { return fi_send(n.ep(), buffer.data(), size, nullptr, peer, ctx(1)); });
  n.wait(ctx(1));
}

TEST(top, shows_what_a_process_counts_itself) {
  run({}, [](rank& r) {
    node n;
    n.meet(r);
    for (int i = 0; i < 20; ++i) exchange(n, r, short_size);
    for (int i = 0; i < 3; ++i) exchange(n, r, long_size);
    r.barrier();
    const auto pids = r.all_gather(std::to_string(::getpid()));
    const json seen = domain_of(pids[static_cast<std::size_t>(r.id())]);
    const fi_gaudi_path_stats own = n.paths();
    EXPECT_EQ(value(seen, "eager_ops"), own.eager_ops);
    EXPECT_EQ(value(seen, "eager_bytes"), own.eager_bytes);
    EXPECT_EQ(value(seen, "direct_bytes"), own.direct_bytes);
    EXPECT_EQ(value(seen, "staged_bytes"), own.staged_bytes);
    EXPECT_EQ(value(seen, "cma_bytes"), own.cma_bytes);
    EXPECT_EQ(value(seen, "endpoints"), 1U);
    if (r.id() == 1) {
      EXPECT_EQ(value(seen, "eager_ops"), 20U);
      EXPECT_EQ(value(seen, "eager_bytes"), 20 * short_size);
    }
    r.barrier();
  });
}

// Rank 2 watches: what it reads lies between what was sent before and after it looked.
void be_watcher(shared& common, const std::string& sender) {
  std::uint64_t last = 0;
  for (int look = 0; look < 5; ++look) {
    while (common.sent.load() <= last) std::this_thread::yield();
    const std::uint64_t before = common.sent.load();
    const std::uint64_t seen = value(domain_of(sender), "eager_ops");
    // One more may be counted and not completed.
    const std::uint64_t after = common.sent.load() + 1;
    EXPECT_LE(before, seen);
    EXPECT_LE(seen, after);
    last = after;
  }
  common.is_done = true;
}

TEST(top, reads_a_process_while_it_transfers) {
  shared& common = make_shared_memory();
  run({.ranks = 3}, [&](rank& r) {
    node n;
    n.meet(r);
    const auto pids = r.all_gather(std::to_string(::getpid()));
    if (r.id() == 2) {
      be_watcher(common, pids[1]);
      r.barrier();
      return;
    }
    // The last message is an empty one, so that the receiver knows.
    std::vector<std::byte> buffer(short_size);
    bool is_last = false;
    while (!is_last) {
      if (r.id() == 0) {
        n.post(
            [&] { return fi_recv(n.ep(), buffer.data(), short_size, nullptr, n.peer(1), ctx(1)); });
        is_last = n.wait(ctx(1)).len == 0;
      } else {
        is_last = common.is_done;
        const std::size_t size = is_last ? 0 : short_size;
        n.post([&] { return fi_send(n.ep(), buffer.data(), size, nullptr, n.peer(0), ctx(1)); });
        n.wait(ctx(1));
        ++common.sent;
      }
    }
    r.barrier();
  });
}

}  // namespace
}  // namespace gaudi::test
