// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A client with the calls of NIXL's libfabric backend: nixl/README.md says what it follows.
#include <gtest/gtest.h>

#include <cstring>

#include "nccl/plugin.hpp"
#include "nixl/rail.hpp"

namespace gaudi::test {
namespace {

using bytes = std::vector<std::byte>;

constexpr std::size_t page_size = 4096;
constexpr std::size_t page_count = 3000;  // more than a queue holds, and no multiple of a batch
constexpr std::size_t buffer_size = 2 * page_size * page_count;

/// A key-value cache, in the host's or the device's memory.
class cache {
 public:
  cache(fid_domain* domain, bool device) : host_(device ? 0 : buffer_size) {
    if (device) device_ = std::make_unique<nccl::device_memory>(domain, buffer_size);
  }
  [[nodiscard]] std::span<std::byte> range() { return device_ ? device_->range() : host_; }
  void put(const bytes& what) { device_ ? device_->put(what) : static_cast<void>(host_ = what); }
  [[nodiscard]] bytes get() const { return device_ ? device_->get(buffer_size) : host_; }

 private:
  bytes host_;
  std::unique_ptr<nccl::device_memory> device_;
};

struct published {
  nixl::endpoint_name name;
  std::uint64_t base;
  std::uint64_t key;
};

published of_peer(rank& r, const published& own) {
  const auto all = r.all_gather({reinterpret_cast<const char*>(&own), sizeof own});
  published value;
  std::memcpy(&value, all.at(static_cast<std::size_t>(1 - r.id())).data(), sizeof value);
  return value;
}

/// Every other page, at the peer in the opposite order.
std::vector<nixl::page> pages(std::span<std::byte> local, std::uint64_t remote) {
  std::vector<nixl::page> list;
  for (std::size_t i = 0; i < page_count; ++i)
    list.push_back({local.data() + 2 * i * page_size, remote + 2 * (page_count - 1 - i) * page_size,
                    page_size});
  return list;
}

bytes with_pages_of(const bytes& from, bytes to) {
  for (std::size_t i = 0; i < page_count; ++i)
    std::memcpy(to.data() + 2 * (page_count - 1 - i) * page_size, from.data() + 2 * i * page_size,
                page_size);
  return to;
}

void wait_for_transfers(nixl::rail& rail) {
  while (rail.outstanding() != 0) rail.progress();
}

/// Memory of the agent that asks, and of the other.
struct kinds {
  bool local;
  bool remote;
};

class nixl_client : public testing::TestWithParam<kinds> {
 protected:
  /// Agent 0 asks for a transfer with `op`, and tells agent 1 that it is done.
  template <class Op, class Check>
  void transfer(Op op, Check check) {
    const kinds device = GetParam();
    run({.ranks = 2}, [&](rank& r) {
      const std::string nic = nixl::discover();
      ASSERT_NE(nic, "");
      nixl::rail rail(nic);
      ASSERT_TRUE(rail.has_hmem());
      cache memory(rail.domain(), r.id() == 0 ? device.local : device.remote);
      const bytes own = bytes_of(static_cast<std::uint64_t>(r.id()), buffer_size);
      const bytes other = bytes_of(static_cast<std::uint64_t>(1 - r.id()), buffer_size);
      memory.put(own);
      const auto mr =
          rail.register_memory(memory.range(), r.id() == 0 ? device.local : device.remote);
      const published peer =
          of_peer(r, {rail.name(), reinterpret_cast<std::uint64_t>(memory.range().data()),
                      fi_mr_key(mr.get())});
      rail.connect(peer.name);
      while (!rail.is_met()) rail.progress();
      if (r.id() == 0) op(rail, pages(memory.range(), peer.base), mr.get(), peer.key);
      while (r.id() == 1 && rail.notifications.empty()) rail.progress();
      check(r.id(), rail, own, other, memory);
      r.set_idle_work([&] { rail.progress(); });
      r.barrier();
    });
  }
};

TEST_P(nixl_client, writes_pages_and_notifies) {
  transfer(
      [](nixl::rail& rail, const std::vector<nixl::page>& list, fid_mr* mr, std::uint64_t key) {
        rail.write(list, mr, key);
        rail.notify("written");  // not after the writes' completions: postXfer()
        wait_for_transfers(rail);
      },
      [](int id, nixl::rail& rail, const bytes& own, const bytes& other, const cache& memory) {
        if (id == 0) return expect_same(own, memory.get(), "what was written from");
        EXPECT_EQ(rail.notifications.front(), "written");
        while (rail.written() < page_count) rail.progress();  // checkPendingNotifications()
        expect_same(with_pages_of(other, own), memory.get(), "what was written");
      });
}

TEST_P(nixl_client, reads_pages_and_notifies) {
  transfer(
      [](nixl::rail& rail, const std::vector<nixl::page>& list, fid_mr* mr, std::uint64_t key) {
        rail.read(list, mr, key);
        wait_for_transfers(rail);
        rail.notify("read");  // checkXfer()
      },
      [](int id, nixl::rail& rail, const bytes& own, const bytes& other, const cache& memory) {
        if (id == 0) return expect_same(with_pages_of(other, own), memory.get(), "what was read");
        EXPECT_EQ(rail.notifications.front(), "read");
        expect_same(own, memory.get(), "what was read from");
      });
}

INSTANTIATE_TEST_SUITE_P(memory, nixl_client,
                         testing::Values(kinds{false, false}, kinds{false, true},
                                         kinds{true, false}, kinds{true, true}),
                         [](const auto& param) {
                           const auto text = [](bool device) { return device ? "device" : "host"; };
                           return std::string(text(param.param.local)) + "_to_" +
                                  text(param.param.remote);
                         });

}  // namespace
}  // namespace gaudi::test
