// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <fcntl.h>
#include <rdma/fi_errno.h>
#include <sys/mman.h>

#include <vector>

#include "../base/scarce_memory.hpp"
#include "device/device.hpp"
#include "device/host_page.hpp"
#include "fake_driver.hpp"

// Physical addresses and an allocator of our own: prov/docs/device.md, 2.2, 3.1 and 3.3.

namespace gaudi::device {
namespace {

using testing::_;

constexpr std::uint64_t dram = 0x20000000;
constexpr std::uint64_t hbm = 2 * test::fake_driver::page;  // 1.5 GiB
constexpr std::uint64_t region = 256 << 20;

class a_gaudi1 : public testing::Test {
 protected:
  a_gaudi1() {
    driver.pci_id = 0x1000;
    driver.dram_base = dram;
    EXPECT_CALL(driver.library, device_memory_alloc(_, _, _, _, _)).Times(0);
    EXPECT_CALL(driver.library, device_memory_map(_, _, _)).Times(0);
    EXPECT_CALL(driver.library, export_dmabuf(_, _, _, _, _)).Times(0);
  }
  void open() {
    auto opened = device::open(driver.thunk(), {});
    ASSERT_TRUE(opened);
    gaudi = *opened;
  }
  void adopt() {
    const int fd = memfd_create("the-applications", MFD_CLOEXEC);
    auto adopted = device::adopt(driver.thunk(), fd);
    ASSERT_TRUE(adopted);
    gaudi = *adopted;
    application.reset(fd);
  }

  test::fake_driver driver{2};
  base::scoped_fd application;
  std::shared_ptr<device> gaudi;
};

TEST_F(a_gaudi1, is_driven) {
  open();
  EXPECT_EQ(gaudi->attributes().generation, 1);
  EXPECT_TRUE(gaudi->generation().physical_addresses);
  EXPECT_EQ(*gaudi->hbm_free(), hbm);
}

TEST_F(a_gaudi1, allocates_from_all_of_its_memory_and_no_more) {
  open();
  const auto a = gaudi->allocate(100), b = gaudi->allocate(region - 4096);
  ASSERT_TRUE(a && b);
  EXPECT_EQ(*a, dram);
  EXPECT_EQ(*b, dram + 4096) << "in the same region";
  EXPECT_EQ(*gaudi->hbm_free(), hbm - region);
  const auto rest = gaudi->allocate(hbm - region);
  ASSERT_TRUE(rest);
  EXPECT_EQ(*rest, dram + region);
  EXPECT_EQ(gaudi->allocate(1).code(), -FI_ENOMEM);
  EXPECT_EQ(gaudi->allocate(hbm + 1).code(), -FI_ENOMEM);
  for (const auto& each : {a, b, rest}) EXPECT_TRUE(gaudi->free(*each));
  EXPECT_EQ(*gaudi->hbm_free(), hbm);
  EXPECT_TRUE(gaudi->allocate(hbm)) << "in one piece again";
}

TEST_F(a_gaudi1, takes_what_is_left_where_no_whole_region_is) {
  open();
  ASSERT_TRUE(gaudi->allocate(hbm - region / 2));
  EXPECT_TRUE(gaudi->allocate(region / 2));
  EXPECT_EQ(*gaudi->hbm_free(), 0U);
}

TEST_F(a_gaudi1, allocates_just_what_is_wanted_where_no_whole_region_is_left) {
  driver.page_size = region / 4;  // of which it has two
  open();
  const auto a = gaudi->allocate(region / 4);
  ASSERT_TRUE(a);
  EXPECT_EQ(gaudi->find(*a, 1)->map_len, region / 4);
  EXPECT_TRUE(gaudi->allocate(region / 4));
  EXPECT_EQ(*gaudi->hbm_free(), 0U);
}

TEST_F(a_gaudi1, exports_a_region_by_its_physical_address_once) {
  open();
  const auto a = gaudi->allocate(region), b = gaudi->allocate(8192);
  ASSERT_TRUE(a && b);
  EXPECT_CALL(driver.library, export_physical(_, *b, region, _)).Times(1);
  const auto one = gaudi->export_dmabuf(*b, 1);
  const auto two = gaudi->export_dmabuf(*b + 5000, 100);
  ASSERT_TRUE(one && two);
  EXPECT_EQ(two->base_addr, *b);
  EXPECT_EQ(two->offset, 5000U);
}

TEST_F(a_gaudi1, has_no_ranges_of_others_when_it_was_opened_here) {
  open();
  EXPECT_EQ(gaudi->memory().adopt_range(dram + region, 4096, dram + region, 4096).code(), -EEXIST);
}

TEST_F(a_gaudi1, leaves_allocation_to_the_application_that_opened_it) {
  adopt();
  EXPECT_EQ(gaudi->allocate(4096).code(), -FI_EOPNOTSUPP);
  EXPECT_EQ(gaudi->memory().adopt_range(0, 4096, 0, 4096).code(), -FI_EINVAL)
      << "the driver's part";
  EXPECT_EQ(gaudi->memory().adopt_range(dram + hbm - 4096, 1, dram + hbm - 4096, 8192).code(),
            -FI_EINVAL);
  ASSERT_TRUE(gaudi->memory().adopt_range(dram + 8192, 100, dram + 4096, 8192));
  EXPECT_TRUE(gaudi->find(dram + 8192, 100)->adopted);
  EXPECT_CALL(driver.library, export_physical(_, dram + 4096, 8192, _)).Times(1);
  EXPECT_TRUE(gaudi->export_dmabuf(dram + 8192, 100));
  EXPECT_TRUE(gaudi->memory().release_range(dram + 8192));
}

TEST(device_addresses, of_a_gaudi1_may_be_host_addresses) {
  EXPECT_FALSE(is_device_address(dram));
  EXPECT_TRUE(may_be_device_address(dram));
  EXPECT_TRUE(may_be_device_address(0x7ffffffff));
  EXPECT_FALSE(may_be_device_address(0x800000000));
  EXPECT_FALSE(may_be_device_address(dram - 1));
  EXPECT_TRUE(may_be_device_address(0x1001001800000000));
}

TEST(device_addresses, are_compared_with_what_the_process_has_mapped) {
  const auto at = [](const void* p) { return reinterpret_cast<std::uint64_t>(p); };
  void* const page = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  EXPECT_TRUE(has_host_page(at(page) + 100));
  munmap(page, 4096);
  EXPECT_FALSE(has_host_page(at(page) + 100));
}

// As much as nobody has is had again, wherever memory for what is known of it ends.
TEST_F(a_gaudi1, has_all_of_its_memory_after_an_allocation_that_failed) {
  open();
  int refused = 0;
  for (long allocations = 0;; ++allocations) {
    base::result<std::uint64_t> got = base::error{-FI_ENOMEM};
    {
      const gaudi::test::scarce_memory few(allocations);
      got = gaudi->allocate(hbm);
    }
    if (got) {
      EXPECT_TRUE(gaudi->free(*got));
      break;
    }
    ++refused;
    ASSERT_EQ(got.code(), -FI_ENOMEM);
    ASSERT_EQ(*gaudi->hbm_free(), hbm) << "after " << allocations;
  }
  EXPECT_GT(refused, 1);
}

}  // namespace
}  // namespace gaudi::device
