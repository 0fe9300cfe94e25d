// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Several devices in one process, which hand out the same addresses.
#include <array>
#include <cstring>
#include <optional>
#include <vector>

#include "fi/common/ext_ops.hpp"
#include "opened.hpp"
#include "reg/region.hpp"

namespace gaudi::fi {
namespace {

constexpr std::uint64_t length = 4096;
constexpr std::uint64_t dmabuf_flag = std::uint64_t{1} << 40;  // FI_MR_DMABUF

class many_devices : public test::with_device {
 protected:
  static void SetUpTestSuite() { set_up("all"); }

  void TearDown() override {
    for (int n = 0; n < 8; ++n) {
      if (addresses_.at(n) == 0) continue;
      EXPECT_EQ(ops().select_device(domain(), n), 0);
      EXPECT_EQ(ops().free(domain(), addresses_.at(n)), 0);
    }
  }

  fi_gaudi_ops& ops() { return o_.ops(); }
  fid_domain* domain() { return o_.domain.get(); }

  std::uint64_t allocate_on(int number) {
    EXPECT_EQ(ops().select_device(domain(), number), 0);
    return addresses_.at(static_cast<std::size_t>(number)) = allocate(length);
  }
  int regattr(fi_mr_attr attr, std::uint64_t flags, test::unique_fid<fid_mr>& mr) {
    attr.iov_count = 1;
    attr.access = FI_REMOTE_READ | FI_REMOTE_WRITE;
    fid_mr* made = nullptr;
    const int ret = fi_mr_regattr(domain(), &attr, flags, &made);
    mr.reset(made);
    return ret;
  }
  int reg(std::uint64_t address, int number, test::unique_fid<fid_mr>& mr) {
    const iovec range{reinterpret_cast<void*>(address), length};
    fi_mr_attr attr{};
    attr.mr_iov = &range;
    attr.iface = FI_HMEM_SYNAPSEAI;
    attr.device.synapseai = number;
    return regattr(attr, 0, mr);
  }
  static int index_of(const test::unique_fid<fid_mr>& mr) {
    return static_cast<reg::region*>(fi_mr_desc(mr.get()))->owner->attributes().index;
  }

  std::array<std::uint64_t, 8> addresses_{};
};

TEST_F(many_devices, are_counted_and_selected) {
  int count = 0;
  ASSERT_EQ(ops().device_count(domain(), &count), 0);
  EXPECT_EQ(count, 8);
  int selected = -1;
  ASSERT_EQ(ops().selected_device(domain(), &selected), 0);
  EXPECT_EQ(selected, 0);
  for (const int wrong : {-1, 8, 1000}) EXPECT_EQ(ops().select_device(domain(), wrong), -FI_EINVAL);
  for (int n = 7; n >= 0; --n) {
    ASSERT_EQ(ops().select_device(domain(), n), 0);
    ASSERT_EQ(ops().selected_device(domain(), &selected), 0);
    EXPECT_EQ(selected, n);
    fi_gaudi_device_attr attr{};
    ASSERT_EQ(ops().query_device(domain(), &attr), 0);
    EXPECT_EQ(attr.index, n);
  }
  const test::opened other;
  ASSERT_EQ(other.ops().selected_device(other.domain.get(), &selected), 0);
  EXPECT_EQ(selected, 0) << "each domain selects for itself";
}

TEST_F(many_devices, keep_apart_what_has_one_address) {
  std::vector<unsigned char> bytes(length);
  const auto host = reinterpret_cast<std::uint64_t>(bytes.data());
  for (int n = 0; n < 8; ++n) {
    const auto address = allocate_on(n);
    EXPECT_EQ(address, addresses_[0]) << "simulated as the driver does it";
    std::fill(bytes.begin(), bytes.end(), static_cast<unsigned char>(n + 1));
    ASSERT_EQ(ops().copy(domain(), address, host, length, FI_GAUDI_HOST_TO_DEVICE), 0);
  }
  for (int n = 0; n < 8; ++n) {
    ASSERT_EQ(ops().select_device(domain(), n), 0);
    ASSERT_EQ(ops().copy(domain(), host, addresses_[0], length, FI_GAUDI_DEVICE_TO_HOST), 0);
    EXPECT_EQ(bytes, std::vector<unsigned char>(length, static_cast<unsigned char>(n + 1)));
    fi_gaudi_addr_attr where{};
    ASSERT_EQ(ops().query_addr(domain(), addresses_[0], length, &where), 0);
    EXPECT_EQ(where.device_index, n);
    fi_gaudi_dmabuf dmabuf{};
    ASSERT_EQ(ops().export_dmabuf(domain(), addresses_[0], length, &dmabuf), 0);
    close(dmabuf.fd);
  }
}

TEST_F(many_devices, are_registered_by_number) {
  for (int n = 0; n < 8; ++n) allocate_on(n);
  ASSERT_EQ(ops().select_device(domain(), 3), 0);
  test::unique_fid<fid_mr> mr;
  for (int n = 0; n < 8; ++n) {
    ASSERT_EQ(reg(addresses_[0], n, mr), 0);
    EXPECT_EQ(index_of(mr), n) << "whatever the domain has selected";
    EXPECT_EQ(ops().free(domain(), addresses_[0]), n == 3 ? -FI_EBUSY : 0);
    if (n != 3) {
      ASSERT_EQ(allocate_on(3), addresses_[0]);
    }
  }
  for (const int wrong : {-1, 8}) EXPECT_EQ(reg(addresses_[0], wrong, mr), -FI_EINVAL);
}

TEST_F(many_devices, memory_of_another_number_is_refused) {
  const auto address = allocate_on(5);
  test::unique_fid<fid_mr> mr;
  EXPECT_EQ(reg(address, 0, mr), -FI_EINVAL);
  EXPECT_EQ(reg(address, 6, mr), -FI_EINVAL);
  EXPECT_EQ(reg(address, 5, mr), 0);
}

TEST_F(many_devices, a_dmabuf_says_its_device_or_has_the_address_alone) {
  const auto address = allocate_on(2);
  // struct fi_mr_dmabuf of libfabric 1.20 and later.
  const struct {
    int fd;
    std::uint64_t offset;
    std::size_t len;
    void* base;
  } buffer{0, 0, length, reinterpret_cast<void*>(address)};
  fi_mr_attr attr{};
  attr.mr_iov = reinterpret_cast<const iovec*>(&buffer);
  test::unique_fid<fid_mr> mr;
  ASSERT_EQ(regattr(attr, dmabuf_flag, mr), 0);
  EXPECT_EQ(index_of(mr), 2) << "only that one has it";
  allocate_on(4);
  EXPECT_EQ(regattr(attr, dmabuf_flag, mr), -FI_EINVAL);
  attr.iface = FI_HMEM_SYNAPSEAI;
  attr.device.synapseai = 4;
  ASSERT_EQ(regattr(attr, dmabuf_flag, mr), 0);
  EXPECT_EQ(index_of(mr), 4);
}

TEST_F(many_devices, an_address_without_descriptor_must_be_on_one_only) {
  const test::endpoint_set a(o_);
  const auto peer = a.meet(a);
  const auto address = allocate_on(1);
  auto* const buffer = reinterpret_cast<void*>(address);
  EXPECT_EQ(fi_trecv(a.ep.get(), buffer, length, nullptr, peer, 1, 0, nullptr), 0);
  allocate_on(6);
  EXPECT_EQ(fi_trecv(a.ep.get(), buffer, length, nullptr, peer, 1, 0, nullptr), -FI_EINVAL);
  EXPECT_EQ(fi_tsend(a.ep.get(), buffer, length, nullptr, peer, 1, nullptr), -FI_EINVAL);
  test::unique_fid<fid_mr> mr;
  ASSERT_EQ(reg(address, 6, mr), 0);
  EXPECT_EQ(fi_trecv(a.ep.get(), buffer, length, fi_mr_desc(mr.get()), peer, 1, 0, nullptr), 0);
}

TEST_F(many_devices, an_adopted_one_is_selected) {
  auto& table = devices();
  table.clear();
  ASSERT_EQ(*table.count({.library = GAUDI_HLSIM, .device = "0,1"}), 2U);
  const auto library = *table.library(GAUDI_HLSIM);
  const int fd = *library->open("0000:1b:00.0");
  ASSERT_EQ(ops().adopt_device(domain(), fd), 0);
  int selected = -1;
  ASSERT_EQ(ops().selected_device(domain(), &selected), 0);
  EXPECT_EQ(selected, 2);
  fi_gaudi_device_attr attr{};
  ASSERT_EQ(ops().query_device(domain(), &attr), 0);
  EXPECT_STREQ(attr.pci_addr, "0000:1b:00.0");
  EXPECT_FALSE(attr.owned);
  EXPECT_EQ(ops().adopt_device(domain(), fd), -FI_EBUSY);
  ASSERT_EQ(ops().select_device(domain(), 1), 0);
  ASSERT_EQ(ops().query_device(domain(), &attr), 0);
  EXPECT_EQ(attr.index, 1);
  table.clear();
  library->close(fd);
  SetUpTestSuite();
}

class one_device : public test::with_device {};

TEST_F(one_device, has_any_number) {
  int count = 0;
  ASSERT_EQ(o_.ops().device_count(o_.domain.get(), &count), 0);
  EXPECT_EQ(count, 1);
  const auto address = allocate(length);
  for (const int number : {0, 3, -1}) {
    const iovec range{reinterpret_cast<void*>(address), length};
    fi_mr_attr attr{};
    attr.mr_iov = &range;
    attr.iov_count = 1;
    attr.iface = FI_HMEM_SYNAPSEAI;
    attr.device.synapseai = number;
    fid_mr* mr = nullptr;
    ASSERT_EQ(fi_mr_regattr(o_.domain.get(), &attr, 0, &mr), 0) << number;
    fi_close(&mr->fid);
  }
  EXPECT_EQ(o_.ops().free(o_.domain.get(), address), 0);
}

}  // namespace
}  // namespace gaudi::fi
