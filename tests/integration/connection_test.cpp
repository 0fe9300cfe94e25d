// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Connections are made on demand: many at once, from both sides at once, and beside strangers.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "node.hpp"

namespace gaudi::test {
namespace {

using bytes = std::vector<std::byte>;

node_options plain() {
  return {.mr_mode = 0};
}

// Every rank sends to every rank, itself included, before it looks at anything.
void all_to_all(rank& r, node& n, std::size_t size) {
  const auto count = static_cast<std::size_t>(r.size());
  const auto seed = [&](int from, int to) { return static_cast<std::uint64_t>(from * 1000 + to); };
  std::vector<bytes> out;
  std::vector<bytes> in(count, bytes(size));
  for (int to = 0; to < r.size(); ++to) out.push_back(bytes_of(seed(r.id(), to), size));
  r.barrier();
  for (std::size_t i = 0; i < count; ++i) {
    n.post([&] {
      return fi_trecv(n.ep(), in[i].data(), size, nullptr, FI_ADDR_UNSPEC, i, 0, ctx(1000 + i));
    });
    n.post([&] {
      return fi_tsend(n.ep(), out[i].data(), size, nullptr, n.peer(static_cast<int>(i)),
                      static_cast<std::uint64_t>(r.id()), ctx(i + 1));
    });
  }
  for (std::size_t i = 0; i < count; ++i) {
    EXPECT_EQ(0, n.wait(ctx(i + 1)).err);
    EXPECT_EQ(0, n.wait(ctx(1000 + i)).err);
    expect_same(bytes_of(seed(static_cast<int>(i), r.id()), size), in[i],
                "from rank " + std::to_string(i));
  }
  r.barrier();
}

TEST(connection, both_sides_at_once) {
  for (int round = 0; round < 5; ++round)
    run({.ranks = 2}, [](rank& r) {
      node n(plain());
      n.meet(r);
      all_to_all(r, n, 1000);
      all_to_all(r, n, 100000);
    });
}

TEST(connection, eight_peers_at_once) {
  run({.ranks = 8}, [](rank& r) {
    node n(plain());
    n.meet(r);
    all_to_all(r, n, 1000);
    all_to_all(r, n, 100000);
  });
}

TEST(connection_slow, sixty_four_peers) {
  run({.ranks = 64, .timeout = std::chrono::seconds(240)}, [](rank& r) {
    node n(plain());
    n.meet(r);
    const bytes data = bytes_of(static_cast<std::uint64_t>(r.id()), 5000);
    bytes in(5000);
    for (int i = 0; i < r.size() && r.id() == 0; ++i) {
      n.post([&] {
        return fi_trecv(n.ep(), in.data(), in.size(), nullptr, FI_ADDR_UNSPEC,
                        static_cast<std::uint64_t>(i), 0, ctx(2));
      });
      if (i == 0)
        n.post([&] {
          return fi_tsend(n.ep(), data.data(), data.size(), nullptr, n.peer(0), 0, ctx(1));
        });
      EXPECT_EQ(0, n.wait(ctx(2)).err);
      expect_same(bytes_of(static_cast<std::uint64_t>(i), 5000), in, "from " + std::to_string(i));
    }
    if (r.id() != 0)
      n.post([&] {
        return fi_tsend(n.ep(), data.data(), data.size(), nullptr, n.peer(0),
                        static_cast<std::uint64_t>(r.id()), ctx(1));
      });
    EXPECT_EQ(0, n.wait(ctx(1)).err);
    r.barrier();
  });
}

// Connects to an endpoint's listener without speaking its protocol.
void disturb(const std::string& name, const std::string& noise) {
  sockaddr_in address{};
  ASSERT_GE(name.size(), sizeof address) << "not an IPv4 name";
  std::memcpy(&address, name.data(), sizeof address);
  ASSERT_EQ(AF_INET, address.sin_family);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(0, connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address));
  send(fd, noise.data(), noise.size(), MSG_NOSIGNAL);
  close(fd);
}

TEST(connection, strangers_at_the_listener_do_no_harm) {
  if (!is_gaudi()) GTEST_SKIP() << "tests gaudi's listener";
  if (on_verbs()) GTEST_SKIP() << "a TCP client cannot reach an RDMA listener";
  run({}, [](rank& r) {
    node n(plain());
    n.meet(r);
    const auto names = r.all_gather(n.name());
    if (r.id() == 0) {
      const std::string random(reinterpret_cast<const char*>(bytes_of(3, 4096).data()), 4096);
      for (const std::string& noise : {std::string(), std::string("GET / HTTP/1.0\r\n\r\n"),
                                       std::string(4096, '\0'), std::string(64, '\xff'), random})
        disturb(names[1], noise);
    }
    r.barrier();
    all_to_all(r, n, 1000);
    all_to_all(r, n, 300000);
  });
}

TEST(connection, a_peer_that_is_gone_gives_an_error_and_leaves_the_others) {
  if (!is_gaudi()) GTEST_SKIP() << "what other providers do here differs";
  run({.ranks = 3}, [](rank& r) {
    auto n = std::make_unique<node>(plain());
    n->meet(r);
    r.barrier();
    if (r.id() == 2) {
      r.set_idle_work({});
      n.reset();  // its listener closes
    }
    r.barrier();
    if (r.id() == 2) {
      r.barrier();
      return;
    }
    const bytes data = bytes_of(1, 100);
    bytes in(100);
    if (r.id() == 0) {
      // The call itself or its completion may tell.
      EXPECT_ANY_THROW({
        n->post(
            [&] { return fi_tsend(n->ep(), data.data(), 100, nullptr, n->peer(2), 1, ctx(1)); });
        must(-n->wait(ctx(1)).err, "the completion");
      });
      n->post([&] { return fi_tsend(n->ep(), data.data(), 100, nullptr, n->peer(1), 1, ctx(2)); });
      EXPECT_EQ(0, n->wait(ctx(2)).err);
    } else {
      n->post(
          [&] { return fi_trecv(n->ep(), in.data(), 100, nullptr, FI_ADDR_UNSPEC, 1, 0, ctx(1)); });
      EXPECT_EQ(0, n->wait(ctx(1)).err);
      expect_same(data, in, "from rank 0");
    }
    r.barrier();
  });
}

}  // namespace
}  // namespace gaudi::test
