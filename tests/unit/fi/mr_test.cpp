// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/rdm/mr.hpp"

#include <vector>

#include "opened.hpp"
#include "reg/key_table.hpp"

namespace gaudi::fi {
namespace {

constexpr std::uint64_t remote = FI_REMOTE_READ | FI_REMOTE_WRITE;

struct registered {
  int code;
  test::unique_fid<fid_mr> mr;
};

registered regattr(const test::opened& o, std::uint64_t address, std::size_t length,
                   fi_hmem_iface iface, std::uint64_t key = 0) {
  iovec range{reinterpret_cast<void*>(address), length};
  fi_mr_attr attr{};
  attr.mr_iov = &range;
  attr.iov_count = 1;
  attr.access = remote;
  attr.requested_key = key;
  attr.iface = iface;
  fid_mr* mr = nullptr;
  const int ret = fi_mr_regattr(o.domain.get(), &attr, 0, &mr);
  return {ret, test::unique_fid<fid_mr>(mr)};
}

registered reg(const test::opened& o, void* base, std::size_t length, std::uint64_t key = 0) {
  return regattr(o, reinterpret_cast<std::uint64_t>(base), length, FI_HMEM_SYSTEM, key);
}

TEST(memory_regions, of_host_memory_have_a_key_of_the_core_and_a_descriptor) {
  const test::opened o;
  std::vector<std::byte> bytes(100);
  const auto a = reg(o, bytes.data(), bytes.size());
  ASSERT_EQ(a.code, 0);
  EXPECT_FALSE(fi_mr_key(a.mr.get()) & reg::key_table::software_bit);
  const auto* region = static_cast<reg::region*>(fi_mr_desc(a.mr.get()));
  ASSERT_NE(region, nullptr);
  EXPECT_EQ(region->address, reinterpret_cast<std::uint64_t>(bytes.data()));
  EXPECT_EQ(region->length, bytes.size());
  EXPECT_EQ(region->access, remote);
}

TEST(memory_regions, take_the_key_that_the_application_wants_once) {
  const test::opened o(0);
  std::vector<std::byte> bytes(100);
  auto a = reg(o, bytes.data(), 100, 42);
  ASSERT_EQ(a.code, 0);
  EXPECT_EQ(fi_mr_key(a.mr.get()), 42U);
  EXPECT_EQ(reg(o, bytes.data(), 50, 42).code, -FI_ENOKEY);
  EXPECT_EQ(reg(o, bytes.data(), 50, 43).code, 0);
  a.mr.reset();
  EXPECT_EQ(reg(o, bytes.data(), 50, 42).code, 0) << "a closed region gives its key back";
}

TEST(memory_regions, without_length_or_of_more_than_one_range_are_refused) {
  const test::opened o;
  char byte = 0;
  fid_mr* mr = nullptr;
  EXPECT_EQ(fi_mr_reg(o.domain.get(), &byte, 0, remote, 0, 0, 0, &mr, nullptr), -FI_EINVAL);
  EXPECT_EQ(reg(o, &byte, 0).code, -FI_EINVAL);
  iovec two[2] = {{&byte, 1}, {&byte, 1}};
  EXPECT_EQ(fi_mr_regv(o.domain.get(), two, 2, remote, 0, 0, 0, &mr, nullptr), -FI_EINVAL);
  EXPECT_EQ(fi_mr_regv(o.domain.get(), two, 1, remote, 0, 0, 0, &mr, nullptr), 0);
  fi_close(&mr->fid);
}

TEST(memory_regions, of_other_accelerators_or_of_dmabufs_of_host_memory_are_refused) {
  const test::opened o;
  std::vector<std::byte> bytes(100);
  const auto base = reinterpret_cast<std::uint64_t>(bytes.data());
  EXPECT_EQ(regattr(o, base, 100, FI_HMEM_CUDA).code, -FI_ENOSYS);

  // struct fi_mr_dmabuf and FI_MR_DMABUF of libfabric 1.20 and later.
  struct {
    int fd;
    std::uint64_t offset;
    std::size_t len;
    void* base_addr;
  } buffer{0, 0, 100, bytes.data()};
  fi_mr_attr attr{};
  attr.mr_iov = reinterpret_cast<const iovec*>(&buffer);
  attr.iov_count = 1;
  attr.access = remote;
  attr.iface = FI_HMEM_SYNAPSEAI;
  fid_mr* mr = nullptr;
  EXPECT_EQ(fi_mr_regattr(o.domain.get(), &attr, std::uint64_t{1} << 40, &mr), -FI_EOPNOTSUPP);
}

TEST(memory_regions, keep_their_domain_open) {
  test::opened o;
  char byte = 0;
  auto a = reg(o, &byte, 1);
  ASSERT_EQ(a.code, 0);
  EXPECT_EQ(fi_close(&o.domain->fid), -FI_EBUSY);
  a.mr.reset();
  EXPECT_EQ(fi_close(&o.domain.release()->fid), 0);
}

TEST(memory_regions, a_refused_one_does_not) {
  test::opened o(0);
  char byte = 0;
  {
    const auto a = reg(o, &byte, 1, 1);
    EXPECT_NE(reg(o, &byte, 1, 1).code, 0);
    EXPECT_NE(reg(o, &byte, 0, 2).code, 0);
  }
  EXPECT_EQ(fi_close(&o.domain.release()->fid), 0);
}

using device_regions = test::with_device;

TEST_F(device_regions, lie_anywhere_in_one_allocation) {
  const auto address = allocate(10'000);
  for (const std::uint64_t offset : {0U, 1U, 4096U, 9999U}) {
    const auto a = regattr(o_, address + offset, 10'000 - offset, FI_HMEM_SYNAPSEAI);
    ASSERT_EQ(a.code, 0) << "offset " << offset;
    EXPECT_TRUE(fi_mr_key(a.mr.get()) & reg::key_table::software_bit)
        << "the core knows nothing of device memory";
  }
}

TEST_F(device_regions, that_cross_or_leave_their_allocation_are_refused) {
  const auto a = allocate(8192);
  const auto b = allocate(8192);
  EXPECT_EQ(regattr(o_, a, 8193, FI_HMEM_SYNAPSEAI).code, -FI_EINVAL);
  EXPECT_EQ(regattr(o_, a + 8191, 2, FI_HMEM_SYNAPSEAI).code, -FI_EINVAL);
  EXPECT_EQ(regattr(o_, std::min(a, b), 16384, FI_HMEM_SYNAPSEAI).code, -FI_EINVAL);
  EXPECT_EQ(regattr(o_, a, SIZE_MAX, FI_HMEM_SYNAPSEAI).code, -FI_EINVAL);
  EXPECT_EQ(regattr(o_, std::max(a, b) + (std::uint64_t{1} << 36), 1, FI_HMEM_SYNAPSEAI).code,
            -FI_EINVAL);
  EXPECT_EQ(regattr(o_, a, 0, FI_HMEM_SYNAPSEAI).code, -FI_EINVAL);
}

TEST_F(device_regions, are_not_taken_for_host_memory_nor_the_reverse) {
  const auto address = allocate(4096);
  char byte = 0;
  EXPECT_EQ(regattr(o_, address, 4096, FI_HMEM_SYSTEM).code, -FI_EINVAL);
  fid_mr* mr = nullptr;
  EXPECT_EQ(fi_mr_reg(o_.domain.get(), reinterpret_cast<void*>(address), 4096, remote, 0, 0, 0, &mr,
                      nullptr),
            -FI_EINVAL);
  EXPECT_EQ(regattr(o_, reinterpret_cast<std::uint64_t>(&byte), 1, FI_HMEM_SYNAPSEAI).code,
            -FI_EINVAL);
  EXPECT_EQ(regattr(o_, 0, 1, FI_HMEM_SYNAPSEAI).code, -FI_EINVAL);
}

TEST_F(device_regions, keep_their_memory_from_being_freed) {
  const auto address = allocate(4096);
  auto a = regattr(o_, address + 100, 10, FI_HMEM_SYNAPSEAI);
  auto b = regattr(o_, address, 4096, FI_HMEM_SYNAPSEAI);
  ASSERT_EQ(a.code, 0);
  ASSERT_EQ(b.code, 0);
  EXPECT_EQ(o_.ops().free(o_.domain.get(), address), -FI_EBUSY);
  a.mr.reset();
  EXPECT_EQ(o_.ops().free(o_.domain.get(), address), -FI_EBUSY);
  b.mr.reset();
  EXPECT_EQ(o_.ops().free(o_.domain.get(), address), 0);
  EXPECT_EQ(regattr(o_, address, 4096, FI_HMEM_SYNAPSEAI).code, -FI_EINVAL) << "it is free now";
}

}  // namespace
}  // namespace gaudi::fi
