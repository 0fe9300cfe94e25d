// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Two processes on one host, of which one has a NIC that does not reach its Gaudi: the other one's
// NIC reads that memory by its dma-buf, which the processes pass. For the virtual machine, where
// exports are real dma-bufs.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>

#include "message.hpp"

namespace {

bool nic_refuses = false;  // in this process

}  // namespace

// What the NIC of a Gaudi behind another root complex does.
extern "C" [[gnu::visibility("default")]] struct ibv_mr* ibv_reg_dmabuf_mr(struct ibv_pd* pd,
                                                                           std::uint64_t offset,
                                                                           std::size_t length,
                                                                           std::uint64_t iova,
                                                                           int fd, int access) {
  using call =
      struct ibv_mr* (*)(struct ibv_pd*, std::uint64_t, std::size_t, std::uint64_t, int, int);
  static const auto next = reinterpret_cast<call>(dlsym(RTLD_NEXT, "ibv_reg_dmabuf_mr"));
  if (!nic_refuses) return next(pd, offset, length, iova, fd, access);
  errno = EPERM;
  return nullptr;
}

namespace gaudi::test {
namespace {

constexpr std::size_t kib = 1024;
constexpr std::size_t mib = kib * kib;
const node_options with_device{.device = true};

/// Rank 0 cannot use its NIC for its device.
void lame_the_sender(const rank& r) {
  take_device(r);
  nic_refuses = r.id() == 0;
}

// (receiver in device memory)
class passed_dmabuf : public testing::TestWithParam<bool> {};

TEST_P(passed_dmabuf, is_read_by_the_receiver_s_nic) {
  run({}, [to_device = GetParam()](rank& r) {
    lame_the_sender(r);
    node n(with_device);
    n.meet(r);
    memory own(n, 8 * mib + 8 * kib, r.id() == 0 || to_device);
    std::uint64_t passed = 0;
    const auto send = [&](std::size_t size, bool by_nic) {
      pass_message(r, n, own, size, size + by_nic);
      if (by_nic && r.id() == 1) passed += size;
      EXPECT_EQ(passed, n.paths().dmabuf_ipc_bytes) << size;
      r.barrier();
    };
    send(64 * kib, false);  // not worth it yet
    const auto staged = n.paths().staged_bytes;
    send(mib + 5, true);
    send(64 * kib, true);  // known now
    send(8 * mib, true);
    EXPECT_EQ(staged, n.paths().staged_bytes);
    EXPECT_EQ(to_device ? passed : 0, n.paths().zero_copy_bytes);
  });
}

INSTANTIATE_TEST_SUITE_P(receivers, passed_dmabuf, testing::Bool());

TEST(passed_dmabuf, serves_rma_of_the_one_and_the_other) {
  run({.environment = {{"FI_GAUDI_FLUSH", "read"}}}, [](rank& r) {
    lame_the_sender(r);
    node n(with_device);
    n.meet(r);
    memory own(n, mib, true);
    own.put(0, bytes_of(static_cast<std::uint64_t>(r.id()), mib));
    struct target {
      std::uint64_t address;
      std::uint64_t key;
    };
    const target told{own.remote(0), own.key()};
    const auto all = r.all_gather({reinterpret_cast<const char*>(&told), sizeof told});
    target other{};
    std::memcpy(&other, all[static_cast<std::size_t>(1 - r.id())].data(), sizeof other);
    if (r.id() == 1) {
      n.post([&] {
        return fi_read(n.ep(), own.at(0), mib, own.desc(), n.peer(0), other.address, other.key,
                       ctx(1));
      });
      EXPECT_EQ(0, n.wait(ctx(1)).err);
      expect_same(bytes_of(0, mib), own.get(0, mib), "read");
      EXPECT_EQ(mib, n.paths().dmabuf_ipc_bytes);
    }
    r.barrier();
  });
}

// The same address again and again, with another allocation each time.
TEST(passed_dmabuf, of_freed_memory_is_not_read_again) {
  run({}, [](rank& r) {
    lame_the_sender(r);
    node n(with_device);
    n.meet(r);
    memory landing(n, mib, true);
    for (std::uint64_t round = 0; round < 20; ++round) {
      memory own(n, mib, true);
      pass_message(r, n, r.id() == 0 ? own : landing, 256 * kib, round);
      r.barrier();
    }
    EXPECT_EQ(r.id() == 1 ? 20 * 256 * kib : 0, n.paths().dmabuf_ipc_bytes);
  });
}

// What has to go for others is asked for again.
TEST(passed_dmabuf, is_passed_again_when_there_was_no_room_to_keep_it) {
  for (const char* const most : {"0", "1"}) {
    run({.environment = {{"FI_GAUDI_MR_CACHE_MAX_COUNT", most}}}, [](rank& r) {
      lame_the_sender(r);
      node n(with_device);
      n.meet(r);
      memory one(n, mib, true);
      memory two(n, mib, true);
      for (std::uint64_t round = 0; round < 6; ++round)
        pass_message(r, n, round % 2 ? one : two, 256 * kib, round);
      r.barrier();
      EXPECT_EQ(r.id() == 1 ? 6 * 256 * kib : 0, n.paths().dmabuf_ipc_bytes);
    });
  }
}

TEST(passed_dmabuf, that_nobody_s_nic_reads_is_staged) {
  run({}, [](rank& r) {
    take_device(r);
    nic_refuses = true;
    node n(with_device);
    n.meet(r);
    memory own(n, mib, true);
    for (std::uint64_t round = 0; round < 3; ++round) pass_message(r, n, own, 512 * kib, round);
    r.barrier();
    EXPECT_EQ(0U, n.paths().dmabuf_ipc_bytes);
  });
}

TEST(passed_dmabuf, is_none_of_a_process_that_stages) {
  run({}, [](rank& r) {
    lame_the_sender(r);
    if (r.id() == 0) setenv("FI_GAUDI_DMABUF", "off", 1);
    node n(with_device);
    n.meet(r);
    memory own(n, mib, true);
    pass_message(r, n, own, 512 * kib, 1);
    r.barrier();
    EXPECT_EQ(0U, n.paths().dmabuf_ipc_bytes);
  });
}

}  // namespace
}  // namespace gaudi::test
