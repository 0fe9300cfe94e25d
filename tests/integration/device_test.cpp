// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Device memory at either end. Device addresses are not valid for the CPU, so a slip is a crash.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <string>

#include "small_operations.hpp"

namespace gaudi::test {
namespace {

using bytes = std::vector<std::byte>;

constexpr std::size_t mib = std::size_t{1} << 20;
const node_options with_device{.device = true};

// Every rank takes a Gaudi of its own.
void take_device(const rank& r) {
  setenv("FI_GAUDI_DEVICE", std::to_string(r.id()).c_str(), 1);
}

struct message_shape {
  std::array<bool, 2> devices;         // whether sender and receiver have device memory
  std::size_t size;                    // bytes
  std::array<std::size_t, 2> offsets;  // in the memory of each
};

// By sender and receiver: whether they have device memory.
class device_pair : public testing::TestWithParam<std::tuple<bool, bool>> {
 protected:
  void SetUp() override {
    if (!is_gaudi()) GTEST_SKIP() << "only gaudi carries Gaudi memory";
  }
};

// The ends are new each time, their processes are not.
void carry_every_byte(rank& r, const message_shape& shape) {
  const std::size_t size = shape.size;
  node n(with_device);
  n.meet(r);
  const auto self = static_cast<std::size_t>(r.id());
  const std::size_t offset = shape.offsets.at(self);
  memory own(n, offset + size + 64, shape.devices.at(self), 0x40U + static_cast<unsigned>(self));
  const std::array<std::uint64_t, 2> mine{own.remote(offset), own.key()};
  const auto all = r.all_gather({reinterpret_cast<const char*>(mine.data()), sizeof mine});
  std::array<std::uint64_t, 2> other{};
  std::memcpy(other.data(), all[1 - self].data(), sizeof other);
  const bytes guard = bytes_of(77, 64);
  own.put(offset + size, guard);

  if (r.id() == 0) {
    own.put(offset, bytes_of(1, size));
    n.post(
        [&] { return fi_tsend(n.ep(), own.at(offset), size, own.desc(), n.peer(1), 1, ctx(1)); });
    EXPECT_EQ(0, n.wait(ctx(1)).err);
    own.put(offset, bytes_of(2, size));
    r.barrier();
    const iovec local{own.at(offset), size};
    const fi_rma_iov remote{other[0], size, other[1]};
    void* desc = own.desc();
    fi_msg_rma message{&local, &desc, 1, n.peer(1), &remote, 1, ctx(2), 0};
    n.post([&] { return fi_writemsg(n.ep(), &message, FI_DELIVERY_COMPLETE | FI_COMPLETION); });
    EXPECT_EQ(0, n.wait(ctx(2)).err);
    r.barrier();
    r.barrier();  // the other side has put new bytes there
    n.post([&] {
      return fi_read(n.ep(), own.at(offset), size, own.desc(), n.peer(1), other[0], other[1],
                     ctx(3));
    });
    EXPECT_EQ(0, n.wait(ctx(3)).err);
    expect_same(bytes_of(3, size), own.get(offset, size), "read");
  } else {
    n.post([&] {
      return fi_trecv(n.ep(), own.at(offset), size, own.desc(), FI_ADDR_UNSPEC, 1, 0, ctx(1));
    });
    const completion c = n.wait(ctx(1));
    EXPECT_EQ(size, c.len);
    expect_same(bytes_of(1, size), own.get(offset, size), "tagged message");
    r.barrier();
    r.barrier();
    expect_same(bytes_of(2, size), own.get(offset, size), "written");
    own.put(offset, bytes_of(3, size));
    r.barrier();
  }
  r.barrier();
  expect_same(guard, own.get(offset + size, 64), "behind the range");
}

TEST_P(device_pair, tagged_and_one_sided_carry_every_byte) {
  const auto [from_device, to_device] = GetParam();
  const std::array devices{from_device, to_device};
  run({}, [&](rank& r) {
    take_device(r);
    for (const std::size_t size : {std::size_t{1}, std::size_t{127}, std::size_t{4096},
                                   std::size_t{16385}, std::size_t{1000003}, 8 * mib}) {
      SCOPED_TRACE(size);
      carry_every_byte(r, {devices, size, {0, 0}});
      carry_every_byte(r, {devices, size, {3, 4097}});
    }
  });
}

INSTANTIATE_TEST_SUITE_P(pairs, device_pair, testing::Combine(testing::Bool(), testing::Bool()));

TEST(small_device, operations_of_any_size_and_alignment) {
  if (!is_gaudi()) GTEST_SKIP() << "only gaudi carries Gaudi memory";
  run({}, [](rank& r) {
    take_device(r);
    using operations = small_operations<memory>;
    node n(operations::options());
    n.meet(r);
    memory own(n, operations::length, true);
    operations(n, r, own).run_all();
  });
}

class device : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_gaudi()) GTEST_SKIP() << "only gaudi carries Gaudi memory";
  }
};

/// Registered with what its pool was.
class piece_of_pool {
 public:
  piece_of_pool(node& n, std::uint64_t base, std::size_t size) : node_(n), base_(base) {
    must(register_range(n.domain(), at(0), size, FI_HMEM_SYNAPSEAI, 0, mr_), "fi_mr_regattr");
  }
  [[nodiscard]] void* at(std::size_t offset) const {
    return reinterpret_cast<void*>(base_ + offset);
  }
  [[nodiscard]] void* desc() const { return fi_mr_desc(mr_.get()); }
  void put(const bytes& all) {
    must(node_.ops().copy(node_.domain(), base_, reinterpret_cast<std::uint64_t>(all.data()),
                          all.size(), FI_GAUDI_HOST_TO_DEVICE),
         "copy");
  }
  bytes get(std::size_t size) {
    bytes all(size);
    must(node_.ops().copy(node_.domain(), reinterpret_cast<std::uint64_t>(all.data()), base_, size,
                          FI_GAUDI_DEVICE_TO_HOST),
         "copy");
    return all;
  }

 private:
  node& node_;
  std::uint64_t base_;
  fid_ptr<fid_mr> mr_;
};

TEST_F(device, says_that_it_is_simulated) {
  run({.ranks = 1}, [](rank&) {
    node n(with_device);
    fi_gaudi_device_attr attr{};
    must(n.ops().query_device(n.domain(), &attr), "query_device");
    EXPECT_EQ(1, attr.simulated);
    const char* const generation = std::getenv("HLSIM_GENERATION");
    const std::string expected = std::string("simulated Gaudi") + (generation ? generation : "2");
    EXPECT_EQ(expected, attr.name);
  });
}

TEST_F(device, unexpected_message_ends_in_device_memory) {
  run({}, [](rank& r) {
    take_device(r);
    node n(with_device);
    n.meet(r);
    for (const std::size_t size : {std::size_t{100}, std::size_t{200001}}) {
      memory own(n, size, true);
      if (r.id() == 0) {
        own.put(0, bytes_of(size, size));
        n.post([&] { return fi_tsend(n.ep(), own.at(0), size, own.desc(), n.peer(1), 1, ctx(1)); });
        r.barrier();
        EXPECT_EQ(0, n.wait(ctx(1)).err);
      } else {
        r.barrier();
        n.post([&] {
          return fi_trecv(n.ep(), own.at(0), size, own.desc(), FI_ADDR_UNSPEC, 1, 0, ctx(1));
        });
        EXPECT_EQ(size, n.wait(ctx(1)).len);
        expect_same(bytes_of(size, size), own.get(0, size), "unexpected message");
      }
      r.barrier();
    }
  });
}

TEST_F(device, region_must_lie_in_one_allocation) {
  run({.ranks = 1}, [](rank&) {
    node n(with_device);
    std::uint64_t address = 0;
    must(n.ops().alloc(n.domain(), 8192, &address), "alloc");
    fid_ptr<fid_mr> mr;
    const auto at = [&](std::uint64_t offset) { return reinterpret_cast<void*>(address + offset); };
    EXPECT_EQ(-FI_EINVAL, register_range(n.domain(), at(4096), 8192, FI_HMEM_SYNAPSEAI, 1, mr));
    EXPECT_GT(0, register_range(n.domain(), at(1ULL << 40), 64, FI_HMEM_SYNAPSEAI, 2, mr));
    EXPECT_EQ(0, register_range(n.domain(), at(8191), 1, FI_HMEM_SYNAPSEAI, 3, mr));
    EXPECT_EQ(-FI_EBUSY, n.ops().free(n.domain(), address));
    mr.reset();
    EXPECT_EQ(0, n.ops().free(n.domain(), address));
    EXPECT_EQ(-FI_EINVAL, n.ops().free(n.domain(), address));
  });
}

TEST_F(device, host_and_device_addresses_are_not_taken_for_each_other) {
  run({.ranks = 1}, [](rank&) {
    node n(with_device);
    std::uint64_t address = 0;
    must(n.ops().alloc(n.domain(), 8192, &address), "alloc");
    bytes host(8192);
    fid_ptr<fid_mr> mr;
    EXPECT_EQ(-FI_EINVAL, register_range(n.domain(), host.data(), 8192, FI_HMEM_SYNAPSEAI, 1, mr));
    EXPECT_EQ(0, n.ops().free(n.domain(), address));
  });
}

// NIXL's memory types are the host's and other accelerators'.
TEST_F(device, registered_as_the_hosts_is_recognised_by_its_address) {
  run({.ranks = 1}, [](rank& r) {
    constexpr std::size_t size = 300'000;
    node n(with_device);
    n.meet(r);
    memory from(n, size, true);
    memory to(n, size, false);
    from.put(0, bytes_of(4, size));
    fid_ptr<fid_mr> mr;
    ASSERT_EQ(0, register_range(n.domain(), from.at(0), size, FI_HMEM_SYSTEM, 0, mr));
    for (const std::size_t length : {std::size_t{100}, size}) {
      n.post([&] {
        return fi_trecv(n.ep(), to.at(0), length, to.desc(), FI_ADDR_UNSPEC, 1, 0, ctx(1));
      });
      n.post([&] {
        return fi_tsend(n.ep(), from.at(0), length, fi_mr_desc(mr.get()), n.peer(0), 1, ctx(2));
      });
      EXPECT_EQ(0, n.wait(ctx(1)).err);
      EXPECT_EQ(0, n.wait(ctx(2)).err);
      bytes expected = bytes_of(4, size);
      expected.resize(length);
      expect_same(expected, to.get(0, length), "message");
    }
    n.post([&] {
      return fi_read(n.ep(), to.at(0), size, to.desc(), n.peer(0), from.remote(0),
                     fi_mr_key(mr.get()), ctx(3));
    });
    EXPECT_EQ(0, n.wait(ctx(3)).err);
    expect_same(bytes_of(4, size), to.get(0, size), "read");
  });
}

TEST_F(device, of_a_gaudi1_has_addresses_that_are_host_memory_unless_said_otherwise) {
  const char* const generation = std::getenv("HLSIM_GENERATION");
  if (generation == nullptr || std::string(generation) != "1")
    GTEST_SKIP() << "only a Gaudi1's addresses may be the host's as well";
  run({.ranks = 1}, [](rank& r) {
    constexpr std::size_t size = 8192;
    node n(with_device);
    n.meet(r);
    memory on_device(n, size, true, 5), to(n, size, false, 6);
    void* const host = mmap(on_device.at(0), size, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    ASSERT_EQ(host, on_device.at(0));
    fid_ptr<fid_mr> as_host;
    ASSERT_EQ(0, register_range(n.domain(), host, size, FI_HMEM_SYSTEM, 7, as_host));
    on_device.put(0, bytes_of(1, size));
    std::memcpy(host, bytes_of(2, size).data(), size);
    const auto expect_sent = [&](void* desc, std::uint64_t what) {
      n.post([&] { return fi_tsend(n.ep(), host, size, desc, n.peer(0), 1, ctx(1)); });
      n.post([&] {
        return fi_trecv(n.ep(), to.at(0), size, to.desc(), FI_ADDR_UNSPEC, 1, 0, ctx(2));
      });
      EXPECT_EQ(0, n.wait(ctx(1)).err);
      EXPECT_EQ(0, n.wait(ctx(2)).err);
      expect_same(bytes_of(what, size), to.get(0, size), "sent");
    };
    expect_sent(on_device.desc(), 1);
    expect_sent(fi_mr_desc(as_host.get()), 2);
    expect_sent(nullptr, 2);
    as_host.reset();
    munmap(host, size);
  });
}

// Registered beforehand, or staged: whichever it is, what is sent from a piece arrives in a piece.
TEST_F(device, pieces_of_pools_carry_messages) {
  run({}, [](rank& r) {
    take_device(r);
    node n(with_device);
    n.meet(r);
    std::uint64_t pool = 0, unused = 0, piece = 0;
    constexpr std::size_t size = 300'001;
    must(n.ops().pool_create(n.domain(), mib, FI_SEND | FI_RECV, &pool), "pool_create");
    must(n.ops().pool_alloc(n.domain(), pool, 4097, &unused), "pool_alloc");
    must(n.ops().pool_alloc(n.domain(), pool, size, &piece), "pool_alloc");
    {
      piece_of_pool own(n, piece, size);
      if (r.id() == 0) own.put(bytes_of(4, size));
      EXPECT_EQ(0, pass(n, r, own, size, 1).err);
      expect_same(bytes_of(4, size), own.get(size), "at both ends");
      EXPECT_EQ(-FI_EBUSY, n.ops().pool_destroy(n.domain(), pool));
    }
    for (const std::uint64_t each : {unused, piece})
      EXPECT_EQ(0, n.ops().pool_free(n.domain(), pool, each));
    EXPECT_EQ(0, n.ops().pool_destroy(n.domain(), pool));
    r.barrier();
  });
}

TEST_F(device, zero_length_region_is_refused) {
  run({.ranks = 1}, [](rank&) {
    node n(with_device);
    std::uint64_t address = 0;
    must(n.ops().alloc(n.domain(), 4096, &address), "alloc");
    EXPECT_EQ(-FI_EINVAL, n.ops().alloc(n.domain(), 0, &address));
    bytes host(8);
    fid_ptr<fid_mr> mr;
    EXPECT_EQ(-FI_EINVAL, register_range(n.domain(), reinterpret_cast<void*>(address), 0,
                                         FI_HMEM_SYNAPSEAI, 1, mr));
    EXPECT_EQ(-FI_EINVAL, register_range(n.domain(), host.data(), 0, FI_HMEM_SYSTEM, 2, mr));
    EXPECT_EQ(0, n.ops().free(n.domain(), address));
  });
}

TEST_F(device, taken_by_another_process_is_busy) {
  run({}, [](rank& r) {
    setenv("FI_GAUDI_DEVICE", "0", 1);
    std::uint64_t address = 0;
    if (r.id() == 0) {
      node n(with_device);
      must(n.ops().alloc(n.domain(), 4096, &address), "alloc");
      r.barrier();
      r.barrier();
      EXPECT_EQ(0, n.ops().free(n.domain(), address));
    } else {
      r.barrier();
      try {
        node n(with_device);
        EXPECT_EQ(-FI_EBUSY, n.ops().alloc(n.domain(), 4096, &address));
      } catch (const std::runtime_error& error) {
        EXPECT_NE(nullptr, std::strstr(error.what(), fi_strerror(FI_EBUSY))) << error.what();
      }
      r.barrier();
    }
  });
}

}  // namespace
}  // namespace gaudi::test
