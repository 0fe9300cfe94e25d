// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Device memory that the NIC reads and writes itself: contents, and the counters that tell which
// way the bytes went. For the virtual machine, where exports are real dma-bufs.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "message.hpp"

namespace gaudi::test {
namespace {

using bytes = std::vector<std::byte>;
using environment = std::vector<std::pair<std::string, std::string>>;

constexpr std::size_t kib = 1024;
constexpr std::size_t mib = kib * kib;
const node_options with_device{.device = true};

/// Of both ranks together since `before`, the same at each.
struct moved {
  std::uint64_t direct = 0;
  std::uint64_t zero_copy = 0;
  std::uint64_t staged = 0;
};

moved since(rank& r, const node& n, const fi_gaudi_path_stats& before) {
  const fi_gaudi_path_stats now = n.paths();
  const moved own{now.direct_bytes - before.direct_bytes,
                  now.zero_copy_bytes - before.zero_copy_bytes,
                  now.staged_bytes - before.staged_bytes};
  moved sum;
  for (const std::string& told : r.all_gather({reinterpret_cast<const char*>(&own), sizeof own})) {
    moved one;
    std::memcpy(&one, told.data(), sizeof one);
    sum.direct += one.direct;
    sum.zero_copy += one.zero_copy;
    sum.staged += one.staged;
  }
  return sum;
}

struct target {
  std::uint64_t address;
  std::uint64_t key;
};

/// Where the other rank's memory is.
target exchange(rank& r, std::uint64_t address, std::uint64_t key) {
  const target mine{address, key};
  const auto all = r.all_gather({reinterpret_cast<const char*>(&mine), sizeof mine});
  target other{};
  std::memcpy(&other, all[static_cast<std::size_t>(1 - r.id())].data(), sizeof other);
  return other;
}

// A message of `size` bytes from rank 0 to rank 1, both at odd places. Returns what moved.
moved send_one(rank& r, node& n, memory& own, std::size_t size) {
  const auto before = n.paths();
  const auto device_before = n.device_stats();
  pass_message(r, n, own, size, size);
  r.barrier();
  EXPECT_EQ(n.paths().zero_copy_bytes - before.zero_copy_bytes,
            n.device_stats().zero_copy_bytes - device_before.zero_copy_bytes);
  return since(r, n, before);
}

// Who reads or writes, and so counts.
enum class by { sender, receiver };

// (FI_GAUDI_RNDV, sender in device memory, receiver in device memory, who moves it)
class long_message : public testing::TestWithParam<std::tuple<const char*, bool, bool, by>> {};

TEST_P(long_message, is_moved_by_the_nic_alone) {
  const auto [rndv, from, to, mover] = GetParam();
  const bool counted = mover == by::sender ? from : to;
  run({.environment = {{"FI_GAUDI_RNDV", rndv}}}, [from = from, to = to, counted](rank& r) {
    take_device(r);
    node n(with_device);
    n.meet(r);
    memory own(n, 16 * mib + 8 * kib, r.id() == 0 ? from : to);
    for (const std::size_t size : {17 * kib + 1, mib, 16 * mib}) {
      const moved m = send_one(r, n, own, size);
      EXPECT_EQ(size, m.direct);
      EXPECT_EQ(counted ? size : 0, m.zero_copy);
      EXPECT_EQ(0U, m.staged);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(pairs, long_message,
                         testing::Values(std::tuple("auto", true, true, by::receiver),
                                         std::tuple("auto", true, false, by::receiver),
                                         std::tuple("auto", false, true, by::receiver),
                                         std::tuple("read", true, true, by::receiver),
                                         std::tuple("read", true, false, by::receiver),
                                         std::tuple("write", true, true, by::sender),
                                         std::tuple("write", true, false, by::sender),
                                         std::tuple("write", false, true, by::sender)));

/// Device memory that nobody has registered.
class unregistered {
 public:
  unregistered(node& n, std::size_t size) : node_(n) {
    must(n.ops().alloc(n.domain(), size, &address_), "alloc");
  }
  unregistered(const unregistered&) = delete;
  unregistered& operator=(const unregistered&) = delete;
  ~unregistered() {
    EXPECT_EQ(0, node_.ops().free(node_.domain(), address_)) << "nothing keeps it any more";
  }
  [[nodiscard]] void* at(std::size_t offset) const {
    return reinterpret_cast<void*>(address_ + offset);
  }
  [[nodiscard]] static void* desc() { return nullptr; }
  void put(std::size_t offset, const bytes& from) {
    must(node_.ops().copy(node_.domain(), address_ + offset,
                          reinterpret_cast<std::uintptr_t>(from.data()), from.size(),
                          FI_GAUDI_HOST_TO_DEVICE),
         "to the device");
  }
  [[nodiscard]] bytes get(std::size_t offset, std::size_t size) {
    bytes to(size);
    must(node_.ops().copy(node_.domain(), reinterpret_cast<std::uintptr_t>(to.data()),
                          address_ + offset, size, FI_GAUDI_DEVICE_TO_HOST),
         "from the device");
    return to;
  }

 private:
  node& node_;
  std::uint64_t address_ = 0;
};

class undescribed : public testing::TestWithParam<const char*> {};

TEST_P(undescribed, long_messages_are_moved_by_the_nic_alone) {
  run({.environment = {{"FI_GAUDI_RNDV", GetParam()}}}, [](rank& r) {
    take_device(r);
    node n(with_device);
    n.meet(r);
    for (const std::size_t size : {17 * kib + 1, mib}) {
      unregistered own(n, size + 8 * kib);
      const auto before = n.paths();
      pass_message(r, n, own, size, size);
      r.barrier();
      const moved m = since(r, n, before);
      EXPECT_EQ(size, m.zero_copy);
      EXPECT_EQ(0U, m.staged);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(ways, undescribed, testing::Values("auto", "write"));

TEST(undescribed_memory, one_sided_access_needs_no_copy_here) {
  run({}, [](rank& r) {
    take_device(r);
    node n(with_device);
    n.meet(r);
    memory there(n, mib, true);
    const target other = exchange(r, there.remote(0), there.key());
    if (r.id() == 0) {
      unregistered own(n, mib);
      const auto before = n.paths();
      for (const std::size_t size : {std::size_t{8}, 5 * kib, mib}) {
        own.put(0, bytes_of(size, size));
        n.post([&] {
          return fi_write(n.ep(), own.at(0), size, nullptr, n.peer(1), other.address, other.key,
                          ctx(1));
        });
        EXPECT_EQ(0, n.wait(ctx(1)).err);
        own.put(0, bytes_of(1, size));
        n.post([&] {
          return fi_read(n.ep(), own.at(0), size, nullptr, n.peer(1), other.address, other.key,
                         ctx(2));
        });
        EXPECT_EQ(0, n.wait(ctx(2)).err);
        expect_same(bytes_of(size, size), own.get(0, size), "there and back");
      }
      EXPECT_EQ(0U, n.paths().staged_bytes - before.staged_bytes);
    }
    r.barrier();
  });
}

// The sender's device takes no part in it either; the receiver's buffer is the host's.
TEST(short_message, is_gathered_from_device_memory) {
  run({}, [](rank& r) {
    take_device(r);
    node n(with_device);
    n.meet(r);
    memory own(n, 16 * kib + 8 * kib, r.id() == 0);
    for (const std::size_t size : {std::size_t{1}, std::size_t{100}, std::size_t{4095}, 16 * kib}) {
      const moved m = send_one(r, n, own, size);
      EXPECT_EQ(size, m.zero_copy) << size;
      EXPECT_EQ(0U, m.staged);
    }
  });
}

// What was received in a message buffer the NIC copies on to the device: no engine takes part.
TEST(short_message, reaches_device_memory_by_the_nic) {
  for (const bool from_device : {true, false}) {
    run({}, [from_device](rank& r) {
      take_device(r);
      node n(with_device);
      n.meet(r);
      memory own(n, 16 * kib + 8 * kib, r.id() == 1 || from_device);
      for (const std::size_t size : {std::size_t{1}, std::size_t{100}, 16 * kib}) {
        const moved m = send_one(r, n, own, size);
        EXPECT_EQ(from_device ? size : 0, m.zero_copy) << size;
        EXPECT_EQ(0U, m.staged) << size;
      }
    });
  }
}

TEST(short_message, all_sizes_arrive_in_order) {
  run({}, [](rank& r) {
    take_device(r);
    node n(with_device);
    n.meet(r);
    constexpr std::size_t count = 64;
    const auto size_of = [](std::size_t i) { return i % 3 == 0 ? 64 : 2000 + i; };
    memory own(n, count * 4 * kib, r.id() == 0);
    if (r.id() == 0) {
      for (std::size_t i = 0; i < count; ++i) {
        own.put(i * 4 * kib, bytes_of(i, size_of(i)));
        n.post([&] {
          return fi_tsend(n.ep(), own.at(i * 4 * kib), size_of(i), own.desc(), n.peer(1), 1,
                          ctx(i + 1));
        });
      }
      for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(0, n.wait(ctx(i + 1)).err);
    } else {
      for (std::size_t i = 0; i < count; ++i) {
        n.post([&] {
          return fi_trecv(n.ep(), own.at(i * 4 * kib), 4 * kib, own.desc(), FI_ADDR_UNSPEC, 1, 0,
                          ctx(i + 1));
        });
        EXPECT_EQ(size_of(i), n.wait(ctx(i + 1)).len);
        expect_same(bytes_of(i, size_of(i)), own.get(i * 4 * kib, size_of(i)), "in order");
      }
    }
    r.barrier();
  });
}

// The same message where zero copy is not wanted.
class staged_message : public testing::TestWithParam<environment> {};

TEST_P(staged_message, goes_through_host_memory) {
  run({.environment = GetParam()}, [](rank& r) {
    take_device(r);
    node n(with_device);
    n.meet(r);
    memory own(n, mib + 8 * kib, true);
    const moved m = send_one(r, n, own, mib);
    EXPECT_EQ(0U, m.zero_copy);
    EXPECT_GE(m.staged, mib);
  });
}

INSTANTIATE_TEST_SUITE_P(choices, staged_message,
                         testing::Values(environment{{"FI_GAUDI_DMABUF", "off"}},
                                         environment{{"FI_GAUDI_RNDV", "staged"}}));

// One of them has the NIC's way, the other not.
TEST(zero_copy, works_with_a_peer_that_stages) {
  run({}, [](rank& r) {
    take_device(r);
    if (r.id() == 1) setenv("FI_GAUDI_DMABUF", "off", 1);
    node n(with_device);
    n.meet(r);
    memory own(n, mib + 8 * kib, true);
    send_one(r, n, own, mib);
    const target other = exchange(r, own.remote(0), own.key());
    if (r.id() == 0) {
      own.put(0, bytes_of(1, mib));
      for (const std::size_t size : {std::size_t{100}, mib}) {
        n.post([&] {
          return fi_write(n.ep(), own.at(0), size, own.desc(), n.peer(1), other.address, other.key,
                          ctx(1));
        });
        EXPECT_EQ(0, n.wait(ctx(1)).err);
      }
      own.put(0, bytes_of(2, mib));
      n.post([&] {
        return fi_read(n.ep(), own.at(0), mib, own.desc(), n.peer(1), other.address, other.key,
                       ctx(2));
      });
      EXPECT_EQ(0, n.wait(ctx(2)).err);
      expect_same(bytes_of(1, mib), own.get(0, mib), "read back");
    }
    r.barrier();
  });
}

// (initiator in device memory, target in device memory)
class one_sided : public testing::TestWithParam<std::tuple<bool, bool>> {};

TEST_P(one_sided, access_needs_no_copy) {
  const auto [from, to] = GetParam();
  run({}, [from = from, to = to](rank& r) {
    take_device(r);
    node n(with_device);
    n.meet(r);
    memory own(n, 16 * mib + 16 * kib, r.id() == 0 ? from : to);
    const target other = exchange(r, own.remote(4097), own.key());
    const std::array<std::size_t, 5> sizes{1, 100, 4095, 64 * kib + 5, 16 * mib};
    for (const std::size_t size : sizes) {
      const auto before = n.paths();
      if (r.id() == 0) {
        own.put(3, bytes_of(size, size));
        n.post([&] {
          return fi_writedata(n.ep(), own.at(3), size, own.desc(), size, n.peer(1), other.address,
                              other.key, ctx(1));
        });
        EXPECT_EQ(0, n.wait(ctx(1)).err);
      } else {
        const completion c = n.wait_any();
        EXPECT_EQ(size, c.data);
        expect_same(bytes_of(size, size), own.get(4097, size), "written");
        own.put(4097, bytes_of(size + 1, size));
      }
      const moved wrote = since(r, n, before);
      EXPECT_EQ(from ? size : 0, wrote.zero_copy) << size;
      EXPECT_EQ(0U, wrote.staged) << size;

      const auto again = n.paths();
      if (r.id() == 0) {
        n.post([&] {
          return fi_read(n.ep(), own.at(3), size, own.desc(), n.peer(1), other.address, other.key,
                         ctx(2));
        });
        EXPECT_EQ(0, n.wait(ctx(2)).err);
        expect_same(bytes_of(size + 1, size), own.get(3, size), "read");
      }
      const moved read = since(r, n, again);
      EXPECT_EQ(from ? size : 0, read.zero_copy) << size;
      EXPECT_EQ(0U, read.staged) << size;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(pairs, one_sided,
                         testing::Values(std::tuple(true, true), std::tuple(true, false),
                                         std::tuple(false, true)));

// The target of an access does nothing at all: it only waits at a barrier that does not progress.
TEST(zero_copy, needs_no_progress_at_the_target) {
  run({}, [](rank& r) {
    take_device(r);
    node n(with_device);
    n.meet(r);
    memory own(n, mib, true);
    const target other = exchange(r, own.remote(0), own.key());
    own.put(0, bytes_of(static_cast<std::uint64_t>(r.id()), mib));
    if (r.id() == 0) {  // makes the connection
      n.post([&] { return fi_inject(n.ep(), "x", 1, n.peer(1)); });
    } else {
      std::byte byte{};
      n.post([&] { return fi_recv(n.ep(), &byte, 1, nullptr, FI_ADDR_UNSPEC, ctx(1)); });
      EXPECT_EQ(1U, n.wait(ctx(1)).len);
      r.set_idle_work({});
    }
    r.barrier();
    if (r.id() == 0) {
      n.post([&] {
        return fi_read(n.ep(), own.at(0), mib, own.desc(), n.peer(1), other.address, other.key,
                       ctx(2));
      });
      EXPECT_EQ(0, n.wait(ctx(2)).err);
      expect_same(bytes_of(1, mib), own.get(0, mib), "read");
    }
    r.barrier();
  });
}

fi_gaudi_cache_stats cached(const node& n) {
  fi_gaudi_cache_stats stats{};
  must(n.ops().cache_stats(n.domain(), &stats), "cache_stats");
  return stats;
}

// All regions of an allocation share a registration, which is kept for others until the memory
// goes.
TEST(zero_copy, regions_share_an_allocation_and_leave_in_any_order) {
  run({.ranks = 1}, [](rank& r) {
    take_device(r);
    node n(with_device);
    n.meet(r);
    std::uint64_t base = 0;
    for (int round = 0; round < 3; ++round) {
      must(n.ops().alloc(n.domain(), mib, &base), "alloc");
      std::array<fid_ptr<fid_mr>, 3> regions;
      const std::array<std::size_t, 3> places{0, 4096, 12345};
      for (std::size_t i = 0; i < regions.size(); ++i)
        must(register_range(n.domain(), reinterpret_cast<void*>(base + places.at(i)), 1000,
                            FI_HMEM_SYNAPSEAI, 0, regions.at(i)),
             "fi_mr_regattr");
      EXPECT_EQ(fi_mr_key(regions[0].get()), fi_mr_key(regions[2].get()));
      regions[0].reset();
      const bytes data = bytes_of(7, 600);
      must(n.ops().copy(n.domain(), base + 12345, reinterpret_cast<std::uintptr_t>(data.data()),
                        data.size(), FI_GAUDI_HOST_TO_DEVICE),
           "copy");
      bytes got(600);
      n.post([&] {
        return fi_read(n.ep(), got.data(), got.size(), nullptr, n.peer(0), base + 12345,
                       fi_mr_key(regions[2].get()), ctx(1));
      });
      EXPECT_EQ(0, n.wait(ctx(1)).err);
      expect_same(data, got, "read by the shared key");
      regions[2].reset();
      EXPECT_EQ(-FI_EBUSY, n.ops().free(n.domain(), base));
      regions[1].reset();
      const fi_gaudi_cache_stats kept = cached(n);
      EXPECT_GT(kept.idle, 0U);
      must(register_range(n.domain(), reinterpret_cast<void*>(base), mib, FI_HMEM_SYNAPSEAI, 0,
                          regions[1]),
           "fi_mr_regattr");
      EXPECT_EQ(kept.registrations, cached(n).registrations);
      EXPECT_LT(kept.hits, cached(n).hits);
      regions[1].reset();
      EXPECT_EQ(0, n.ops().free(n.domain(), base));
      EXPECT_EQ(0U, cached(n).idle);
    }
  });
}

// (read instead of write)
class access_past_the_allocation : public testing::TestWithParam<bool> {};

TEST_P(access_past_the_allocation, is_an_error_and_no_more) {
  run({}, [reads = GetParam()](rank& r) {
    take_device(r);
    node n(with_device);
    n.meet(r);
    memory own(n, mib, true);
    own.put(0, bytes_of(static_cast<std::uint64_t>(r.id()), mib));
    const target other = exchange(r, own.remote(0), own.key());
    const auto access = [&](std::uint64_t address, std::uint64_t key) {
      n.post([&] {
        return reads
                   ? fi_read(n.ep(), own.at(0), 4096, own.desc(), n.peer(1), address, key, ctx(1))
                   : fi_write(n.ep(), own.at(0), 4096, own.desc(), n.peer(1), address, key, ctx(1));
      });
      return n.wait(ctx(1)).err;
    };
    if (r.id() == 0) {
      EXPECT_EQ(0, access(other.address + mib - 4096, other.key));
      for (const target bad :
           {target{other.address + mib - 2048, other.key},
            target{other.address + 16 * mib, other.key}, target{other.address - 2048, other.key}}) {
        EXPECT_EQ(FI_EACCES, access(bad.address, bad.key));
        // The NIC gives the connection up with it; the next operation makes another one.
        int err = -1;
        for (int tries = 0; err != 0 && tries < 20; ++tries)
          err = access(other.address + mib - 4096, other.key);
        EXPECT_EQ(0, err);
      }
    }
    r.barrier();
    if (r.id() == 1)
      expect_same(bytes_of(1, mib - 4096), own.get(0, mib - 4096), "what was not accessed");
  });
}

INSTANTIATE_TEST_SUITE_P(kinds, access_past_the_allocation, testing::Bool());

// What the NIC wrote is flushed at the end that has the memory, before anybody is told.
class visibility : public testing::TestWithParam<std::tuple<const char*, const char*, bool>> {};

TEST_P(visibility, is_made_sure_of_before_completions) {
  const auto [flush, rndv, flushed] = GetParam();
  run({.environment = {{"FI_GAUDI_FLUSH", flush}, {"FI_GAUDI_RNDV", rndv}}},
      [flushed = flushed](rank& r) {
        take_device(r);
        node n(with_device);
        n.meet(r);
        memory own(n, mib + 8 * kib, true);
        const auto target_of = [&](int id) { return flushed && r.id() == id ? 1U : 0U; };
        send_one(r, n, own, mib);
        EXPECT_EQ(target_of(1), n.paths().flushes) << "a receive";

        const target other = exchange(r, own.remote(0), own.key());
        if (r.id() == 0) {
          n.post([&] {
            return fi_read(n.ep(), own.at(0), mib, own.desc(), n.peer(1), other.address, other.key,
                           ctx(1));
          });
          EXPECT_EQ(0, n.wait(ctx(1)).err);
        }
        r.barrier();
        EXPECT_EQ(target_of(1) + target_of(0), n.paths().flushes) << "a read";

        iovec iov{own.at(0), mib};
        void* desc = own.desc();
        fi_rma_iov remote{other.address, mib, other.key};
        const fi_msg_rma message{.msg_iov = &iov,
                                 .desc = &desc,
                                 .iov_count = 1,
                                 .addr = n.peer(1),
                                 .rma_iov = &remote,
                                 .rma_iov_count = 1,
                                 .context = ctx(2),
                                 .data = 0};
        for (const std::uint64_t level : {FI_TRANSMIT_COMPLETE, FI_DELIVERY_COMPLETE}) {
          if (r.id() != 0) break;
          n.post([&] { return fi_writemsg(n.ep(), &message, FI_COMPLETION | level); });
          EXPECT_EQ(0, n.wait(ctx(2)).err);
        }
        r.barrier();
        EXPECT_EQ(2 * target_of(1) + target_of(0), n.paths().flushes)
            << "a write that is delivered";
      });
}

INSTANTIATE_TEST_SUITE_P(choices, visibility,
                         testing::Values(std::tuple("auto", "read", true),
                                         std::tuple("read", "write", true),
                                         std::tuple("driver", "auto", true),
                                         std::tuple("off", "write", false)));

// For a run without dma-bufs in the NIC's driver, see tests/refused.sh.
TEST(refused, is_staged_and_counted) {
  run({}, [](rank& r) {
    take_device(r);
    node n(with_device);
    n.meet(r);
    memory own(n, mib + 8 * kib, true);
    const moved m = send_one(r, n, own, mib);
    EXPECT_EQ(0U, m.zero_copy);
    EXPECT_GE(m.staged, mib);
  });
}

TEST(refused, fails_to_register_where_staging_is_forbidden) {
  run({.ranks = 1, .environment = {{"FI_GAUDI_DMABUF", "on"}}}, [](rank& r) {
    take_device(r);
    node n(with_device);
    std::uint64_t base = 0;
    must(n.ops().alloc(n.domain(), mib, &base), "alloc");
    fid_ptr<fid_mr> mr;
    for (int i = 0; i < 2; ++i)
      EXPECT_EQ(-FI_EOPNOTSUPP, register_range(n.domain(), reinterpret_cast<void*>(base), mib,
                                               FI_HMEM_SYNAPSEAI, 0, mr));
    EXPECT_EQ(0, n.ops().free(n.domain(), base));
  });
}

/// Device memory under addresses that the provider does not know: the NIC reaches it, and nobody
/// else. What is in it is seen by its other name.
class foreign_memory {
 public:
  static constexpr std::uint64_t all_access =
      FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;

  foreign_memory(node& n, std::size_t size, std::uint64_t access = all_access) : node_(n) {
    auto& ops = n.ops();
    must(ops.alloc(n.domain(), size, &known_), "alloc");
    fi_gaudi_dmabuf exported{};
    must(ops.export_dmabuf(n.domain(), known_, size, &exported), "export_dmabuf");
    constexpr std::uint64_t elsewhere = std::uint64_t{1} << 40;
    struct {  // fi_mr_dmabuf, since libfabric 1.20
      int fd;
      std::uint64_t offset;
      std::size_t len;
      void* base_addr;
    } range{exported.fd, exported.offset, size,
            reinterpret_cast<void*>(exported.base_addr + elsewhere)};
    union {
      fi_mr_attr attr;
      std::byte room[256];
    } request{};
    request.attr.mr_iov = reinterpret_cast<const iovec*>(&range);
    request.attr.iov_count = 1;
    request.attr.access = access;
    fid_mr* mr = nullptr;
    const int ret = fi_mr_regattr(n.domain(), &request.attr, std::uint64_t{1} << 40, &mr);
    ::close(exported.fd);
    must(ret, "fi_mr_regattr of a dma-buf");
    mr_.reset(mr);
    base_ = known_ + elsewhere;
  }
  foreign_memory(const foreign_memory&) = delete;
  foreign_memory& operator=(const foreign_memory&) = delete;
  ~foreign_memory() {
    mr_.reset();
    EXPECT_EQ(0, node_.ops().free(node_.domain(), known_)) << "nothing is left of its registration";
  }

  void* at(std::size_t offset) const { return reinterpret_cast<void*>(base_ + offset); }
  void* desc() const { return fi_mr_desc(mr_.get()); }
  std::uint64_t key() const { return fi_mr_key(mr_.get()); }
  std::uint64_t remote(std::size_t offset) const { return base_ + offset; }
  void put(std::size_t offset, const bytes& data) {
    must(node_.ops().copy(node_.domain(), known_ + offset,
                          reinterpret_cast<std::uintptr_t>(data.data()), data.size(),
                          FI_GAUDI_HOST_TO_DEVICE),
         "copy");
  }
  bytes get(std::size_t offset, std::size_t size) const {
    bytes data(size);
    must(node_.ops().copy(node_.domain(), reinterpret_cast<std::uintptr_t>(data.data()),
                          known_ + offset, size, FI_GAUDI_DEVICE_TO_HOST),
         "copy");
    return data;
  }

 private:
  node& node_;
  std::uint64_t known_ = 0;
  std::uint64_t base_ = 0;
  fid_ptr<fid_mr> mr_;
};

TEST(foreign_dmabuf, takes_part_in_messages_of_all_lengths) {
  for (const char* shared : {"auto", "off"}) {
    run({.environment = {{"FI_GAUDI_IPC", shared}}}, [](rank& r) {
      take_device(r);
      node n(with_device);
      n.meet(r);
      foreign_memory own(n, 2 * mib);
      for (const std::size_t size : {std::size_t{1}, std::size_t{100}, 16 * kib, 17 * kib, mib})
        pass_message(r, n, own, size, size);
    });
  }
}

TEST(foreign_dmabuf, is_a_target_and_a_source_of_rma) {
  run({}, [](rank& r) {
    take_device(r);
    node n(with_device);
    n.meet(r);
    foreign_memory own(n, 2 * mib);
    const target other = exchange(r, own.remote(0), own.key());
    for (const std::size_t size : {std::size_t{1}, std::size_t{100}, mib}) {
      own.put(0, bytes_of(size + static_cast<std::size_t>(r.id()), size));
      r.barrier();
      n.post([&] {
        return fi_read(n.ep(), own.at(mib), size, own.desc(), n.peer(1 - r.id()), other.address,
                       other.key, ctx(2));
      });
      EXPECT_EQ(0, n.wait(ctx(2)).err);
      expect_same(bytes_of(size + static_cast<std::size_t>(1 - r.id()), size), own.get(mib, size),
                  "read");
      r.barrier();
      own.put(0, bytes_of(7 + size + static_cast<std::size_t>(r.id()), size));
      n.post([&] {
        return fi_write(n.ep(), own.at(0), size, own.desc(), n.peer(1 - r.id()),
                        other.address + mib, other.key, ctx(3));
      });
      EXPECT_EQ(0, n.wait(ctx(3)).err);
      r.barrier();
      expect_same(bytes_of(7 + size + static_cast<std::size_t>(1 - r.id()), size),
                  own.get(mib, size), "write");
    }
  });
}

// The NIC may not be asked to read it for a peer, so it sends to itself what is injected.
TEST(foreign_dmabuf, that_is_for_writes_alone_is_written_from_and_injected) {
  for (const char* shared : {"auto", "off"}) {
    run({.environment = {{"FI_GAUDI_IPC", shared}}}, [](rank& r) {
      take_device(r);
      node n(with_device);
      n.meet(r);
      foreign_memory source(n, mib, FI_WRITE);
      foreign_memory sink(n, mib);
      const target other = exchange(r, sink.remote(0), sink.key());
      const auto write = [&](std::size_t size, std::uint64_t flags) {
        const iovec from{source.at(0), size};
        void* desc = source.desc();
        const fi_rma_iov to{other.address, size, other.key};
        const fi_msg_rma message{.msg_iov = &from,
                                 .desc = &desc,
                                 .iov_count = 1,
                                 .addr = n.peer(1 - r.id()),
                                 .rma_iov = &to,
                                 .rma_iov_count = 1,
                                 .context = ctx(3),
                                 .data = 0};
        source.put(0, bytes_of(size + flags + static_cast<std::size_t>(r.id()), size));
        r.barrier();
        n.post([&] { return fi_writemsg(n.ep(), &message, flags | FI_COMPLETION); });
        EXPECT_EQ(0, n.wait(ctx(3)).err);
        r.barrier();
        expect_same(bytes_of(size + flags + static_cast<std::size_t>(1 - r.id()), size),
                    sink.get(0, size), "write");
      };
      for (const std::uint64_t how : {std::uint64_t{FI_INJECT}, std::uint64_t{0}})
        for (const std::size_t size : {std::size_t{1}, std::size_t{60}}) write(size, how);
      for (const std::size_t size : {std::size_t{1000}, 17 * kib, mib}) write(size, 0);
    });
  }
}

}  // namespace
}  // namespace gaudi::test
