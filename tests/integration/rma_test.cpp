// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// One-sided operations on host memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>

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
class one_sided : public testing::TestWithParam<int> {};

// The ends are new each time, their processes are not.
void write_then_read_back(rank& r, int mr_mode, std::size_t size, std::size_t offset) {
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
}

TEST_P(one_sided, write_then_read_back) {
  run({}, [mr_mode = GetParam()](rank& r) {
    for (const std::size_t size :
         {std::size_t{1}, std::size_t{63}, std::size_t{5000}, std::size_t{65537}, 4 * mib + 1}) {
      for (const std::size_t offset : {0, 13}) {
        SCOPED_TRACE(std::to_string(size) + " bytes at " + std::to_string(offset));
        write_then_read_back(r, mr_mode, size, offset);
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(modes, one_sided, testing::Values(0, by_address));

/// Where rank 1's ranges are, apart and in another order than their bytes at rank 0.
struct range {
  std::size_t at;
  std::size_t length;
};
const std::vector<range> long_ranges{{900'000, 1},        {0, 4096},          {700'001, 131'072},
                                     {5000, 63},          {6000, 0},          {200'000, 400'003},
                                     {100'000, 99'999},   {4096, 1},          {1'000'000, 300'000},
                                     {1'300'000, 8},      {1'300'010, 8},     {1'300'020, 8},
                                     {1'400'000, 70'000}, {1'500'000, 5'000}, {1'510'000, 16'385},
                                     {1'600'000, 33}};
const std::vector<range> short_ranges{{500, 300}, {0, 1}, {900, 123}};

std::size_t length_of(const std::vector<range>& all) {
  std::size_t length = 0;
  for (const range& one : all) length += one.length;
  return length;
}

// (mr_mode, in device memory at both ends)
class ranges : public testing::TestWithParam<std::tuple<int, bool>> {
 protected:
  static constexpr std::size_t size = 2 * mib;

  void SetUp() override {
    if (!is_gaudi()) GTEST_SKIP() << "other providers take one range";
  }
  void with_two(const std::function<void(rank&, node&, memory&, target)>& body) {
    const auto [mr_mode, on_device] = GetParam();
    run({}, [&, mr_mode = mr_mode, on_device = on_device](rank& r) {
      setenv("FI_GAUDI_DEVICE", std::to_string(r.id()).c_str(), 1);
      node n({.mr_mode = mr_mode, .device = on_device});
      n.meet(r);
      memory own(n, size, on_device, 0x100U + static_cast<unsigned>(r.id()));
      body(r, n, own, share(r, own));
    });
  }
  /// From, or to, rank 0's first bytes, which are in two parts.
  static void access(node& n, const memory& own, target other, const std::vector<range>& all,
                     bool is_write, std::uint64_t flags) {
    const std::size_t length = length_of(all);
    const std::array<iovec, 2> local{
        {{own.at(0), length / 3}, {own.at(length / 3), length - length / 3}}};
    std::array<void*, 2> descs{own.desc(), own.desc()};
    std::vector<fi_rma_iov> remote;
    for (const range& one : all) remote.push_back({other.address + one.at, one.length, other.key});
    const fi_msg_rma message{local.data(),  descs.data(),  local.size(), n.peer(1),
                             remote.data(), remote.size(), ctx(1),       77};
    n.post([&] {
      return is_write ? fi_writemsg(n.ep(), &message, flags) : fi_readmsg(n.ep(), &message, flags);
    });
  }
  static void expect_end(node& n, std::uint64_t kind) {
    const completion c = n.wait(ctx(1));
    EXPECT_EQ(0, c.err);
    EXPECT_EQ(FI_RMA | kind, c.flags & (FI_RMA | FI_READ | FI_WRITE));
    EXPECT_FALSE(n.has_completion());
  }
  /// What the target's memory is when `data` has been written to all of them.
  static bytes written(const std::vector<range>& all, const bytes& data) {
    bytes whole(size);
    std::size_t done = 0;
    for (const range& one : all) {
      std::copy_n(data.begin() + static_cast<std::ptrdiff_t>(done), one.length,
                  whole.begin() + static_cast<std::ptrdiff_t>(one.at));
      done += one.length;
    }
    return whole;
  }
};

TEST_P(ranges, write_with_data_then_read_back) {
  with_two([](rank& r, node& n, memory& own, target other) {
    own.put(0, bytes(size));
    r.barrier();
    const bytes data = bytes_of(7, length_of(long_ranges));
    if (r.id() == 0) {
      own.put(0, data);
      access(n, own, other, long_ranges, true,
             FI_REMOTE_CQ_DATA | FI_COMPLETION | FI_DELIVERY_COMPLETE);
      expect_end(n, FI_WRITE);
      own.put(0, bytes(data.size()));
      access(n, own, other, long_ranges, false, FI_COMPLETION);
      expect_end(n, FI_READ);
      expect_same(data, own.get(0, data.size()), "read back");
    } else {
      // All is there when the data comes, with the last range.
      EXPECT_EQ(77U, n.wait_any().data);
      expect_same(written(long_ranges, data), own.get(0, size), "written");
    }
    r.barrier();
    EXPECT_FALSE(n.has_completion());
  });
}

TEST_P(ranges, injected_ones_are_the_callers_again_at_once) {
  with_two([](rank& r, node& n, memory& own, target other) {
    own.put(0, bytes(size));
    r.barrier();
    const bytes data = bytes_of(7, length_of(short_ranges));
    if (r.id() == 0) {
      own.put(0, data);
      access(n, own, other, short_ranges, true, FI_INJECT | FI_REMOTE_CQ_DATA);
      own.put(0, bytes(data.size()));
      n.post([&] { return fi_send(n.ep(), own.at(0), 8, own.desc(), n.peer(1), ctx(2)); });
      EXPECT_EQ(0, n.wait(ctx(2)).err);
    } else {
      n.post(
          [&] { return fi_recv(n.ep(), own.at(size - 8), 8, own.desc(), FI_ADDR_UNSPEC, ctx(2)); });
      completion c = n.wait_any();
      if (c.context == ctx(2)) c = n.wait_any();  // it may come first
      EXPECT_EQ(77U, c.data);
      expect_same(written(short_ranges, data), own.get(0, size), "written");
    }
    r.barrier();
  });
}

TEST_P(ranges, a_single_one_that_is_injected_is_the_callers_again_at_once) {
  with_two([](rank& r, node& n, memory& own, target other) {
    for (const std::size_t length : {1, 8, 64, 65, 1000}) {
      own.put(0, bytes(size));
      r.barrier();
      const bytes data = bytes_of(length, length);
      if (r.id() == 0) {
        own.put(0, data);
        n.post([&] {
          return fi_inject_writedata(n.ep(), own.at(0), length, length, n.peer(1),
                                     other.address + 100, other.key);
        });
        own.put(0, bytes(length));
      } else {
        EXPECT_EQ(length, n.wait_any().data);
        expect_same(written({{100, length}}, data), own.get(0, size), "written");
      }
      r.barrier();
    }
  });
}

// At the target it is one range; here it is three places, of which the last is the first in memory.
TEST_P(ranges, one_is_gathered_from_several_places_and_scattered_to_others) {
  with_two([](rank& r, node& n, memory& own, target other) {
    constexpr std::size_t length = 50000;
    own.put(0, bytes(size));
    r.barrier();
    const bytes data = bytes_of(3, length);
    if (r.id() == 0) {
      const std::array<iovec, 3> from{
          {{own.at(1000), 20000}, {own.at(60000), 29993}, {own.at(7), 7}}};
      std::array<void*, 3> descs{own.desc(), own.desc(), own.desc()};
      const auto part = [&](std::size_t at, std::size_t count) {
        const auto begin = data.begin() + static_cast<std::ptrdiff_t>(at);
        return bytes(begin, begin + static_cast<std::ptrdiff_t>(count));
      };
      own.put(1000, part(0, 20000));
      own.put(60000, part(20000, 29993));
      own.put(7, part(49993, 7));
      n.post([&] {
        return fi_writev(n.ep(), from.data(), descs.data(), from.size(), n.peer(1),
                         other.address + 100, other.key, ctx(1));
      });
      expect_end(n, FI_WRITE);
      own.put(0, bytes(size));
      const std::array<iovec, 3> to{
          {{own.at(200000), 1}, {own.at(0), 40000}, {own.at(300001), 9999}}};
      n.post([&] {
        return fi_readv(n.ep(), to.data(), descs.data(), to.size(), n.peer(1), other.address + 100,
                        other.key, ctx(1));
      });
      expect_end(n, FI_READ);
      bytes scattered = own.get(200000, 1);
      for (const bytes& more : {own.get(0, 40000), own.get(300001, 9999)})
        scattered.insert(scattered.end(), more.begin(), more.end());
      expect_same(data, scattered, "read back");
      r.barrier();
    } else {
      r.barrier();
      expect_same(written({{100, length}}, data), own.get(0, size), "written");
    }
    r.barrier();
  });
}

// Without data nobody is told: a read behind it finds it.
TEST_P(ranges, a_single_one_that_is_injected_is_there_for_a_read_behind_it) {
  with_two([](rank& r, node& n, memory& own, target other) {
    own.put(0, bytes(size));
    r.barrier();
    if (r.id() == 0) {
      for (const std::size_t length : {8, 64, 1000}) {
        const bytes data = bytes_of(length, length);
        own.put(0, data);
        n.post([&] {
          return fi_inject_write(n.ep(), own.at(0), length, n.peer(1), other.address + 9,
                                 other.key);
        });
        own.put(0, bytes(length));
        const fi_rma_iov remote{other.address + 9, length, other.key};
        const iovec local{own.at(5000), length};
        void* desc = own.desc();
        const fi_msg_rma message{&local, &desc, 1, n.peer(1), &remote, 1, ctx(1), 0};
        n.post([&] { return fi_readmsg(n.ep(), &message, FI_FENCE | FI_COMPLETION); });
        expect_end(n, FI_READ);
        expect_same(data, own.get(5000, length), "read back");
      }
    }
    r.barrier();
  });
}

TEST_P(ranges, more_than_are_offered_or_of_another_length_are_refused) {
  with_two([](rank& r, node& n, memory& own, target other) {
    if (r.id() == 0) {
      EXPECT_EQ(16U, n.info()->tx_attr->rma_iov_limit);
      const iovec local{own.at(0), 17};
      void* desc = own.desc();
      const std::vector<fi_rma_iov> remote(17, {other.address, 1, other.key});
      for (const std::size_t count : {0, 16, 17}) {
        const fi_msg_rma message{&local, &desc, 1, n.peer(1), remote.data(), count, ctx(1), 0};
        EXPECT_EQ(-FI_EINVAL, fi_writemsg(n.ep(), &message, FI_COMPLETION)) << count;
        EXPECT_EQ(-FI_EINVAL, fi_readmsg(n.ep(), &message, FI_COMPLETION)) << count;
      }
      EXPECT_FALSE(n.has_completion());
    }
    r.barrier();
  });
}

INSTANTIATE_TEST_SUITE_P(memories, ranges,
                         testing::Values(std::tuple{0, false}, std::tuple{by_address, false},
                                         std::tuple{by_address, true}, std::tuple{0, true}));

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
