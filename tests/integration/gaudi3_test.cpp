// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A device that the provider drives but that does not copy: what needs no copy works, and what does
// is refused on both sides, so that nobody waits for it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <string>

#include "node.hpp"

namespace gaudi::test {
namespace {

using bytes = std::vector<std::byte>;

const node_options with_device{.device = true};
const world two_gaudi3s{.environment = {{"HLSIM_GENERATION", "3"}}};
const world one_gaudi3{.ranks = 1, .environment = {{"HLSIM_GENERATION", "3"}}};

/// Registered device memory, of whose contents nobody can say anything.
class opaque {
 public:
  opaque(node& n, std::size_t size) : node_(n) {
    must(n.ops().alloc(n.domain(), size, &address_), "alloc");
    must(register_range(n.domain(), at(0), size, FI_HMEM_SYNAPSEAI, 7, mr_), "registering");
  }
  opaque(const opaque&) = delete;
  opaque& operator=(const opaque&) = delete;
  ~opaque() {
    mr_.reset();
    EXPECT_EQ(0, node_.ops().free(node_.domain(), address_));
  }
  [[nodiscard]] std::uint64_t address() const { return address_; }
  [[nodiscard]] void* at(std::size_t offset) const {
    return reinterpret_cast<void*>(address_ + offset);
  }
  [[nodiscard]] void* desc() const { return fi_mr_desc(mr_.get()); }
  [[nodiscard]] std::uint64_t key() const { return fi_mr_key(mr_.get()); }

 private:
  node& node_;
  std::uint64_t address_ = 0;
  fid_ptr<fid_mr> mr_;
};

class gaudi3 : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_gaudi()) GTEST_SKIP() << "only gaudi carries Gaudi memory";
  }

  static void take_device(const rank& r) {
    setenv("FI_GAUDI_DEVICE", std::to_string(r.id()).c_str(), 1);
  }
  /// The error of an operation, whether its start or its completion tells.
  template <class Call>
  static int error_of(node& n, void* context, Call call) {
    long ret = call();
    while (ret == -FI_EAGAIN) {
      n.poll();
      ret = call();
    }
    return ret != 0 ? static_cast<int>(-ret) : n.wait(context).err;
  }
  static void exchange_in_host_memory(node& n, rank& r) {
    memory own(n, 5000, false);
    if (r.id() == 0) {
      own.put(0, bytes_of(5, 5000));
      n.post([&] { return fi_tsend(n.ep(), own.at(0), 5000, own.desc(), n.peer(1), 9, ctx(9)); });
      EXPECT_EQ(0, n.wait(ctx(9)).err);
    } else {
      n.post([&] {
        return fi_trecv(n.ep(), own.at(0), 5000, own.desc(), FI_ADDR_UNSPEC, 9, 0, ctx(9));
      });
      EXPECT_EQ(0, n.wait(ctx(9)).err);
      expect_same(bytes_of(5, 5000), own.get(0, 5000), "after what failed");
    }
    r.barrier();
  }
};

TEST_F(gaudi3, is_offered_and_gives_memory_addresses_and_dmabufs) {
  run(one_gaudi3, [](rank&) {
    node n(with_device);
    fi_gaudi_device_attr attr{};
    must(n.ops().query_device(n.domain(), &attr), "query_device");
    EXPECT_EQ(FI_GAUDI_GENERATION_3, attr.generation);
    EXPECT_STREQ("simulated Gaudi3", attr.name);
    EXPECT_EQ(127ULL << 30, attr.hbm_size);
    const opaque own(n, 100'000);
    EXPECT_EQ(0x0201002000000000U, own.address());
    fi_gaudi_addr_attr where{};
    must(n.ops().query_addr(n.domain(), own.address() + 5000, 100, &where), "query_addr");
    EXPECT_EQ(own.address(), where.alloc_base);
    EXPECT_EQ(5000U, where.offset);
    fi_gaudi_dmabuf dmabuf{};
    must(n.ops().export_dmabuf(n.domain(), own.address() + 5000, 100, &dmabuf), "export_dmabuf");
    EXPECT_EQ(own.address() + 5000, dmabuf.base_addr + dmabuf.offset);
    close(dmabuf.fd);
  });
}

TEST_F(gaudi3, refuses_the_applications_copies) {
  run(one_gaudi3, [](rank&) {
    node n(with_device);
    const opaque own(n, 4096);
    bytes host(4096);
    const auto address = reinterpret_cast<std::uint64_t>(host.data());
    std::uint64_t ticket = 0;
    for (int round = 0; round < 2; ++round) {
      EXPECT_EQ(-FI_EOPNOTSUPP,
                n.ops().copy(n.domain(), own.address(), address, 4096, FI_GAUDI_HOST_TO_DEVICE));
      EXPECT_EQ(-FI_EOPNOTSUPP,
                n.ops().copy(n.domain(), address, own.address(), 4096, FI_GAUDI_DEVICE_TO_HOST));
      EXPECT_EQ(-FI_EOPNOTSUPP, n.ops().copy_async(n.domain(), own.address(), address, 4096,
                                                   FI_GAUDI_HOST_TO_DEVICE, &ticket));
    }
  });
}

TEST_F(gaudi3, what_would_be_staged_from_it_fails_at_both_ends) {
  run(two_gaudi3s, [](rank& r) {
    take_device(r);
    node n(with_device);
    n.meet(r);
    constexpr std::size_t longest = 1 << 20;
    for (const std::size_t size : {std::size_t{100}, longest}) {
      if (r.id() == 0) {
        const opaque own(n, size);
        EXPECT_EQ(FI_EOPNOTSUPP, error_of(n, ctx(1), [&] {
                    return fi_tsend(n.ep(), own.at(0), size, own.desc(), n.peer(1), 1, ctx(1));
                  }));
      } else if (size == longest) {  // the other one never leaves
        memory own(n, size, false);
        n.post([&] {
          return fi_trecv(n.ep(), own.at(0), size, own.desc(), FI_ADDR_UNSPEC, 1, 0, ctx(1));
        });
        EXPECT_NE(0, n.wait(ctx(1)).err);
      }
      r.barrier();
    }
    exchange_in_host_memory(n, r);
  });
}

TEST_F(gaudi3, what_would_be_staged_to_it_fails_at_both_ends) {
  run(two_gaudi3s, [](rank& r) {
    take_device(r);
    node n(with_device);
    n.meet(r);
    constexpr std::size_t longest = 1 << 20;
    for (const std::size_t size : {std::size_t{100}, longest}) {
      if (r.id() == 0) {
        memory own(n, size, false);
        n.post([&] { return fi_tsend(n.ep(), own.at(0), size, own.desc(), n.peer(1), 1, ctx(1)); });
        const int error = n.wait(ctx(1)).err;
        if (size == longest) {
          EXPECT_NE(0, error);
        }
      } else {
        const opaque own(n, size);
        EXPECT_EQ(FI_EOPNOTSUPP, error_of(n, ctx(1), [&] {
                    return fi_trecv(n.ep(), own.at(0), size, own.desc(), FI_ADDR_UNSPEC, 1, 0,
                                    ctx(1));
                  }));
      }
      r.barrier();
    }
    exchange_in_host_memory(n, r);
  });
}

TEST_F(gaudi3, one_sided_operations_on_it_fail_and_leave_the_rest_at_work) {
  run(two_gaudi3s, [](rank& r) {
    take_device(r);
    node n(with_device);
    n.meet(r);
    constexpr std::size_t size = 200'000;
    const opaque own(n, size);
    memory host(n, size, false);
    const std::array<std::uint64_t, 2> mine{own.address(), own.key()};
    const auto all = r.all_gather({reinterpret_cast<const char*>(mine.data()), sizeof mine});
    if (r.id() == 0) {
      std::array<std::uint64_t, 2> other{};
      std::memcpy(other.data(), all[1].data(), sizeof other);
      for (const std::size_t length : {std::size_t{64}, size}) {
        EXPECT_NE(0, error_of(n, ctx(1), [&] {
                    return fi_write(n.ep(), host.at(0), length, host.desc(), n.peer(1), other[0],
                                    other[1], ctx(1));
                  }));
        EXPECT_NE(0, error_of(n, ctx(2), [&] {
                    return fi_read(n.ep(), host.at(0), length, host.desc(), n.peer(1), other[0],
                                   other[1], ctx(2));
                  }));
      }
    }
    r.barrier();
    exchange_in_host_memory(n, r);
  });
}

// By the NIC alone the bytes come to the device and back, in messages of all kinds and by RMA.
TEST_F(gaudi3, what_a_nic_reaches_needs_no_copies) {
  if (!on_verbs()) GTEST_SKIP() << "only an RDMA NIC reaches device memory";
  run(two_gaudi3s, [](rank& r) {
    take_device(r);
    node n(with_device);
    n.meet(r);
    constexpr std::size_t start = 4097;
    for (const std::size_t size :
         {std::size_t{1}, std::size_t{100}, std::size_t{5000}, std::size_t{300'000}}) {
      memory host(n, size, false);
      const opaque own(n, start + size + 64);
      const std::array<std::uint64_t, 2> mine{own.address(), own.key()};
      const auto all = r.all_gather({reinterpret_cast<const char*>(mine.data()), sizeof mine});
      if (r.id() == 0) {
        std::array<std::uint64_t, 2> other{};
        std::memcpy(other.data(), all[1].data(), sizeof other);
        host.put(0, bytes_of(1, size));
        n.post(
            [&] { return fi_tsend(n.ep(), host.at(0), size, host.desc(), n.peer(1), 1, ctx(1)); });
        EXPECT_EQ(0, n.wait(ctx(1)).err);
        host.put(0, bytes_of(7, size));
        n.post([&] {
          return fi_trecv(n.ep(), host.at(0), size, host.desc(), FI_ADDR_UNSPEC, 2, 0, ctx(2));
        });
        EXPECT_EQ(0, n.wait(ctx(2)).err);
        expect_same(bytes_of(1, size), host.get(0, size), "there and back in messages");
        host.put(0, bytes_of(3, size));
        const iovec local{host.at(0), size};
        const fi_rma_iov remote{other[0] + start, size, other[1]};
        void* desc = host.desc();
        fi_msg_rma message{&local, &desc, 1, n.peer(1), &remote, 1, ctx(3), 0};
        n.post([&] { return fi_writemsg(n.ep(), &message, FI_DELIVERY_COMPLETE | FI_COMPLETION); });
        EXPECT_EQ(0, n.wait(ctx(3)).err);
        host.put(0, bytes_of(7, size));
        n.post([&] {
          return fi_read(n.ep(), host.at(0), size, host.desc(), n.peer(1), other[0] + start,
                         other[1], ctx(4));
        });
        EXPECT_EQ(0, n.wait(ctx(4)).err);
        expect_same(bytes_of(3, size), host.get(0, size), "there and back by RMA");
      } else {
        n.post([&] {
          return fi_trecv(n.ep(), own.at(start), size, own.desc(), FI_ADDR_UNSPEC, 1, 0, ctx(1));
        });
        EXPECT_EQ(0, n.wait(ctx(1)).err);
        n.post([&] {
          return fi_tsend(n.ep(), own.at(start), size, own.desc(), n.peer(0), 2, ctx(2));
        });
        EXPECT_EQ(0, n.wait(ctx(2)).err);
      }
      r.barrier();
    }
  });
}

std::uint64_t address_of(const bytes& host) {
  return reinterpret_cast<std::uint64_t>(host.data());
}

// There and back, in several parts, with a copy within the device on the way.
TEST_F(gaudi3, what_a_nic_reaches_needs_no_engine_for_the_applications_copies) {
  if (!on_verbs()) GTEST_SKIP() << "only an RDMA NIC reaches device memory";
  run(one_gaudi3, [](rank&) {
    node n(with_device);
    constexpr std::size_t size = (17 << 20) + 5;
    const opaque first(n, size);
    const opaque second(n, size);
    const bytes sent = bytes_of(1, size);
    bytes got(size);
    must(n.ops().copy(n.domain(), first.address(), address_of(sent), size, FI_GAUDI_HOST_TO_DEVICE),
         "to the device");
    std::uint64_t ticket = 0;
    must(n.ops().copy_async(n.domain(), second.address(), first.address(), size,
                            FI_GAUDI_DEVICE_TO_DEVICE, &ticket),
         "within the device");
    EXPECT_EQ(0, n.ops().copy_test(n.domain(), ticket));
    EXPECT_EQ(-FI_EINVAL, n.ops().copy_test(n.domain(), ticket)) << "it has been told";
    must(n.ops().copy(n.domain(), address_of(got), second.address(), size, FI_GAUDI_DEVICE_TO_HOST),
         "from the device");
    expect_same(sent, got, "there and back");
  });
}

TEST_F(gaudi3, what_a_nic_reaches_needs_no_engine_to_refuse_wrong_copies) {
  if (!on_verbs()) GTEST_SKIP() << "only an RDMA NIC reaches device memory";
  run(one_gaudi3, [](rank&) {
    node n(with_device);
    const opaque own(n, 4096);
    bytes host(8192);
    const auto to_device = [&](std::uint64_t from, std::uint64_t length) {
      return n.ops().copy(n.domain(), own.address(), from, length, FI_GAUDI_HOST_TO_DEVICE);
    };
    EXPECT_EQ(0, to_device(address_of(host), 0));
    EXPECT_EQ(-FI_EINVAL, to_device(address_of(host), 8192)) << "beyond the allocation";
    EXPECT_EQ(-FI_EINVAL, to_device(0, 64));
    EXPECT_EQ(-FI_EINVAL, to_device(own.address(), 64)) << "no host memory";
  });
}

// Neither end says what it knows of its memory, nor has it to be registered.
TEST_F(gaudi3, what_a_nic_reaches_needs_no_descriptor) {
  if (!on_verbs()) GTEST_SKIP() << "only an RDMA NIC reaches device memory";
  run(two_gaudi3s, [](rank& r) {
    take_device(r);
    node n(with_device);
    n.meet(r);
    constexpr std::size_t inject_size = 60;
    for (const std::size_t size : {inject_size, std::size_t{5000}, std::size_t{300'000}}) {
      const opaque own(n, size);
      if (r.id() == 0) {
        const bytes sent = bytes_of(1, size);
        must(n.ops().copy(n.domain(), own.address(), address_of(sent), size,
                          FI_GAUDI_HOST_TO_DEVICE),
             "to the device");
        if (size == inject_size) {
          n.post([&] { return fi_tinject(n.ep(), own.at(0), size, n.peer(1), 1); });
        } else {
          n.post([&] { return fi_tsend(n.ep(), own.at(0), size, nullptr, n.peer(1), 1, ctx(1)); });
          EXPECT_EQ(0, n.wait(ctx(1)).err);
        }
      } else {
        n.post([&] {
          return fi_trecv(n.ep(), own.at(0), size, nullptr, FI_ADDR_UNSPEC, 1, 0, ctx(1));
        });
        EXPECT_EQ(0, n.wait(ctx(1)).err);
        bytes got(size);
        must(
            n.ops().copy(n.domain(), address_of(got), own.address(), size, FI_GAUDI_DEVICE_TO_HOST),
            "from the device");
        expect_same(bytes_of(1, size), got, "without a descriptor");
      }
      r.barrier();
    }
  });
}

}  // namespace
}  // namespace gaudi::test
