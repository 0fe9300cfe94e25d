// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// One-sided operations on host memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "node.hpp"

namespace gaudi::test {
namespace {

using bytes = std::vector<std::byte>;

constexpr std::size_t mib = std::size_t{1} << 20;
constexpr int by_address = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;

// Rank 1's memory as rank 0 reaches it.
struct target {
  std::uint64_t address;
  std::uint64_t key;
};

target share(rank& r, const memory& own) {
  const target mine{own.remote(0), own.key()};
  const auto all = r.all_gather({reinterpret_cast<const char*>(&mine), sizeof mine});
  target other{};
  std::memcpy(&other, all[1].data(), sizeof other);
  return other;
}

// (mr_mode, size, offset at the target)
class one_sided : public testing::TestWithParam<std::tuple<int, std::size_t, std::size_t>> {};

TEST_P(one_sided, write_then_read_back) {
  const auto [mr_mode, size, offset] = GetParam();
  run({}, [mr_mode = mr_mode, size = size, offset = offset](rank& r) {
    node n({.mr_mode = mr_mode});
    n.meet(r);
    memory own(n, offset + size + 16, false, 0x100U + static_cast<unsigned>(r.id()));
    const target other = share(r, own);
    const bytes data = bytes_of(size, size);
    if (r.id() == 0) {
      own.put(0, data);
      const iovec local{own.at(0), size};
      const fi_rma_iov remote{other.address + offset, size, other.key};
      void* desc = own.desc();
      fi_msg_rma message{};
      message.msg_iov = &local;
      message.desc = &desc;
      message.iov_count = 1;
      message.addr = n.peer(1);
      message.rma_iov = &remote;
      message.rma_iov_count = 1;
      message.context = ctx(1);
      n.post([&] { return fi_writemsg(n.ep(), &message, FI_DELIVERY_COMPLETE | FI_COMPLETION); });
      const completion written = n.wait(ctx(1));
      EXPECT_EQ(0, written.err);
      EXPECT_EQ(FI_RMA | FI_WRITE, written.flags & (FI_RMA | FI_WRITE | FI_READ));
      r.barrier();  // the target looks at its memory
      r.barrier();
      own.put(0, bytes(size));
      n.post([&] {
        return fi_read(n.ep(), own.at(0), size, desc, n.peer(1), other.address + offset, other.key,
                       ctx(2));
      });
      EXPECT_EQ(0, n.wait(ctx(2)).err);
      expect_same(data, own.get(0, size), "read back");
    } else {
      const bytes guard = bytes_of(99, 16);
      own.put(offset + size, guard);
      r.barrier();
      expect_same(data, own.get(offset, size), "written");
      expect_same(bytes(offset), own.get(0, offset), "before the range");
      expect_same(guard, own.get(offset + size, 16), "after the range");
      r.barrier();
      EXPECT_FALSE(n.has_completion());
    }
    r.barrier();
  });
}

INSTANTIATE_TEST_SUITE_P(modes, one_sided,
                         testing::Combine(testing::Values(0, by_address),
                                          testing::Values(1, 63, 5000, 65537, 4 * mib + 1),
                                          testing::Values(0, 13)));

TEST(rma, data_of_a_write_arrives_with_its_bytes) {
  run({}, [](rank& r) {
    node n({.mr_mode = by_address});
    n.meet(r);
    memory own(n, mib, false, 5);
    const target other = share(r, own);
    for (const std::size_t size : {std::size_t{8}, std::size_t{300000}}) {
      const bytes data = bytes_of(size, size);
      if (r.id() == 0) {
        own.put(0, data);
        n.post([&] {
          return fi_writedata(n.ep(), own.at(0), size, own.desc(), 0xabcd0000 + size, n.peer(1),
                              other.address, other.key, ctx(1));
        });
        EXPECT_EQ(0, n.wait(ctx(1)).err);
      } else {
        const completion c = n.wait_any();
        EXPECT_EQ(0xabcd0000 + size, c.data);
        EXPECT_EQ(FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA,
                  c.flags & (FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA));
        expect_same(data, own.get(0, size), "written");
      }
      r.barrier();
    }
  });
}

// Whether a delivery that cannot happen is reported.
bool write_fails(node& n, const memory& from, std::size_t size, target to) {
  const iovec local{from.at(0), size};
  const fi_rma_iov remote{to.address, size, to.key};
  void* desc = from.desc();
  const fi_msg_rma message{&local, &desc, 1, n.peer(1), &remote, 1, ctx(1), 0};
  n.post([&] { return fi_writemsg(n.ep(), &message, FI_DELIVERY_COMPLETE | FI_COMPLETION); });
  return n.wait(ctx(1)).err != 0;
}

// Each in a world of its own: such an error may cost the connection.
TEST(rma, wrong_key_or_range_fails_at_the_initiator_and_changes_nothing) {
  if (!is_gaudi()) GTEST_SKIP() << "what other providers do here differs";
  for (const target wrong : {target{0, 12345}, target{4000, 0}})
    run({}, [wrong](rank& r) {
      node n({.mr_mode = by_address});
      n.meet(r);
      memory own(n, 4096, false);
      const target other = share(r, own);
      if (r.id() == 0) {
        own.put(0, bytes_of(1, 4096));
        EXPECT_TRUE(
            write_fails(n, own, 100, {other.address + wrong.address, other.key + wrong.key}));
      }
      r.barrier();
      if (r.id() == 1) expect_same(bytes(4096), own.get(0, 4096), "the target's memory");
      r.barrier();
    });
}

TEST(rma, many_in_flight_in_both_directions) {
  run({}, [](rank& r) {
    constexpr std::size_t count = 200;
    constexpr std::size_t size = 3000;
    node n({.mr_mode = by_address});
    n.meet(r);
    memory source(n, count * size, false, 1);
    memory sink(n, count * size, false, 2);
    const target mine{sink.remote(0), sink.key()};
    const auto all = r.all_gather({reinterpret_cast<const char*>(&mine), sizeof mine});
    target other{};
    const int peer = 1 - r.id();
    std::memcpy(&other, all[static_cast<std::size_t>(peer)].data(), sizeof other);
    source.put(0, bytes_of(static_cast<std::uint64_t>(r.id()), count * size));
    for (std::size_t i = 0; i < count; ++i)
      n.post([&] {
        return fi_write(n.ep(), source.at(i * size), size, source.desc(), n.peer(peer),
                        other.address + i * size, other.key, ctx(i + 1));
      });
    for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(0, n.wait(ctx(i + 1)).err);
    r.barrier();
    // Completed writes may still be on their way to memory; a read behind them tells.
    memory back(n, count * size, false, 3);
    n.post([&] {
      return fi_read(n.ep(), back.at(0), count * size, back.desc(), n.peer(peer), other.address,
                     other.key, ctx(1));
    });
    n.wait(ctx(1));
    expect_same(source.get(0, count * size), back.get(0, count * size), "read back");
    r.barrier();
  });
}

// Several connections to a peer keep no order of RMA; the info says so where nobody asks for one.
// In a process of its own: libfabric is not to be open already in that which later cases fork.
TEST(rma, order_is_promised_unless_connections_share_it_out) {
  run({.ranks = 1}, [](rank&) {
    const auto order = [](std::uint64_t asked) {
      const info_ptr hints = hints_for({});
      hints->tx_attr->msg_order = asked;
      fi_info* found = nullptr;
      must(fi_getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, hints.get(), &found), "fi_getinfo");
      const info_ptr info(found);
      return info->tx_attr->msg_order & (FI_ORDER_RMA_WAW | FI_ORDER_SAS);
    };
    const char* const rails = std::getenv("FI_GAUDI_RAILS");
    const bool shared_out = rails && std::string(rails) != "1";
    const std::uint64_t both = FI_ORDER_RMA_WAW | FI_ORDER_SAS;
    EXPECT_EQ(order(0), shared_out ? FI_ORDER_SAS : both);
    EXPECT_EQ(order(FI_ORDER_RMA_WAW), both);
  });
}

// Without the fence nothing orders a message behind a write.
TEST(fence, a_message_behind_it_finds_what_was_written_before) {
  run({}, [](rank& r) {
    for (const bool own_keys : {false, true}) {
      node_options options{.caps = FI_MSG | FI_RMA | FI_FENCE};
      if (own_keys) options.mr_mode = 0;
      node n(options);
      EXPECT_TRUE(n.info()->caps & FI_FENCE);
      n.meet(r);
      constexpr std::size_t size = 3 << 20;
      memory m(n, size, false, 5);
      const auto there = [&](std::uint64_t mine) {
        return std::stoull(r.all_gather(std::to_string(mine))[1]);
      };
      const std::uint64_t address = there(m.remote(0)), key = there(m.key());
      const bytes data = bytes_of(8, size);
      char byte = 0;
      if (r.id() == 0) {
        n.post([&] {
          return fi_write(n.ep(), data.data(), size, nullptr, n.peer(1), address, key, ctx(1));
        });
        iovec none{&byte, 1};
        fi_msg message{};
        message.msg_iov = &none;
        message.iov_count = 1;
        message.addr = n.peer(1);
        message.context = ctx(2);
        n.post([&] { return fi_sendmsg(n.ep(), &message, FI_FENCE | FI_COMPLETION); });
        EXPECT_EQ(n.wait(ctx(2)).err, 0);
        EXPECT_EQ(n.wait(ctx(1)).err, 0);
      } else {
        n.post([&] { return fi_recv(n.ep(), &byte, 1, nullptr, n.peer(0), ctx(3)); });
        EXPECT_EQ(n.wait(ctx(3)).err, 0);
        expect_same(data, m.get(0, size), "written memory");
      }
      r.barrier();
    }
  });
}

}  // namespace
}  // namespace gaudi::test
