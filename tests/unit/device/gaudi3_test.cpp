// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <fcntl.h>
#include <rdma/fi_errno.h>

#include "device/device.hpp"
#include "fake_driver.hpp"

// Sizes of pages and where addresses begin are the driver's to say: prov/docs/device.md, 2.1.

namespace gaudi::device {
namespace {

using testing::_;

constexpr std::uint64_t mib = 1 << 20;
constexpr std::uint64_t first = 0x0201002000000000;
constexpr std::uint64_t region = 256 * mib;

class a_gaudi3 : public testing::Test {
 protected:
  a_gaudi3() {
    driver.pci_id = 0x1060;
    driver.dram_base = first;
    driver.page_size = driver.alloc_page_size = 32 * mib;
    EXPECT_CALL(driver.library, export_physical(_, _, _, _)).Times(0);
    auto opened = device::open(driver.thunk(), {});
    EXPECT_TRUE(opened);
    if (opened) gaudi = *opened;
  }

  test::fake_driver driver{20};  // 640 MiB
  std::shared_ptr<device> gaudi;
};

TEST_F(a_gaudi3, is_driven_and_does_not_copy) {
  EXPECT_EQ(gaudi->attributes().generation, 3);
  EXPECT_FALSE(gaudi->generation().physical_addresses);
  EXPECT_FALSE(gaudi->generation().copies);
  EXPECT_TRUE(gaudi->tell_no_copies());
  EXPECT_FALSE(gaudi->tell_no_copies()) << "once is enough";
  EXPECT_EQ(*gaudi->hbm_free(), 640 * mib);
}

TEST_F(a_gaudi3, takes_the_default_page_from_the_driver_and_several_at_a_time) {
  EXPECT_CALL(driver.library, device_memory_alloc(_, region, 0, true, false)).Times(1);
  const auto a = gaudi->allocate(100), b = gaudi->allocate(region - 4096);
  ASSERT_TRUE(a && b);
  EXPECT_EQ(*a, first);
  EXPECT_EQ(*b, first + 4096);
  EXPECT_EQ(driver.pages_used(), 8U);
  EXPECT_EQ(gaudi->find(*b, 1)->map_base, first);
}

TEST_F(a_gaudi3, takes_what_is_left_where_no_whole_region_is) {
  ASSERT_TRUE(gaudi->allocate(2 * region));
  EXPECT_TRUE(gaudi->allocate(96 * mib));
  EXPECT_TRUE(gaudi->allocate(32 * mib));
  EXPECT_EQ(driver.pages_used(), 20U);
  EXPECT_EQ(gaudi->allocate(1).code(), -FI_ENOMEM);
}

TEST_F(a_gaudi3, exports_whole_regions_by_the_mapped_form_once) {
  const auto a = gaudi->allocate(8192);
  ASSERT_TRUE(a);
  EXPECT_CALL(driver.library, export_dmabuf(_, first, region, 0, O_RDWR | O_CLOEXEC)).Times(1);
  const auto one = gaudi->export_dmabuf(*a, 1), two = gaudi->export_dmabuf(*a + 5000, 100);
  ASSERT_TRUE(one && two);
  EXPECT_EQ(two->base_addr, first);
  EXPECT_EQ(two->offset, 5000U);
}

TEST_F(a_gaudi3, gives_everything_back) {
  for (int round = 0; round < 2; ++round) {
    const auto a = gaudi->allocate(2 * region), b = gaudi->allocate(1);
    ASSERT_TRUE(a && b);
    EXPECT_TRUE(gaudi->free(*a));
    EXPECT_TRUE(gaudi->free(*b));
  }
  gaudi.reset();
  EXPECT_EQ(driver.pages_used(), 0U);
  EXPECT_EQ(driver.open_descriptors(), 0);
}

TEST(device_addresses, of_a_gaudi3_are_no_host_addresses) {
  EXPECT_TRUE(is_device_address(first));
  EXPECT_TRUE(is_device_address(0x0201FFFFFFFFFFFF));
  EXPECT_FALSE(is_device_address(0x0202000000000000));
  EXPECT_FALSE(is_device_address(0x0200FFFFFFFFFFFF));
}

// Five HBM stacks of six.
TEST(a_binned_gaudi2, has_the_page_and_the_addresses_that_the_driver_says) {
  constexpr std::uint64_t page = 640 * mib, start = 0x1001001400000000;
  test::fake_driver driver{4};
  driver.page_size = page;
  driver.dram_base = start;
  const auto opened = device::open(driver.thunk(), {});
  ASSERT_TRUE(opened);
  device& gaudi = **opened;
  EXPECT_EQ(gaudi.attributes().hbm_size, 4 * page);
  EXPECT_CALL(driver.library, device_memory_alloc(_, page, _, _, _)).Times(2);
  const auto a = gaudi.allocate(1), b = gaudi.allocate(page), c = gaudi.allocate(page - 4096);
  ASSERT_TRUE(a && b && c);
  EXPECT_EQ(*a, start);
  EXPECT_EQ(*b, start + page) << "does not fit beside the first";
  EXPECT_EQ(*c, start + 4096);
  EXPECT_EQ(gaudi.find(*c, 1)->map_len, page);
}

// Newer drivers allocate in other pages than the MMU's.
TEST(a_binned_gaudi2, allocates_in_the_page_for_allocations_where_that_differs) {
  test::fake_driver driver{4};
  driver.page_size = 640 * mib;
  driver.alloc_page_size = 1280 * mib;
  const auto opened = device::open(driver.thunk(), {});
  ASSERT_TRUE(opened);
  EXPECT_CALL(driver.library, device_memory_alloc(_, 1280 * mib, _, _, _)).Times(1);
  EXPECT_TRUE((*opened)->allocate(1));
}

}  // namespace
}  // namespace gaudi::device
