// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Applications whose device is Synapse's: they acquire it, allocate there, and the provider is a
// guest.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "faults.hpp"
#include "small_operations.hpp"
#include "synapse_guest.hpp"

namespace gaudi::test {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20;
const node_options with_device{.device = true};
const std::vector<std::pair<std::string, std::string>> one_device{{"HLSIM_DEVICES", "1"}};

int register_device(node& n, std::uint64_t address, std::size_t size, fid_ptr<fid_mr>& mr) {
  return register_range(n.domain(), reinterpret_cast<void*>(address), size, FI_HMEM_SYNAPSEAI, 0,
                        mr);
}

/// Device memory of Synapse's that is registered.
class guest_memory {
 public:
  guest_memory(node& n, synapse_user& synapse, std::size_t size)
      : synapse_(synapse), base_(synapse.allocate(size)) {
    must(register_device(n, base_, size, mr_), "fi_mr_regattr");
  }
  [[nodiscard]] void* at(std::size_t offset) const {
    return reinterpret_cast<void*>(base_ + offset);
  }
  [[nodiscard]] void* desc() const { return fi_mr_desc(mr_.get()); }
  [[nodiscard]] std::uint64_t key() const { return fi_mr_key(mr_.get()); }
  [[nodiscard]] std::uint64_t address() const { return base_; }
  [[nodiscard]] std::uint64_t remote(std::size_t offset) const { return base_ + offset; }
  void put(std::size_t offset, const std::vector<std::byte>& bytes) {
    synapse_.put(base_ + offset, bytes);
  }
  std::vector<std::byte> get(std::size_t offset, std::size_t size) {
    return synapse_.get(base_ + offset, size);
  }

 private:
  synapse_user& synapse_;
  std::uint64_t base_;
  fid_ptr<fid_mr> mr_;
};

class guest : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_gaudi()) GTEST_SKIP() << "only gaudi carries Gaudi memory";
  }
};

class guest_pair : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (!is_gaudi()) GTEST_SKIP() << "only gaudi carries Gaudi memory";
  }
};

TEST_P(guest_pair, messages_carry_every_byte) {
  run({}, [share = GetParam()](rank& r) {
    setenv("FI_GAUDI_IPC", share ? "auto" : "off", 1);
    synapse_user synapse;
    ASSERT_EQ(synSuccess, synapse.acquire(static_cast<std::uint32_t>(r.id())));
    node n(with_device);
    n.meet(r);
    for (const std::size_t size :
         {std::size_t{1}, std::size_t{127}, std::size_t{16385}, 5 * mib + 3}) {
      guest_memory own(n, synapse, size + 77);
      own.put(size, bytes_of(9, 77));
      if (r.id() == 0) own.put(0, bytes_of(1, size));
      EXPECT_EQ(0, pass(n, r, own, size, 1).err);
      expect_same(bytes_of(1, size), own.get(0, size), "message");
      expect_same(bytes_of(9, 77), own.get(size, 77), "behind the range");
      r.barrier();
    }
    EXPECT_LT(0U, n.device_stats().copies);
    r.barrier();
  });
}

TEST_P(guest_pair, one_sided_operations_reach_it) {
  run({}, [share = GetParam()](rank& r) {
    setenv("FI_GAUDI_IPC", share ? "auto" : "off", 1);
    synapse_user synapse;
    ASSERT_EQ(synSuccess, synapse.acquire(static_cast<std::uint32_t>(r.id())));
    node n(with_device);
    n.meet(r);
    constexpr std::size_t size = mib + 13;
    guest_memory own(n, synapse, size);
    own.put(0, bytes_of(static_cast<std::uint64_t>(r.id()), size));
    const std::array<std::uint64_t, 2> mine{own.address(), own.key()};
    const auto all = r.all_gather({reinterpret_cast<const char*>(mine.data()), sizeof mine});
    std::array<std::uint64_t, 2> other{};
    all[1].copy(reinterpret_cast<char*>(other.data()), sizeof other);
    if (r.id() == 0) {
      n.post([&] {
        return fi_read(n.ep(), own.at(0), size, own.desc(), n.peer(1), other[0], other[1], ctx(1));
      });
      EXPECT_EQ(0, n.wait(ctx(1)).err);
      expect_same(bytes_of(1, size), own.get(0, size), "read");
    }
    r.barrier();
  });
}

TEST_P(guest_pair, small_operations_of_any_size_and_alignment) {
  run({}, [share = GetParam()](rank& r) {
    setenv("FI_GAUDI_IPC", share ? "auto" : "off", 1);
    synapse_user synapse;
    ASSERT_EQ(synSuccess, synapse.acquire(static_cast<std::uint32_t>(r.id())));
    using operations = small_operations<guest_memory>;
    node n(operations::options());
    n.meet(r);
    guest_memory own(n, synapse, operations::length);
    operations(n, r, own).run_all();
  });
}

INSTANTIATE_TEST_SUITE_P(shared, guest_pair, testing::Bool());

TEST_F(guest, device_may_be_acquired_when_the_domain_is_open) {
  run({.ranks = 1, .environment = one_device}, [](rank&) {
    synapse_user synapse;
    node n(with_device);
    fid_ptr<fid_mr> mr;
    EXPECT_EQ(-FI_ENODEV, register_device(n, 0x1001500000000000, 4096, mr));
    // Had the provider opened it, Synapse could not.
    ASSERT_EQ(synSuccess, synapse.acquire(0));
    EXPECT_EQ(0, register_device(n, synapse.allocate(4096), 4096, mr));
    fi_gaudi_device_attr attr{};
    must(n.ops().query_device(n.domain(), &attr), "query_device");
    EXPECT_EQ(0, attr.owned);
    EXPECT_LT(0U, attr.hbm_free);
    EXPECT_LT(attr.hbm_free, attr.hbm_size);
    EXPECT_STREQ("0000:19:00.0", attr.pci_addr);
  });
}

TEST_F(guest, whatever_is_allocated_rides_on_one_export) {
  run({.ranks = 1}, [](rank&) {
    synapse_user synapse;
    ASSERT_EQ(synSuccess, synapse.acquire(1));
    node n(with_device);
    const guest_memory one(n, synapse, 100);
    const guest_memory two(n, synapse, 3 * mib);
    std::array<fi_gaudi_dmabuf, 2> exported{};
    must(n.ops().export_dmabuf(n.domain(), one.address(), 100, exported.data()), "export_dmabuf");
    must(n.ops().export_dmabuf(n.domain(), two.address(), 3 * mib, &exported[1]), "export_dmabuf");
    EXPECT_EQ(exported[0].base_addr, exported[1].base_addr);
    EXPECT_EQ(exported[0].base_addr + exported[0].offset, one.address());
    EXPECT_EQ(exported[1].base_addr + exported[1].offset, two.address());
    EXPECT_EQ(1U, n.device_stats().exports);
    for (const auto& each : exported) ::close(each.fd);
    fi_gaudi_addr_attr where{};
    must(n.ops().query_addr(n.domain(), two.address() + 5, 1, &where), "query_addr");
    EXPECT_EQ(1, where.adopted);
  });
}

TEST_F(guest, memory_is_synapses_to_allocate) {
  run({.ranks = 1}, [](rank&) {
    synapse_user synapse;
    ASSERT_EQ(synSuccess, synapse.acquire(0));
    node n(with_device);
    std::uint64_t address = 0;
    EXPECT_EQ(-FI_EOPNOTSUPP, n.ops().alloc(n.domain(), 4096, &address));
    EXPECT_EQ(-FI_EOPNOTSUPP, n.ops().pool_create(n.domain(), 4096, FI_SEND, &address));
    fid_ptr<fid_mr> mr;
    EXPECT_EQ(-FI_EINVAL, register_device(n, 0x1001001800000000, 4096, mr)) << "outside the pool";
  });
}

TEST_F(guest, there_is_one_device_whatever_is_listed) {
  run({.ranks = 1, .environment = {{"FI_GAUDI_DEVICE", "0,1"}}}, [](rank&) {
    synapse_user synapse;
    ASSERT_EQ(synSuccess, synapse.acquire(2));
    node n(with_device);
    fi_gaudi_device_attr attr{};
    must(n.ops().query_device(n.domain(), &attr), "query_device");
    EXPECT_EQ(2U, attr.module_id);
    must(n.ops().select_device(n.domain(), 1), "select_device");
    EXPECT_EQ(-FI_ENODEV, n.ops().query_device(n.domain(), &attr));
  });
}

TEST_F(guest, copies_from_and_to_any_host_memory) {
  run({.ranks = 1}, [](rank&) {
    synapse_user synapse;
    ASSERT_EQ(synSuccess, synapse.acquire(0));
    node n(with_device);
    for (const std::size_t size : {std::size_t{1}, std::size_t{4097}, 9 * mib + 1}) {
      const std::uint64_t address = synapse.allocate(size);
      const auto wanted = bytes_of(size, size);
      std::vector<std::byte> back(size);
      must(n.ops().copy(n.domain(), address, reinterpret_cast<std::uint64_t>(wanted.data()), size,
                        FI_GAUDI_HOST_TO_DEVICE),
           "copy");
      expect_same(wanted, synapse.get(address, size), "to the device");
      must(n.ops().copy(n.domain(), reinterpret_cast<std::uint64_t>(back.data()), address, size,
                        FI_GAUDI_DEVICE_TO_HOST),
           "copy");
      expect_same(wanted, back, "from the device");
    }
  });
}

// The descriptor that the provider has of it, and its export, would keep the device busy.
TEST_F(guest, device_can_be_released_between_domains) {
  run({.ranks = 1, .environment = one_device}, [](rank&) {
    synapse_user synapse;
    for (int round = 0; round < 3; ++round) {
      ASSERT_EQ(synSuccess, synapse.acquire(0));
      {
        node n(with_device);
        guest_memory own(n, synapse, mib);
        fi_gaudi_dmabuf exported{};
        must(n.ops().export_dmabuf(n.domain(), own.address(), mib, &exported), "export_dmabuf");
        ::close(exported.fd);
        const auto wanted = bytes_of(static_cast<std::uint64_t>(round), mib);
        must(n.ops().copy(n.domain(), own.address(), reinterpret_cast<std::uint64_t>(wanted.data()),
                          mib, FI_GAUDI_HOST_TO_DEVICE),
             "copy");
        expect_same(wanted, own.get(0, mib), "copied");
      }
      ASSERT_EQ(synSuccess, synapse.release());
    }
    node late(with_device);
    fi_gaudi_device_attr attr{};
    EXPECT_EQ(-FI_ENODEV, late.ops().query_device(late.domain(), &attr));
    ASSERT_EQ(synSuccess, synapse.acquire(0));
    EXPECT_EQ(0, late.ops().query_device(late.domain(), &attr));
  });
}

// What was registered on the device that is lost stays, and stays dead.
TEST_F(guest, device_that_was_reset_is_used_again_once_synapse_has_acquired_it_anew) {
  run({.ranks = 1, .environment = one_device}, [](rank& r) {
    synapse_user synapse;
    ASSERT_EQ(synSuccess, synapse.acquire(0));
    node n(with_device);
    n.meet(r);
    const guest_memory old(n, synapse, mib);
    n.post(
        [&] { return fi_trecv(n.ep(), old.at(0), mib, old.desc(), FI_ADDR_UNSPEC, 1, 0, ctx(1)); });
    strike("reset-after-ms=1");
    EXPECT_EQ(FI_EIO, n.wait(ctx(1)).err) << "nobody used it at that moment";
    mend();
    fid_ptr<fid_mr> mr;
    EXPECT_EQ(-FI_EIO, register_device(n, old.address(), 4096, mr)) << "Synapse has the lost one";
    ASSERT_EQ(synSuccess, synapse.release());
    EXPECT_EQ(-FI_EIO, register_device(n, old.address(), 4096, mr)) << "Synapse has none";
    ASSERT_EQ(synSuccess, synapse.acquire(0));
    {
      guest_memory own(n, synapse, mib);
      const auto wanted = bytes_of(6, mib);
      must(n.ops().copy(n.domain(), own.address(), reinterpret_cast<std::uint64_t>(wanted.data()),
                        mib, FI_GAUDI_HOST_TO_DEVICE),
           "copy");
      expect_same(wanted, own.get(0, mib), "copied");
      EXPECT_GT(0, fi_tsend(n.ep(), old.at(0), 64, old.desc(), n.peer(0), 2, ctx(2)));
      n.post([&] { return fi_tsend(n.ep(), own.at(0), mib, own.desc(), n.peer(0), 3, ctx(3)); });
      guest_memory to(n, synapse, mib);
      n.post(
          [&] { return fi_trecv(n.ep(), to.at(0), mib, to.desc(), FI_ADDR_UNSPEC, 3, 0, ctx(4)); });
      EXPECT_EQ(0, n.wait(ctx(3)).err);
      EXPECT_EQ(0, n.wait(ctx(4)).err);
      expect_same(wanted, to.get(0, mib), "message");
    }
  });
}

TEST_F(guest, what_the_application_hands_over_is_known_as_synapses) {
  run({.ranks = 1}, [](rank&) {
    synapse_user synapse;
    ASSERT_EQ(synSuccess, synapse.acquire(0));
    node n(with_device);
    const std::uint64_t address = synapse.allocate(mib);
    must(n.ops().adopt_device(n.domain(), synapse.descriptor()), "adopt_device");
    const fi_gaudi_range range{.addr = address,
                               .len = mib,
                               .map_base = synapse.mapping(),
                               .map_len = address + mib - synapse.mapping()};
    must(n.ops().adopt_range(n.domain(), &range), "adopt_range");
    const auto wanted = bytes_of(5, mib);
    must(n.ops().copy(n.domain(), address, reinterpret_cast<std::uint64_t>(wanted.data()), mib,
                      FI_GAUDI_HOST_TO_DEVICE),
         "copy");
    expect_same(wanted, synapse.get(address, mib), "copied");
    must(n.ops().release_range(n.domain(), address), "release_range");
  });
}

}  // namespace
}  // namespace gaudi::test
