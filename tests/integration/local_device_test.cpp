// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Device memory of two processes that share host memory: one's device writes to it, the other's
// reads from it, and no CPU copies anything.
#include <gtest/gtest.h>

#include <array>
#include <optional>

#include "passing.hpp"

namespace gaudi::test {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

// A Gaudi of its own for every rank, and the memory of its peers where `share`.
void set_up(const rank& r, bool share) {
  setenv("FI_GAUDI_DEVICE", std::to_string(r.id()).c_str(), 1);
  setenv("FI_GAUDI_IPC", share ? "auto" : "off", 1);
  setenv("FI_GAUDI_DMABUF", "off", 1);
}

class local_device : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (!is_gaudi()) GTEST_SKIP() << "only gaudi carries Gaudi memory";
  }
};

TEST_P(local_device, is_copied_by_the_devices_alone_where_memory_is_shared) {
  run({}, [share = GetParam()](rank& r) {
    set_up(r, share);
    node n({.device = true});
    n.meet(r);
    constexpr std::size_t size = 5 * mib + 3;
    memory own(n, size, true);
    if (r.id() == 0) own.put(0, bytes_of(1, size));
    EXPECT_EQ(0, pass(n, r, own, size, 1).err);
    const auto went = n.paths();
    EXPECT_EQ(size, n.device_stats().staged_bytes) << "at either end";
    if (r.id() == 0) {
      EXPECT_EQ(size, went.staged_bytes);
      EXPECT_EQ(0U, went.cma_bytes + went.direct_bytes);
      EXPECT_EQ(share ? went.staged_ops : 0, went.shm_ops);
    } else {
      expect_same(bytes_of(1, size), own.get(0, size), "message");
    }
    r.barrier();
  });
}

// What fits into a packet: there the CPU copies it twice, so only what is short goes that way where
// there are slots.
TEST_P(local_device, goes_through_slots_rather_than_in_long_packets) {
  run({}, [share = GetParam()](rank& r) {
    set_up(r, share);
    setenv("FI_GAUDI_EAGER_SIZE", "64K", 1);
    node n({.device = true});
    n.meet(r);
    constexpr std::size_t in_a_packet = 16384;
    for (const std::size_t size : {in_a_packet, in_a_packet + 1}) {
      memory own(n, size, true);
      if (r.id() == 0) own.put(0, bytes_of(size, size));
      const auto before = n.paths();
      EXPECT_EQ(0, pass(n, r, own, size, 1).err);
      const auto eager = n.paths().eager_bytes - before.eager_bytes;
      if (r.id() != 0) {
        expect_same(bytes_of(size, size), own.get(0, size), "message");
      } else {
        EXPECT_EQ(share && size > in_a_packet ? 0 : size, eager) << size;
      }
      r.barrier();
    }
  });
}

// More of them than there are slots, and ends that cut their data differently.
TEST_P(local_device, takes_many_both_ways_at_once) {
  run({}, [share = GetParam()](rank& r) {
    set_up(r, share);
    setenv("FI_GAUDI_STAGING_CHUNK", r.id() == 0 ? "65536" : "262144", 1);
    setenv("FI_GAUDI_STAGING_DEPTH", r.id() == 0 ? "3" : "8", 1);
    node n({.device = true});
    n.meet(r);
    constexpr std::size_t size = mib + 12345;
    constexpr std::size_t count = 12;
    memory in(n, count * size, true);
    memory out(n, count * size, true);
    const auto self = static_cast<std::size_t>(r.id());
    const auto contents = [](std::size_t from, std::size_t i) {
      return bytes_of(from * 100 + i, size);
    };
    for (std::size_t i = 0; i < count; ++i) out.put(i * size, contents(self, i));
    r.barrier();
    for (std::size_t i = 0; i < count; ++i) {
      n.post([&] {
        return fi_trecv(n.ep(), in.at(i * size), size, in.desc(), FI_ADDR_UNSPEC, i, 0, ctx(i));
      });
    }
    for (std::size_t i = 0; i < count; ++i) {
      n.post([&] {
        return fi_tsend(n.ep(), out.at(i * size), size, out.desc(), n.peer(1 - r.id()), i,
                        ctx(count + i));
      });
    }
    for (std::size_t i = 0; i < 2 * count; ++i) EXPECT_EQ(0, n.wait(ctx(i)).err);
    for (std::size_t i = 0; i < count; ++i)
      expect_same(contents(1 - self, i), in.get(i * size, size), "message");
    r.barrier();
  });
}

// A chunk ends where a piece of memory does, so slots carry less than they could, and both ends
// have other pieces.
TEST_P(local_device, takes_many_in_pieces_of_any_length) {
  run({}, [share = GetParam()](rank& r) {
    set_up(r, share);
    setenv("FI_GAUDI_STAGING_CHUNK", "65536", 1);
    setenv("FI_GAUDI_STAGING_DEPTH", "3", 1);
    node n({.device = true});
    n.meet(r);
    constexpr std::size_t size = mib;
    constexpr std::size_t count = 8;
    memory own(n, count * size, true);
    if (r.id() == 0) own.put(0, bytes_of(8, count * size));
    r.barrier();
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t cut = r.id() == 0 ? 70000 + 4096 * i : 1 + 300 * i;
      const std::array<std::size_t, 5> edges{0, cut, 3 * cut, size - cut, size};
      std::array<iovec, 4> pieces{};
      std::array<void*, 4> descriptors{};
      for (std::size_t k = 0; k < 4; ++k) {
        pieces[k] = {own.at(i * size + edges[k]), edges[k + 1] - edges[k]};
        descriptors[k] = own.desc();
      }
      n.post([&] {
        return r.id() == 0
                   ? fi_tsendv(n.ep(), pieces.data(), descriptors.data(), 4, n.peer(1), i, ctx(i))
                   : fi_trecvv(n.ep(), pieces.data(), descriptors.data(), 4, FI_ADDR_UNSPEC, i, 0,
                               ctx(i));
      });
    }
    for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(0, n.wait(ctx(i)).err);
    if (r.id() == 1) expect_same(bytes_of(8, count * size), own.get(0, count * size), "messages");
    r.barrier();
  });
}

TEST_P(local_device, comes_from_and_goes_to_host_memory) {
  run({}, [share = GetParam()](rank& r) {
    set_up(r, share);
    node n({.device = true});
    n.meet(r);
    constexpr std::size_t size = 3 * mib + 1;
    memory host(n, size, false);
    memory device(n, size, true);
    for (const bool to_device : {true, false}) {
      memory& own = (r.id() == 0) == to_device ? host : device;
      if (r.id() == 0) own.put(0, bytes_of(7, size));
      EXPECT_EQ(0, pass(n, r, own, size, 1).err);
      if (r.id() == 1) expect_same(bytes_of(7, size), own.get(0, size), "message");
      r.barrier();
    }
  });
}

// An endpoint that talks to itself stands for two of one process.
TEST_P(local_device, is_copied_once_within_a_process_by_its_engine) {
  run({.ranks = 1}, [share = GetParam()](rank& r) {
    set_up(r, share);
    node n({.device = true});
    n.meet(r);
    constexpr std::size_t size = 9 * mib + 5;
    memory from(n, size, true);
    memory to(n, size, true);
    from.put(0, bytes_of(3, size));
    n.post([&] { return fi_tsend(n.ep(), from.at(0), size, from.desc(), n.peer(0), 1, ctx(1)); });
    n.post(
        [&] { return fi_trecv(n.ep(), to.at(0), size, to.desc(), FI_ADDR_UNSPEC, 1, 0, ctx(2)); });
    EXPECT_EQ(0, n.wait(ctx(1)).err);
    EXPECT_EQ(0, n.wait(ctx(2)).err);
    expect_same(bytes_of(3, size), to.get(0, size), "message");
    EXPECT_EQ(share ? size : 0, n.paths().engine_bytes);
    EXPECT_EQ(share ? 0 : size, n.paths().staged_bytes);
    EXPECT_EQ(share ? size : 0, n.device_stats().device_to_device_bytes);
    EXPECT_EQ(share ? 0 : 2 * size, n.device_stats().staged_bytes);

    from.put(0, bytes_of(4, size));
    n.post([&] {
      return fi_write(n.ep(), from.at(0), size, from.desc(), n.peer(0), to.remote(0), to.key(),
                      ctx(3));
    });
    EXPECT_EQ(0, n.wait(ctx(3)).err);
    expect_same(bytes_of(4, size), to.get(0, size), "write");
    to.put(0, bytes_of(5, size));
    n.post([&] {
      return fi_read(n.ep(), from.at(0), size, from.desc(), n.peer(0), to.remote(0), to.key(),
                     ctx(4));
    });
    EXPECT_EQ(0, n.wait(ctx(4)).err);
    expect_same(bytes_of(5, size), from.get(0, size), "read");
    EXPECT_EQ(share ? 3 * size : 0, n.paths().engine_bytes);
  });
}

// What is not device memory at both ends goes the ways that it goes between processes.
TEST_P(local_device, comes_to_host_memory_of_its_process) {
  run({.ranks = 1}, [share = GetParam()](rank& r) {
    set_up(r, share);
    node n({.device = true});
    n.meet(r);
    constexpr std::size_t size = 3 * mib + 1;
    memory device(n, size, true);
    memory host(n, size, false);
    device.put(0, bytes_of(6, size));
    for (const bool to_host : {true, false}) {
      memory& from = to_host ? device : host;
      memory& to = to_host ? host : device;
      n.post([&] {
        return fi_trecv(n.ep(), to.at(0), size, to.desc(), FI_ADDR_UNSPEC, 1, 0, ctx(2));
      });
      n.post([&] { return fi_tsend(n.ep(), from.at(0), size, from.desc(), n.peer(0), 1, ctx(1)); });
      EXPECT_EQ(0, n.wait(ctx(1)).err);
      EXPECT_EQ(0, n.wait(ctx(2)).err);
      expect_same(bytes_of(6, size), to.get(0, size), "message");
      if (to_host) device.put(0, bytes_of(9, size));
    }
    EXPECT_EQ(0U, n.paths().engine_bytes);
  });
}

// What was here before its sender went is received, however long the device takes to have it.
TEST_P(local_device, has_a_message_whose_sender_is_gone) {
  run({.environment = {{"HLSIM_LATENCY_US", "200000"}}}, [share = GetParam()](rank& r) {
    set_up(r, share);
    constexpr std::size_t size = 64;
    std::optional<node> n(std::in_place, node_options{.device = true});
    n->meet(r);
    std::optional<memory> own(std::in_place, *n, size, r.id() == 1);
    if (r.id() == 1)
      n->post([&] {
        return fi_trecv(n->ep(), own->at(0), size, own->desc(), FI_ADDR_UNSPEC, 1, 0, ctx(1));
      });
    r.barrier();
    if (r.id() == 0) {
      own->put(0, bytes_of(1, size));
      n->post(
          [&] { return fi_tsend(n->ep(), own->at(0), size, own->desc(), n->peer(1), 1, ctx(1)); });
      EXPECT_EQ(0, n->wait(ctx(1)).err);
      r.set_idle_work({});
      own.reset();
      n.reset();
    } else {
      EXPECT_EQ(0, n->wait(ctx(1)).err);
      expect_same(bytes_of(1, size), own->get(0, size), "message");
    }
    r.barrier();
  });
}

INSTANTIATE_TEST_SUITE_P(ipc, local_device, testing::Bool(),
                         [](const auto& which) { return which.param ? "on" : "off"; });

}  // namespace
}  // namespace gaudi::test
