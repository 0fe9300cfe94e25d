// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Atomic operations between processes, on host and on device memory (fi_atomic(3)).
#include <gtest/gtest.h>
#include <rdma/fi_atomic.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <sstream>

#include "node.hpp"

namespace gaudi::test {
namespace {

constexpr std::uint64_t caps = FI_MSG | FI_RMA | FI_ATOMIC;

struct where {
  std::uint64_t address;
  std::uint64_t key;
};

/// The memory of every rank, by rank.
std::vector<where> exchange(rank& r, const memory& m) {
  std::vector<where> all;
  for (const std::string& text :
       r.all_gather(std::to_string(m.remote(0)) + " " + std::to_string(m.key()))) {
    where w{};
    std::sscanf(text.c_str(), "%lu %lu", &w.address, &w.key);
    all.push_back(w);
  }
  return all;
}

template <class T>
std::vector<std::byte> bytes_from(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <class T>
std::vector<T> values_in(const memory& m, std::size_t count) {
  std::vector<T> values(count);
  std::memcpy(values.data(), m.get(0, count * sizeof(T)).data(), count * sizeof(T));
  return values;
}

struct place {
  bool device;
  bool own_keys;
};
class atomics : public testing::TestWithParam<place> {
 protected:
  static node_options options() {
    node_options o{.caps = caps, .device = GetParam().device};
    if (GetParam().own_keys) o.mr_mode = 0;
    return o;
  }
  static bool device() { return GetParam().device; }
};

TEST_P(atomics, sums_of_all_ranks_are_exact) {
  run({.ranks = 3}, [](rank& r) {
    node n(options());
    n.meet(r);
    constexpr std::size_t count = 5;
    const int rounds = device() ? 40 : 300;
    memory m(n, 4096, device(), 1);
    m.put(0, bytes_from(std::vector<std::uint64_t>(count, 0)));
    const auto all = exchange(r, m);
    const std::vector<std::uint64_t> ones(count, 1);
    for (int i = 0; i < rounds; ++i) {
      n.post([&] {
        return fi_atomic(n.ep(), ones.data(), count, nullptr, n.peer(0), all[0].address, all[0].key,
                         FI_UINT64, FI_SUM, ctx(1));
      });
      const completion c = n.wait(ctx(1));
      ASSERT_EQ(c.err, 0);
      ASSERT_EQ(c.flags & (FI_ATOMIC | FI_WRITE), FI_ATOMIC | FI_WRITE);
    }
    r.barrier();
    if (r.id() == 0) {
      EXPECT_EQ(values_in<std::uint64_t>(m, count),
                std::vector<std::uint64_t>(count, 3 * static_cast<std::uint64_t>(rounds)));
    }
    r.barrier();
  });
}

TEST_P(atomics, fetched_values_are_all_different) {
  run({.ranks = 3}, [](rank& r) {
    node n(options());
    n.meet(r);
    constexpr int rounds = 40;
    memory m(n, 4096, device(), 1);
    m.put(0, bytes_from(std::vector<std::uint32_t>{0}));
    const auto all = exchange(r, m);
    const std::uint32_t one = 1;
    std::string mine;
    for (int i = 0; i < rounds; ++i) {
      std::uint32_t before = 0;
      n.post([&] {
        return fi_fetch_atomic(n.ep(), &one, 1, nullptr, &before, nullptr, n.peer(0),
                               all[0].address, all[0].key, FI_UINT32, FI_SUM, ctx(2));
      });
      ASSERT_EQ(n.wait(ctx(2)).err, 0);
      mine += std::to_string(before) + " ";
    }
    std::vector<bool> seen(3 * rounds, false);
    for (const std::string& text : r.all_gather(mine)) {
      std::istringstream in(text);
      for (std::size_t value = 0; in >> value;) {
        ASSERT_LT(value, seen.size());
        EXPECT_FALSE(seen[value]) << value;
        seen[value] = true;
      }
    }
    r.barrier();
  });
}

TEST_P(atomics, compare_and_swap_lets_one_rank_win_each_turn) {
  run({.ranks = 2}, [](rank& r) {
    node n(options());
    n.meet(r);
    memory m(n, 4096, device(), 1);
    m.put(0, bytes_from(std::vector<std::int64_t>{0}));
    const auto all = exchange(r, m);
    int won = 0;
    for (std::int64_t turn = 0; turn < 30; ++turn) {
      const std::int64_t next = turn + 1;
      std::int64_t before = -1;
      n.post([&] {
        return fi_compare_atomic(n.ep(), &next, 1, nullptr, &turn, nullptr, &before, nullptr,
                                 n.peer(0), all[0].address, all[0].key, FI_INT64, FI_CSWAP, ctx(3));
      });
      ASSERT_EQ(n.wait(ctx(3)).err, 0);
      won += before == turn;
      r.barrier();
    }
    int sum = 0;
    for (const std::string& text : r.all_gather(std::to_string(won))) sum += std::stoi(text);
    EXPECT_EQ(sum, 30);
    r.barrier();
  });
}

TEST_P(atomics, values_come_from_several_places_and_go_to_others) {
  run({}, [](rank& r) {
    node n(options());
    n.meet(r);
    memory m(n, 4096, device(), 1);
    using values = std::vector<std::int32_t>;
    m.put(0, bytes_from(values{10, 20, 30}));
    const auto all = exchange(r, m);
    if (r.id() == 1) {
      values one{1}, two{2, 3};
      const std::array<fi_ioc, 2> operands{{{one.data(), 1}, {two.data(), 2}}};
      n.post([&] {
        return fi_atomicv(n.ep(), operands.data(), nullptr, 2, n.peer(0), all[0].address,
                          all[0].key, FI_INT32, FI_SUM, ctx(1));
      });
      EXPECT_EQ(n.wait(ctx(1)).err, 0);  // 11 22 33
      values last(2), first(1);
      std::array<fi_ioc, 2> results{{{last.data(), 2}, {first.data(), 1}}};
      n.post([&] {
        return fi_fetch_atomicv(n.ep(), operands.data(), nullptr, 2, results.data(), nullptr, 2,
                                n.peer(0), all[0].address, all[0].key, FI_INT32, FI_SUM, ctx(2));
      });
      EXPECT_EQ(n.wait(ctx(2)).err, 0);  // 12 24 36
      EXPECT_EQ(last, (values{11, 22}));
      EXPECT_EQ(first, (values{33}));
      values expected{12, 0, 36};
      const std::array<fi_ioc, 2> compared{{{expected.data(), 1}, {expected.data() + 1, 2}}};
      n.post([&] {
        return fi_compare_atomicv(n.ep(), operands.data(), nullptr, 2, compared.data(), nullptr, 2,
                                  results.data(), nullptr, 2, n.peer(0), all[0].address, all[0].key,
                                  FI_INT32, FI_CSWAP, ctx(3));
      });
      EXPECT_EQ(n.wait(ctx(3)).err, 0);
      EXPECT_EQ(last, (values{12, 24}));
      EXPECT_EQ(first, (values{36}));
    }
    r.barrier();
    if (r.id() == 0) {
      EXPECT_EQ(values_in<std::int32_t>(m, 3), (values{1, 24, 3}));
    }
    r.barrier();
  });
}

TEST_P(atomics, injected_ones_arrive_and_reads_see_them) {
  run({}, [](rank& r) {
    node n(options());
    n.meet(r);
    memory m(n, 4096, device(), 1);
    m.put(0, bytes_from(std::vector<double>{0.5}));
    const auto all = exchange(r, m);
    if (r.id() == 1) {
      double value = 2;
      for (int i = 0; i < 3; ++i) {
        n.post([&] {
          return fi_inject_atomic(n.ep(), &value, 1, n.peer(0), all[0].address, all[0].key,
                                  FI_DOUBLE, FI_PROD);
        });
      }
      value = 0;
      n.post([&] {
        return fi_fetch_atomic(n.ep(), nullptr, 1, nullptr, &value, nullptr, n.peer(0),
                               all[0].address, all[0].key, FI_DOUBLE, FI_ATOMIC_READ, ctx(1));
      });
      EXPECT_EQ(n.wait(ctx(1)).err, 0);
      EXPECT_EQ(value, 4.0);
    }
    r.barrier();
  });
}

TEST_P(atomics, wrong_targets_fail_and_harm_nothing) {
  run({}, [](rank& r) {
    node n(options());
    n.meet(r);
    memory m(n, 4096, device(), 1);
    const auto all = exchange(r, m);
    if (r.id() == 1) {
      const std::uint32_t value = 1;
      const auto fails = [&](std::uint64_t address, std::uint64_t key) {
        n.post([&] {
          return fi_atomic(n.ep(), &value, 1, nullptr, n.peer(0), address, key, FI_UINT32, FI_SUM,
                           ctx(1));
        });
        return n.wait(ctx(1)).err;
      };
      EXPECT_EQ(fails(all[0].address, all[0].key + 1000), FI_EACCES);
      EXPECT_EQ(fails(all[0].address + 4093, all[0].key), FI_EACCES);
      EXPECT_EQ(fails(all[0].address, all[0].key), 0);
    }
    r.barrier();
  });
}

INSTANTIATE_TEST_SUITE_P(places, atomics,
                         testing::Values(place{false, false}, place{false, true},
                                         place{true, false}, place{true, true}),
                         [](const auto& p) {
                           return std::string(p.param.device ? "device" : "host") +
                                  (p.param.own_keys ? "_own_keys" : "");
                         });

TEST(atomic, says_what_there_is) {
  run({.ranks = 1}, [](rank& r) {
    node n({.caps = caps});
    n.meet(r);
    std::size_t count = 0;
    EXPECT_EQ(fi_atomicvalid(n.ep(), FI_INT32, FI_SUM, &count), 0);
    EXPECT_GT(count, 100U);
    const std::size_t limit = count;
    EXPECT_EQ(fi_atomicvalid(n.ep(), FI_DOUBLE, FI_BXOR, &count), -FI_EOPNOTSUPP);
    EXPECT_EQ(fi_compare_atomicvalid(n.ep(), FI_INT32, FI_SUM, &count), -FI_EOPNOTSUPP);
    fi_atomic_attr attr{};
    EXPECT_EQ(fi_query_atomic(n.domain(), FI_DOUBLE, FI_CSWAP, &attr, FI_COMPARE_ATOMIC), 0);
    EXPECT_EQ(attr.size, sizeof(double));
    EXPECT_GT(attr.count, 0U);
    EXPECT_EQ(fi_query_atomic(n.domain(), FI_DOUBLE, FI_CSWAP, &attr, 0), -FI_EOPNOTSUPP);
    std::vector<std::int32_t> many(limit + 1);
    EXPECT_EQ(fi_atomic(n.ep(), many.data(), many.size(), nullptr, n.peer(0), 0, 1, FI_INT32,
                        FI_SUM, nullptr),
              -FI_EINVAL);
    EXPECT_EQ(
        fi_atomic(n.ep(), many.data(), 0, nullptr, n.peer(0), 0, 1, FI_INT32, FI_SUM, nullptr),
        -FI_EINVAL);
  });
}

}  // namespace
}  // namespace gaudi::test
