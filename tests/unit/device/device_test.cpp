// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "device/device.hpp"

#include <fcntl.h>
#include <rdma/fi_errno.h>

#include <functional>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "fake_driver.hpp"

namespace gaudi::device {
namespace {

using std::chrono::milliseconds;
using testing::_;
using testing::Return;
using testing::SetErrnoAndReturn;

constexpr std::uint64_t page = test::fake_driver::page;
constexpr std::uint64_t granule = suballocator::granule;

class a_device : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = device::open(driver.thunk(), {});
    ASSERT_TRUE(opened);
    gaudi = *opened;
  }
  void TearDown() override {
    gaudi.reset();
    EXPECT_EQ(driver.open_descriptors(), 0);
    EXPECT_EQ(driver.pages_used(), 0U);
    EXPECT_EQ(driver.mappings(), 0U);
  }
  std::uint64_t allocate(std::uint64_t len) {
    const auto addr = gaudi->allocate(len);
    EXPECT_TRUE(addr);
    return addr ? *addr : 0;
  }

  test::fake_driver driver;
  std::shared_ptr<device> gaudi;
};

TEST_F(a_device, tells_its_attributes) {
  const auto& facts = gaudi->attributes();
  EXPECT_EQ(facts.generation, 2);
  EXPECT_EQ(facts.name, "simulated Gaudi2");
  EXPECT_EQ(facts.bus_id, "0000:19:00.0");
  EXPECT_EQ(facts.module_id, 5U);
  EXPECT_EQ(facts.hbm_size, 8 * page);
  EXPECT_TRUE(facts.owned && facts.simulated);
}

TEST_F(a_device, cuts_allocations_from_one_driver_page) {
  for (int i = 0; i < 100; ++i) allocate(1 << 20);
  EXPECT_EQ(driver.pages_used(), 1U);
  EXPECT_EQ(*gaudi->hbm_free(), 8 * page - (100U << 20));
}

TEST_F(a_device, grows_by_what_is_needed) {
  allocate(page + 1);
  EXPECT_EQ(driver.pages_used(), 2U);
  allocate(page - granule);  // the rest of the second page fits it exactly
  EXPECT_EQ(driver.pages_used(), 2U);
  allocate(granule);
  EXPECT_EQ(driver.pages_used(), 3U);
}

TEST_F(a_device, asks_for_contiguous_memory_first_and_does_without) {
  EXPECT_CALL(driver.library, device_memory_alloc(_, page, _, true, false))
      .WillOnce(SetErrnoAndReturn(ENOMEM, 0));
  EXPECT_CALL(driver.library, device_memory_alloc(_, page, _, false, false)).Times(1);
  allocate(4096);
}

TEST_F(a_device, gives_pages_back_but_for_one_spare) {
  const auto a = allocate(page), b = allocate(2 * page), c = allocate(page);
  EXPECT_EQ(driver.pages_used(), 4U);
  EXPECT_TRUE(gaudi->free(b));
  EXPECT_EQ(driver.pages_used(), 4U);  // the spare
  EXPECT_TRUE(gaudi->free(a));
  EXPECT_EQ(driver.pages_used(), 2U);  // the smaller one is kept
  EXPECT_TRUE(gaudi->free(c));
  EXPECT_EQ(driver.pages_used(), 1U);
}

TEST_F(a_device, gives_the_spare_up_when_memory_is_short) {
  const auto a = allocate(page), b = allocate(7 * page);
  EXPECT_TRUE(gaudi->free(a));
  EXPECT_EQ(gaudi->allocate(2 * page).code(), -FI_ENOMEM);
  EXPECT_TRUE(gaudi->free(b));
  allocate(8 * page);
}

TEST_F(a_device, refuses_what_was_not_allocated) {
  const auto a = allocate(8192);
  EXPECT_EQ(gaudi->allocate(0).code(), -FI_EINVAL);
  EXPECT_EQ(gaudi->allocate(UINT64_MAX).code(), -FI_ENOMEM);
  EXPECT_EQ(gaudi->free(a + 4096).code(), -FI_EINVAL);
  EXPECT_TRUE(gaudi->free(a));
  EXPECT_EQ(gaudi->free(a).code(), -FI_EINVAL);
}

TEST_F(a_device, keeps_a_pinned_allocation) {
  const auto a = allocate(8192);
  auto pin = gaudi->pin(a + 5000);
  auto second = gaudi->pin(a);
  ASSERT_TRUE(pin && second);
  EXPECT_EQ(pin->where().base, a);
  EXPECT_EQ(pin->where().offset, 5000U);
  EXPECT_EQ(gaudi->free(a).code(), -FI_EBUSY);
  { const auto gone = *std::move(pin); }
  EXPECT_EQ(gaudi->free(a).code(), -FI_EBUSY);
  { const auto gone = *std::move(second); }
  EXPECT_TRUE(gaudi->free(a));
  EXPECT_EQ(gaudi->pin(a).code(), -FI_ENOENT);
  EXPECT_EQ(gaudi->pin(0).code(), -FI_ENOENT);
}

struct recorder : free_observer {
  void on_free(std::uint64_t generation) noexcept override {
    told.push_back(generation);
    if (also) also();
  }
  std::vector<std::uint64_t> told;
  std::function<void()> also;
};

TEST_F(a_device, tells_its_observers_before_memory_is_given_back) {
  recorder first, second;
  gaudi->memory().add_observer(first);
  gaudi->memory().add_observer(second);
  const auto a = allocate(page), b = allocate(page), c = allocate(page);
  const auto generation = gaudi->find(b, 1)->allocation_id;
  first.also = [&] {
    EXPECT_EQ(driver.mappings(), 3U);
    EXPECT_EQ(gaudi->pin(b).code(), -FI_ENOENT) << "nobody may come between";
    EXPECT_EQ(gaudi->free(b).code(), -FI_EINVAL);
    EXPECT_NE(allocate(page), b);
  };
  EXPECT_TRUE(gaudi->free(b));
  EXPECT_EQ(first.told, std::vector{generation});
  EXPECT_EQ(second.told, std::vector{generation});
  gaudi->memory().remove_observer(first);
  EXPECT_TRUE(gaudi->free(a));
  EXPECT_EQ(first.told.size(), 1U);
  EXPECT_EQ(second.told.size(), 2U);
  gaudi->memory().remove_observer(second);
  EXPECT_TRUE(gaudi->free(c));
}

TEST_F(a_device, counts_exports_of_the_driver_and_pins_that_came_too_late) {
  struct latecomer : free_observer {
    void on_free(std::uint64_t) noexcept override { refused = on->pin(addr).code(); }
    device* on = nullptr;
    std::uint64_t addr = 0;
    int refused = 0;
  } late;
  late.on = gaudi.get();
  late.addr = allocate(granule);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(gaudi->export_dmabuf(late.addr, granule));
  EXPECT_EQ(gaudi->counted().exports.value(), 1U);
  EXPECT_FALSE(gaudi->pin(late.addr + page / 2)) << "never there, so not stale";
  EXPECT_EQ(gaudi->counted().stale_refusals.value(), 0U);
  gaudi->memory().add_observer(late);
  EXPECT_TRUE(gaudi->free(late.addr));
  gaudi->memory().remove_observer(late);
  EXPECT_EQ(late.refused, -FI_ENOENT);
  EXPECT_EQ(gaudi->counted().stale_refusals.value(), 1U);
}

TEST_F(a_device, tells_its_observers_nothing_of_what_stays) {
  recorder one;
  gaudi->memory().add_observer(one);
  const auto a = allocate(8192);
  {
    const auto pin = gaudi->pin(a);
    EXPECT_EQ(gaudi->free(a).code(), -FI_EBUSY);
  }
  EXPECT_EQ(gaudi->free(a + 4096).code(), -FI_EINVAL);
  EXPECT_EQ(gaudi->memory().release_range(a).code(), -FI_EINVAL);
  EXPECT_TRUE(one.told.empty());
  EXPECT_TRUE(gaudi->pin(a)) << "it can be used as before";
  gaudi->memory().remove_observer(one);
}

TEST_F(a_device, numbers_allocations_so_that_a_reused_address_shows) {
  const auto a = allocate(4096);
  const auto before = gaudi->find(a, 1)->allocation_id;
  EXPECT_TRUE(gaudi->free(a));
  ASSERT_EQ(allocate(4096), a);
  EXPECT_NE(gaudi->find(a, 1)->allocation_id, before);
}

TEST_F(a_device, exports_a_mapping_once_and_duplicates_it) {
  const auto a = allocate(4096), b = allocate(4096);
  EXPECT_CALL(driver.library, export_dmabuf(_, test::fake_driver::first_va, page, 0, _)).Times(1);
  const auto one = gaudi->export_dmabuf(a, 4096);
  const auto two = gaudi->export_dmabuf(b + 7, 10);
  ASSERT_TRUE(one && two);
  EXPECT_NE(one->fd.get(), two->fd.get());
  EXPECT_EQ(fcntl(one->fd.get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  EXPECT_EQ(two->base_addr, test::fake_driver::first_va);
  EXPECT_EQ(two->offset, b + 7 - test::fake_driver::first_va);
  EXPECT_EQ(gaudi->export_dmabuf(a, 4097).code(), -FI_EINVAL);
  EXPECT_EQ(gaudi->export_dmabuf(a, 0).code(), -FI_EINVAL);
  EXPECT_EQ(gaudi->export_dmabuf(1, 1).code(), -FI_ENOENT);
}

TEST_F(a_device, exports_anew_what_was_closed_for_want_of_descriptors) {
  const auto a = allocate(4096);
  EXPECT_FALSE(gaudi->memory().close_dmabufs());
  EXPECT_CALL(driver.library, export_dmabuf(_, _, _, _, _)).Times(2);
  const auto one = gaudi->export_dmabuf(a, 4096);
  EXPECT_TRUE(gaudi->memory().close_dmabufs());
  EXPECT_FALSE(gaudi->memory().close_dmabufs());
  EXPECT_EQ(fcntl(one->fd.get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC) << "the caller's own";
  EXPECT_TRUE(gaudi->export_dmabuf(a, 4096));
  EXPECT_EQ(gaudi->counted().exports.value(), 2U);
}

TEST_F(a_device, says_when_the_driver_cannot_export) {
  const auto a = allocate(4096);
  EXPECT_CALL(driver.library, export_dmabuf(_, _, _, _, _)).WillOnce(Return(-EOPNOTSUPP));
  EXPECT_EQ(gaudi->export_dmabuf(a, 4096).code(), -FI_EOPNOTSUPP);
}

TEST_F(a_device, keeps_a_page_that_someone_still_imports) {
  const auto a = allocate(page), b = allocate(page);
  driver.someone_holds_exports = true;
  EXPECT_TRUE(gaudi->free(a));
  EXPECT_TRUE(gaudi->free(b));
  EXPECT_EQ(driver.pages_used(), 2U);
  const auto again = allocate(page);  // usable all the while
  EXPECT_EQ(driver.pages_used(), 2U);
  driver.someone_holds_exports = false;
  EXPECT_TRUE(gaudi->free(again));
  EXPECT_EQ(driver.pages_used(), 1U);
}

TEST_F(a_device, a_failed_map_frees_the_allocation) {
  EXPECT_CALL(driver.library, device_memory_map(_, _, _)).WillOnce(SetErrnoAndReturn(ENOMEM, 0));
  EXPECT_EQ(gaudi->allocate(4096).code(), -FI_ENOMEM);
  EXPECT_EQ(driver.pages_used(), 0U);
}

class ranges : public a_device {
 protected:
  static constexpr std::uint64_t map_base = 0x1001500000000000;
  static constexpr std::uint64_t map_len = 16 * granule;
};

TEST_F(ranges, are_found_pinned_and_released) {
  ASSERT_TRUE(gaudi->memory().adopt_range(map_base + granule, 100, map_base, map_len));
  const auto found = gaudi->find(map_base + granule + 1, 99);
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->adopted);
  EXPECT_EQ(found->map_base, map_base);
  EXPECT_EQ(gaudi->free(map_base + granule).code(), -FI_EINVAL);  // not ours to free
  {
    const auto pin = gaudi->pin(map_base + granule);
    ASSERT_TRUE(pin);
    EXPECT_EQ(gaudi->memory().release_range(map_base + granule).code(), -FI_EBUSY);
  }
  EXPECT_TRUE(gaudi->memory().release_range(map_base + granule));
  EXPECT_EQ(gaudi->memory().release_range(map_base + granule).code(), -FI_EINVAL);
}

TEST_F(ranges, of_one_mapping_share_its_export) {
  ASSERT_TRUE(gaudi->memory().adopt_range(map_base, 4096, map_base, map_len));
  ASSERT_TRUE(gaudi->memory().adopt_range(map_base + 4096, 4096, map_base, map_len));
  EXPECT_CALL(driver.library, export_dmabuf(_, map_base, map_len, 0, _)).Times(1);
  EXPECT_TRUE(gaudi->export_dmabuf(map_base, 1));
  EXPECT_TRUE(gaudi->memory().release_range(map_base));
  EXPECT_TRUE(gaudi->export_dmabuf(map_base + 4096, 1));
}

TEST_F(ranges, are_refused_outside_their_mapping) {
  const auto adopt = [&](std::uint64_t addr, std::uint64_t len) {
    return gaudi->memory().adopt_range(addr, len, map_base, map_len).code();
  };
  EXPECT_EQ(adopt(map_base, 0), -FI_EINVAL);
  EXPECT_EQ(adopt(map_base - 1, 10), -FI_EINVAL);
  EXPECT_EQ(adopt(map_base + map_len, 1), -FI_EINVAL);
  EXPECT_EQ(adopt(map_base + 1, map_len), -FI_EINVAL);
  EXPECT_EQ(adopt(map_base + 1, UINT64_MAX), -FI_EINVAL);
  EXPECT_EQ(gaudi->memory().adopt_range(0x7f0000000000, 10, 0x7f0000000000, 10).code(), -FI_EINVAL);
}

TEST_F(ranges, are_refused_when_they_overlap) {
  ASSERT_TRUE(gaudi->memory().adopt_range(map_base, 100, map_base, map_len));
  EXPECT_EQ(gaudi->memory().adopt_range(map_base + 99, 1, map_base, map_len).code(), -EEXIST);
  EXPECT_EQ(gaudi->memory().adopt_range(map_base, 1, map_base, map_len).code(), -EEXIST);
  EXPECT_TRUE(gaudi->pin(map_base)) << "the first one is as it was";
  const auto a = allocate(4096);
  EXPECT_EQ(gaudi->memory().adopt_range(a, 1, a, 4096).code(), -EEXIST);
  EXPECT_EQ(gaudi->memory().adopt_range(a + granule, 1, a + granule, granule).code(), -EEXIST);
}

TEST_F(a_device, matches_a_model_over_random_allocations) {
  std::mt19937_64 random(2);
  std::map<std::uint64_t, std::uint64_t> model;
  for (int step = 0; step < 3000; ++step) {
    if (random() % 5 < 3 || model.empty()) {
      const std::uint64_t len = 1 + random() % (std::uint64_t{1} << (random() % 30));
      const auto addr = gaudi->allocate(len);
      if (!addr) {
        ASSERT_EQ(addr.code(), -FI_ENOMEM);
        continue;
      }
      ASSERT_EQ(*addr % granule, 0U);
      const auto next = model.lower_bound(*addr);
      ASSERT_TRUE(next == model.end() || *addr + len <= next->first);
      ASSERT_TRUE(next == model.begin() ||
                  std::prev(next)->first + std::prev(next)->second <= *addr);
      model[*addr] = len;
    } else {
      const auto victim = std::next(model.begin(), static_cast<long>(random() % model.size()));
      ASSERT_TRUE(gaudi->free(victim->first));
      ASSERT_EQ(gaudi->find(victim->first, 1).code(), -FI_ENOENT);
      model.erase(victim);
    }
    if (model.empty()) continue;
    const auto& [base, len] = *std::next(model.begin(), static_cast<long>(random() % model.size()));
    const auto found = gaudi->find(base + len - 1, 1);
    ASSERT_TRUE(found);
    ASSERT_EQ(found->base, base);
    ASSERT_EQ(found->len, len);
    ASSERT_LE(found->map_base, base);
    ASSERT_GE(found->map_base + found->map_len, base + len);
    ASSERT_EQ(gaudi->find(base, len + 1).code(), -FI_EINVAL);
  }
}

TEST_F(a_device, threads_allocate_pin_and_find_at_once) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (std::uint64_t round = 1; round < 200; ++round) {
        const std::uint64_t len = round * 4096 + static_cast<std::uint64_t>(t);
        const auto addr = gaudi->allocate(len);
        ASSERT_TRUE(addr);
        {
          const auto pin = gaudi->pin(*addr + len - 1);
          ASSERT_TRUE(pin);
          ASSERT_EQ(gaudi->find(*addr, len)->len, len);
          ASSERT_EQ(gaudi->free(*addr).code(), -FI_EBUSY);
        }
        ASSERT_TRUE(gaudi->free(*addr));
      }
    });
  for (auto& each : threads) each.join();
}

TEST_F(a_device, adopts_no_range_that_leaves_the_devices_addresses) {
  const std::uint64_t end = 0x1002000000000000;
  ASSERT_TRUE(is_device_address(end - 1) && !is_device_address(end));
  EXPECT_EQ(gaudi->memory().adopt_range(end - granule, granule, end - granule, granule + 1).code(),
            -FI_EINVAL);
  EXPECT_TRUE(gaudi->memory().adopt_range(end - granule, granule, end - granule, granule));
  EXPECT_TRUE(gaudi->memory().release_range(end - granule));
}

TEST(device_addresses, are_told_from_host_addresses) {
  const int on_stack = 0;
  EXPECT_FALSE(is_device_address(reinterpret_cast<std::uintptr_t>(&on_stack)));
  EXPECT_FALSE(is_device_address(0));
  EXPECT_TRUE(is_device_address(0x1001001800000000));
  EXPECT_FALSE(is_device_address(0x1002000000000000));
  EXPECT_TRUE(is_device_address(0x0201002000000000));
  EXPECT_FALSE(is_device_address(0xFFF0000000000000));  // host memory as the device sees it
}

}  // namespace
}  // namespace gaudi::device
