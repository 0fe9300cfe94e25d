// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/common/ext_ops.hpp"

#include <unistd.h>

#include <cstring>
#include <vector>

#include "base/path_reasons.hpp"
#include "opened.hpp"

namespace gaudi::fi {
namespace {

class extension : public test::with_device {
 protected:
  fi_gaudi_ops& ops() { return o_.ops(); }
  fid_domain* domain() { return o_.domain.get(); }
  static std::uint64_t address(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }
};

TEST_F(extension, has_every_function_and_says_how_long_it_is) {
  const fi_gaudi_ops& all = ops();
  ASSERT_EQ(all.size, sizeof(fi_gaudi_ops));
  std::vector<void*> entries((sizeof all - sizeof all.size) / sizeof(void*));
  std::memcpy(entries.data(), &all.query_device, entries.size() * sizeof(void*));
  for (std::size_t i = 0; i < entries.size(); ++i) EXPECT_NE(entries[i], nullptr) << "entry " << i;
}

TEST_F(extension, tells_that_the_device_is_simulated) {
  fi_gaudi_device_attr attr{};
  ASSERT_EQ(ops().query_device(domain(), &attr), 0);
  EXPECT_STREQ(attr.name, "simulated Gaudi2");
  EXPECT_EQ(attr.generation, FI_GAUDI_GENERATION_2);
  EXPECT_TRUE(attr.simulated);
  EXPECT_TRUE(attr.owned);
  EXPECT_GT(attr.hbm_size, 0U);
  EXPECT_LE(attr.hbm_free, attr.hbm_size);
}

TEST_F(extension, allocates_apart_and_frees_once) {
  const auto a = allocate(5000);
  const auto b = allocate(5000);
  EXPECT_GE(std::max(a, b) - std::min(a, b), 5000U);
  std::uint64_t none = 0;
  EXPECT_EQ(ops().alloc(domain(), 0, &none), -FI_EINVAL);
  EXPECT_EQ(ops().alloc(domain(), UINT64_MAX, &none), -FI_ENOMEM);
  EXPECT_EQ(ops().free(domain(), a + 1), -FI_EINVAL);
  EXPECT_EQ(ops().free(domain(), a), 0);
  EXPECT_EQ(ops().free(domain(), a), -FI_EINVAL);
  EXPECT_EQ(ops().free(domain(), b), 0);
}

TEST_F(extension, copies_there_and_back) {
  const auto a = allocate(100'000);
  const auto b = allocate(100'000);
  std::vector<unsigned char> sent(100'000), back(100'000);
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<unsigned char>(i * 13 + 5);
  const std::uint64_t length = sent.size() - 7;
  ASSERT_EQ(ops().copy(domain(), a + 7, address(sent.data()), length, FI_GAUDI_HOST_TO_DEVICE), 0);
  ASSERT_EQ(ops().copy(domain(), b, a + 7, length, FI_GAUDI_DEVICE_TO_DEVICE), 0);
  ASSERT_EQ(ops().copy(domain(), address(back.data()), b, length, FI_GAUDI_DEVICE_TO_HOST), 0);
  EXPECT_EQ(std::memcmp(sent.data(), back.data(), length), 0);
  EXPECT_EQ(ops().copy(domain(), a, address(sent.data()), 0, FI_GAUDI_HOST_TO_DEVICE), 0);
  EXPECT_EQ(ops().copy(domain(), a + 8, address(sent.data()), 100'000, FI_GAUDI_HOST_TO_DEVICE),
            -FI_EINVAL);
  EXPECT_EQ(
      ops().copy(domain(), address(back.data()), address(sent.data()), 10, FI_GAUDI_HOST_TO_DEVICE),
      -FI_EINVAL);
}

TEST_F(extension, a_ticket_is_good_until_its_end_is_told) {
  const auto a = allocate(1 << 20);
  std::vector<unsigned char> sent(1 << 20, 0x5A), back(1 << 20);
  std::uint64_t there = 0;
  ASSERT_EQ(ops().copy_async(domain(), a, address(sent.data()), sent.size(),
                             FI_GAUDI_HOST_TO_DEVICE, &there),
            0);
  ASSERT_EQ(ops().copy_wait(domain(), there, -1), 0);
  EXPECT_EQ(ops().copy_wait(domain(), there, -1), -FI_EINVAL);
  EXPECT_EQ(ops().copy_test(domain(), there), -FI_EINVAL);
  std::uint64_t again = 0;
  ASSERT_EQ(ops().copy_async(domain(), address(back.data()), a, back.size(),
                             FI_GAUDI_DEVICE_TO_HOST, &again),
            0);
  EXPECT_NE(again, there);
  int ret = -FI_EAGAIN;
  while (ret == -FI_EAGAIN) ret = ops().copy_test(domain(), again);
  EXPECT_EQ(ret, 0);
  EXPECT_EQ(back, sent);
  EXPECT_EQ(ops().copy_test(domain(), again), -FI_EINVAL);
  EXPECT_EQ(ops().copy_test(domain(), UINT64_MAX), -FI_EINVAL);
}

TEST_F(extension, a_copy_still_under_way_may_be_left_to_the_domain_s_close) {
  const auto a = allocate(8 << 20);
  std::vector<unsigned char> sent(8 << 20, 1);
  std::uint64_t ticket = 0;
  ASSERT_EQ(ops().copy_async(domain(), a, address(sent.data()), sent.size(),
                             FI_GAUDI_HOST_TO_DEVICE, &ticket),
            0);
  EXPECT_EQ(fi_close(&o_.domain.release()->fid), 0);
}

TEST_F(extension, tells_where_an_address_is) {
  const auto a = allocate(10'000);
  fi_gaudi_addr_attr attr{};
  ASSERT_EQ(ops().query_addr(domain(), a + 100, 9900, &attr), 0);
  EXPECT_EQ(attr.alloc_base, a);
  EXPECT_GE(attr.alloc_len, 10'000U);
  EXPECT_EQ(attr.offset, 100U);
  EXPECT_FALSE(attr.adopted);
  EXPECT_EQ(ops().query_addr(domain(), a, 1 << 20, &attr), -FI_EINVAL);
  EXPECT_EQ(ops().query_addr(domain(), address(&attr), 1, &attr), -FI_ENOENT);
  EXPECT_EQ(ops().query_addr(domain(), 0, 1, &attr), -FI_ENOENT);
  ASSERT_EQ(ops().free(domain(), a), 0);
  EXPECT_EQ(ops().query_addr(domain(), a, 1, &attr), -FI_ENOENT);
}

TEST_F(extension, adopts_nothing_over_what_it_has) {
  const auto a = allocate(1 << 20);
  fi_gaudi_addr_attr attr{};
  ASSERT_EQ(ops().query_addr(domain(), a, 1, &attr), 0);
  const fi_gaudi_range overlapping{a, 4096, a, 1 << 20};
  EXPECT_NE(ops().adopt_range(domain(), &overlapping), 0);
  const fi_gaudi_range host{address(&attr), sizeof attr, address(&attr), sizeof attr};
  EXPECT_EQ(ops().adopt_range(domain(), &host), -FI_EINVAL);
  EXPECT_EQ(ops().release_range(domain(), a), -FI_EINVAL) << "allocated here, not adopted";
  EXPECT_EQ(ops().adopt_device(domain(), STDIN_FILENO), -FI_EINVAL) << "no Gaudi's descriptor";
  EXPECT_EQ(ops().free(domain(), a), 0);
}

TEST_F(extension, counts_paths_from_nothing) {
  fi_gaudi_path_stats stats{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  ASSERT_EQ(ops().path_stats(domain(), &stats), 0);
  EXPECT_EQ(stats.eager_ops + stats.direct_ops + stats.staged_ops + stats.cma_ops + stats.shm_ops +
                stats.engine_ops + stats.dmabuf_ipc_ops,
            0U);
}

TEST_F(extension, names_all_reasons_for_paths_however_few_there_is_room_for) {
  std::uint64_t count = 0;
  ASSERT_EQ(ops().path_reasons(domain(), nullptr, &count), 0);
  ASSERT_EQ(count, base::path_reason_count);
  std::vector<fi_gaudi_path_reason> reasons(count + 1, {nullptr, nullptr, 1});
  count = 2;
  ASSERT_EQ(ops().path_reasons(domain(), reasons.data(), &count), 0);
  EXPECT_EQ(count, base::path_reason_count);
  EXPECT_STREQ(reasons[1].name, "source_passes_dmabuf");
  EXPECT_EQ(reasons[2].name, nullptr) << "no room for a third";
  count = reasons.size();
  ASSERT_EQ(ops().path_reasons(domain(), reasons.data(), &count), 0);
  ASSERT_EQ(count, base::path_reason_count);
  for (std::size_t i = 0; i < count; ++i) {
    EXPECT_EQ(reasons[i].text, base::text_of(static_cast<base::path_reason>(i + 1)));
    EXPECT_EQ(reasons[i].transfers, 0U);
  }
}

TEST_F(extension, counts_no_cached_registrations_where_no_nic_makes_any) {
  const std::uint64_t a = allocate(4096);
  fi_gaudi_cache_stats stats{1, 1, 1, 1, 1, 1};
  ASSERT_EQ(ops().cache_stats(domain(), &stats), 0);
  EXPECT_EQ(stats.hits + stats.misses + stats.registrations + stats.evictions + stats.idle +
                stats.idle_bytes,
            0U);
  EXPECT_EQ(ops().free(domain(), a), 0);
}

TEST_F(extension, counts_what_the_engine_copies_each_way) {
  const auto a = allocate(1 << 16);
  std::vector<unsigned char> host(1 << 16);
  fi_gaudi_device_stats before{}, after{};
  ASSERT_EQ(ops().device_stats(domain(), &before), 0);
  ASSERT_EQ(ops().copy(domain(), a, address(host.data()), 5000, FI_GAUDI_HOST_TO_DEVICE), 0);
  ASSERT_EQ(ops().copy(domain(), address(host.data()), a, 300, FI_GAUDI_DEVICE_TO_HOST), 0);
  ASSERT_EQ(ops().copy(domain(), a + 8192, a, 70, FI_GAUDI_DEVICE_TO_DEVICE), 0);
  ASSERT_EQ(ops().device_stats(domain(), &after), 0);
  EXPECT_EQ(after.host_to_device_bytes - before.host_to_device_bytes, 5000U);
  EXPECT_EQ(after.device_to_host_bytes - before.device_to_host_bytes, 300U);
  EXPECT_EQ(after.device_to_device_bytes - before.device_to_device_bytes, 70U);
  EXPECT_EQ(after.copies - before.copies, 3U);
  EXPECT_EQ(after.staged_bytes + after.zero_copy_bytes,
            before.staged_bytes + before.zero_copy_bytes)
      << "the application's own copies are no messages";
  EXPECT_EQ(ops().free(domain(), a), 0);
}

TEST_F(extension, counts_one_export_for_all_allocations_of_a_mapping) {
  const auto a = allocate(4096);
  fi_gaudi_device_stats before{}, after{};
  ASSERT_EQ(ops().device_stats(domain(), &before), 0);
  for (int i = 0; i < 3; ++i) {
    fi_gaudi_dmabuf exported{};
    ASSERT_EQ(ops().export_dmabuf(domain(), a, 4096, &exported), 0);
    close(exported.fd);
  }
  ASSERT_EQ(ops().device_stats(domain(), &after), 0);
  EXPECT_LE(after.exports - before.exports, 1U) << "earlier cases may have made it";
  EXPECT_GE(after.exports, 1U);
  EXPECT_EQ(ops().free(domain(), a), 0);
}

TEST_F(extension, cuts_a_pool_into_pieces) {
  std::uint64_t pool = 0, a = 0, b = 0, none = 0;
  EXPECT_EQ(ops().pool_create(domain(), 0, FI_SEND, &pool), -FI_EINVAL);
  EXPECT_EQ(ops().pool_create(domain(), UINT64_MAX, FI_SEND, &pool), -FI_ENOMEM);
  ASSERT_EQ(ops().pool_create(domain(), 3 * 4096 - 1, FI_SEND | FI_RECV, &pool), 0);
  EXPECT_EQ(ops().pool_alloc(domain(), pool, 0, &none), -FI_EINVAL);
  ASSERT_EQ(ops().pool_alloc(domain(), pool, 5000, &a), 0);
  ASSERT_EQ(ops().pool_alloc(domain(), pool, 4096, &b), 0);
  EXPECT_EQ(b - a, 8192U);
  EXPECT_EQ(ops().pool_alloc(domain(), pool, 1, &none), -FI_ENOMEM);
  EXPECT_EQ(ops().pool_alloc(domain(), pool, UINT64_MAX, &none), -FI_ENOMEM);
  EXPECT_EQ(ops().pool_free(domain(), pool, a + 4096), -FI_EINVAL);
  EXPECT_EQ(ops().pool_destroy(domain(), pool), -FI_EBUSY);
  EXPECT_EQ(ops().free(domain(), a), -FI_EBUSY) << "the pool's";
  EXPECT_EQ(ops().pool_free(domain(), pool, a), 0);
  EXPECT_EQ(ops().pool_free(domain(), pool, a), -FI_EINVAL);
  EXPECT_EQ(ops().pool_free(domain(), pool, b), 0);
  for (const auto unknown : {pool + 1, std::uint64_t{0}}) {
    EXPECT_EQ(ops().pool_alloc(domain(), unknown, 1, &none), -FI_EINVAL);
    EXPECT_EQ(ops().pool_free(domain(), unknown, a), -FI_EINVAL);
    EXPECT_EQ(ops().pool_destroy(domain(), unknown), -FI_EINVAL);
  }
  EXPECT_EQ(fi_close(&domain()->fid), -FI_EBUSY) << "of a domain with pools";
  EXPECT_EQ(ops().pool_destroy(domain(), pool), 0);
  EXPECT_EQ(ops().pool_destroy(domain(), pool), -FI_EINVAL);
}

TEST_F(extension, counts_nothing_for_a_device_that_is_not_open) {
  devices().clear();
  fi_gaudi_device_stats stats;
  std::memset(&stats, 1, sizeof stats);
  ASSERT_EQ(ops().device_stats(domain(), &stats), 0);
  EXPECT_EQ(stats.exports + stats.copies + stats.host_to_device_bytes + stats.registrations, 0U);
  EXPECT_EQ(stats.last_refusal, 0);
  set_up("");
}

}  // namespace
}  // namespace gaudi::fi
