// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What FI_GAUDI_COPY_TABLE fixes is what copies and staged data follow.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>

#include "node.hpp"

namespace gaudi::test {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

void set_up(const rank& r, const char* table) {
  setenv("FI_GAUDI_DEVICE", std::to_string(r.id()).c_str(), 1);
  setenv("FI_GAUDI_COPY_TABLE", table, 1);
}

class copy_table : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_gaudi()) GTEST_SKIP() << "only gaudi carries Gaudi memory";
  }
};

struct copying {
  const char* table;
  std::uint64_t copies;  // that the engine is given for 8 MiB
};

// Each in a process of its own, as parameters are read once.
TEST_F(copy_table, says_how_memory_that_nobody_registered_is_copied) {
  for (const copying& want : std::initializer_list<copying>{{"off", 1},
                                                            {"off;h2d:pin=off", 16},
                                                            {"off;h2d:split=1M", 4},
                                                            {"h2d:pin=off", 16},
                                                            {"h2d:pin=4M,split=off", 1},
                                                            {"h2d:pin=4M,split=8M", 4}}) {
    run({.ranks = 1}, [&](rank& r) {
      set_up(r, want.table);
      const node n({.device = true});
      constexpr std::size_t size = 8 * mib;
      const auto sent = bytes_of(1, size);
      std::uint64_t at = 0;
      must(n.ops().alloc(n.domain(), size, &at), "alloc");
      must(n.ops().copy(n.domain(), at, reinterpret_cast<std::uint64_t>(sent.data()), size,
                        FI_GAUDI_HOST_TO_DEVICE),
           "copy");
      // What measured the device is not among them.
      EXPECT_EQ(want.copies, n.device_stats().copies) << want.table;
      EXPECT_EQ(size, n.device_stats().host_to_device_bytes);
      std::vector<std::byte> got(size);
      must(n.ops().copy(n.domain(), reinterpret_cast<std::uint64_t>(got.data()), at, size,
                        FI_GAUDI_DEVICE_TO_HOST),
           "copy");
      expect_same(sent, got, want.table);
      must(n.ops().free(n.domain(), at), "free");
    });
  }
}

TEST_F(copy_table, says_in_which_chunks_data_is_staged) {
  constexpr std::size_t size = 4 * mib;
  struct staging {
    const char* table;
    const char* ipc;
    std::size_t chunk;
  };
  for (const staging& want : std::initializer_list<staging>{
           {"off", "off", size / 16},
           {"off", "auto", size / 32},
           {"h2d:chunk=100000;d2h:chunk=100000", "off", 100'000},
           {"h2d:chunk=100000;d2h:chunk=100000", "auto", 100'000},
           {"off;h2d:chunk=1G;d2h:chunk=1G", "off", mib / 2},  // FI_GAUDI_STAGING_CHUNK
           {"off;d2h:chunk=5000", "auto", 5000}}) {
    run({}, [&](rank& r) {
      set_up(r, want.table);
      setenv("FI_GAUDI_IPC", want.ipc, 1);
      node n({.device = true});
      n.meet(r);
      memory own(n, size, true);
      if (r.id() == 0) {
        own.put(0, bytes_of(3, size));
        n.post([&] { return fi_tsend(n.ep(), own.at(0), size, own.desc(), n.peer(1), 1, ctx(1)); });
      } else {
        n.post([&] {
          return fi_trecv(n.ep(), own.at(0), size, own.desc(), FI_ADDR_UNSPEC, 1, 0, ctx(1));
        });
      }
      EXPECT_EQ(0, n.wait(ctx(1)).err);
      if (r.id() == 0) {
        EXPECT_EQ((size + want.chunk - 1) / want.chunk, n.paths().staged_ops) << want.table;
      } else {
        expect_same(bytes_of(3, size), own.get(0, size), want.table);
      }
      r.barrier();
    });
  }
}

}  // namespace
}  // namespace gaudi::test
