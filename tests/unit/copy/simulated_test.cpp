// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The device and copy rooms on the stand-in library, end to end: the bytes are compared.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <rdma/fi_errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "copy/copier.hpp"

namespace gaudi::copy {
namespace {

using bytes = std::vector<unsigned char>;

std::uint64_t address(const void* p) {
  return reinterpret_cast<std::uintptr_t>(p);
}

bytes random_bytes(std::size_t len, unsigned seed) {
  std::mt19937_64 random(seed);
  bytes data(len);
  for (auto& each : data) each = static_cast<unsigned char>(random());
  return data;
}

/// As the stand-in is asked to be.
int generation() {
  const char* text = std::getenv("HLSIM_GENERATION");
  return text != nullptr ? std::atoi(text) : 2;
}

/// Devices of this test process alone, so that tests run side by side.
class simulated : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder() = (std::filesystem::temp_directory_path() / "hlsim-copy-XXXXXX").string();
    ASSERT_NE(mkdtemp(folder().data()), nullptr);
    setenv("HLSIM_DIR", folder().c_str(), 1);
    setenv("HLSIM_REORDER", "1", 1);
    auto loaded = hl::thunk::load(GAUDI_HLSIM);
    ASSERT_TRUE(loaded);
    library() = *loaded;
    ASSERT_FALSE(library()->simulated().empty());
    auto opened = device::device::open(library(), {});
    ASSERT_TRUE(opened);
    gaudi() = *opened;
  }
  static void TearDownTestSuite() {
    gaudi().reset();
    library().reset();
    std::filesystem::remove_all(folder());
  }
  static std::string& folder() {
    static std::string name;
    return name;
  }
  static std::shared_ptr<const hl::thunk>& library() {
    static std::shared_ptr<const hl::thunk> one;
    return one;
  }
  static std::shared_ptr<device::device>& gaudi() {
    static std::shared_ptr<device::device> one;
    return one;
  }

  std::uint64_t allocate(std::uint64_t len) {
    const auto addr = gaudi()->allocate(len);
    EXPECT_TRUE(addr) << fi_strerror(-addr.code());
    return addr ? *addr : 0;
  }
};

TEST_F(simulated, says_that_it_is) {
  EXPECT_EQ(gaudi()->attributes().name, "simulated Gaudi" + std::to_string(generation()));
  EXPECT_TRUE(gaudi()->attributes().simulated);
  EXPECT_TRUE(gaudi()->attributes().owned);
  EXPECT_EQ(gaudi()->attributes().generation, generation());
}

TEST_F(simulated, is_counted_without_being_opened) {
  const auto count = device::count_devices(*library());
  ASSERT_TRUE(count);
  EXPECT_GE(*count, 1U);
}

TEST_F(simulated, opening_it_again_in_the_process_gives_the_same_one) {
  for (const auto& text :
       {gaudi()->attributes().bus_id, std::to_string(gaudi()->attributes().index),
        "module:" + std::to_string(gaudi()->attributes().module_id)}) {
    const auto which = device::device_spec::parse(text);
    ASSERT_TRUE(which) << text;
    const auto again = device::device::open(library(), *which);
    ASSERT_TRUE(again) << text;
    EXPECT_EQ(*again, gaudi()) << text;
  }
}

TEST_F(simulated, a_device_that_is_not_there_is_enodev) {
  for (const char* text : {"200", "module:200", "0000:ff:1f.7"})
    EXPECT_EQ(device::device::open(library(), *device::device_spec::parse(text)).code(), -FI_ENODEV)
        << text;
}

TEST_F(simulated, allocations_share_a_page_and_are_device_addresses) {
  const auto a = allocate(1), b = allocate(100'000);
  EXPECT_TRUE(device::may_be_device_address(a) && device::may_be_device_address(b));
  EXPECT_EQ(device::is_device_address(a), generation() != 1);
  EXPECT_EQ(a % 4096, 0U);
  EXPECT_EQ(gaudi()->find(a, 1)->map_base, gaudi()->find(b, 1)->map_base);
  EXPECT_TRUE(gaudi()->free(a) && gaudi()->free(b));
  EXPECT_EQ(gaudi()->find(a, 1).code(), -FI_ENOENT);
}

TEST_F(simulated, full_memory_is_enomem_and_comes_back) {
  const auto before = gaudi()->hbm_free();
  ASSERT_TRUE(before);
  EXPECT_EQ(gaudi()->allocate(UINT64_MAX).code(), -FI_ENOMEM);
  std::vector<std::uint64_t> all;
  const std::uint64_t step = gaudi()->attributes().hbm_size / 8;
  for (;;) {
    const auto addr = gaudi()->allocate(step);
    if (!addr) {
      EXPECT_EQ(addr.code(), -FI_ENOMEM);
      break;
    }
    all.push_back(*addr);
  }
  EXPECT_GE(all.size(), 7U);
  for (const auto addr : all) EXPECT_TRUE(gaudi()->free(addr));
  EXPECT_EQ(*gaudi()->hbm_free(), *before);
}

TEST_F(simulated, round_trips_of_random_sizes_and_alignments_keep_every_byte) {
  constexpr std::size_t room = 12 << 20;
  const auto a = allocate(room), b = allocate(room);
  const auto keep = copier::for_device(gaudi());
  ASSERT_TRUE(keep);
  std::mt19937 random(3);
  for (int round = 0; round < 60; ++round) {
    const std::size_t limit = std::size_t{1} << (random() % 24);
    const std::size_t len = 1 + random() % std::min(limit, room - 4096);
    const std::size_t skew = random() % 4096, host_skew = random() % 64;
    SCOPED_TRACE(testing::Message() << "len " << len << " skew " << skew << "/" << host_skew);
    const bytes sent = random_bytes(len + host_skew, static_cast<unsigned>(round));
    bytes got(len + host_skew + 1, 0xee);
    ASSERT_TRUE(
        (*keep)->copy(a + skew, address(sent.data() + host_skew), len, direction::host_to_device));
    ASSERT_TRUE((*keep)->copy(b + skew, a + skew, len, direction::device_to_device));
    ASSERT_TRUE(
        (*keep)->copy(address(got.data() + host_skew), b + skew, len, direction::device_to_host));
    ASSERT_TRUE(std::equal(sent.begin() + static_cast<long>(host_skew), sent.end(),
                           got.begin() + static_cast<long>(host_skew)));
    ASSERT_EQ(got.back(), 0xee);
    ASSERT_TRUE(std::all_of(got.begin(), got.begin() + static_cast<long>(host_skew),
                            [](auto c) { return c == 0xee; }));
  }
  EXPECT_TRUE(gaudi()->free(a) && gaudi()->free(b));
}

// As fast as the machine copies, so only bounds are known; a busy machine may measure nothing.
TEST_F(simulated, is_measured_on_memory_of_its_own_that_is_given_back) {
  const auto before = gaudi()->hbm_free();
  const auto counted = gaudi()->counted().copies.value();
  const auto engine = dma_engine::for_device(gaudi());
  ASSERT_TRUE(engine && before);
  const copy_table& table = (*engine)->table();
  for (const direction dir : all_directions) {
    EXPECT_LT(table[dir].bytes_per_ns, 1000) << name_of(dir);
    EXPECT_LE(table[dir].each_ns, table[dir].latency_ns) << name_of(dir);
    EXPECT_GE(table[dir].pin, 64U << 10) << name_of(dir);
    EXPECT_GE(table[dir].split, 64U << 10) << name_of(dir);
  }
  EXPECT_EQ(*gaudi()->hbm_free(), *before);
  EXPECT_EQ(gaudi()->counted().copies.value(), counted);
}

TEST_F(simulated, copies_from_memory_that_cannot_be_pinned) {
  constexpr std::size_t len = 9 << 20;
  void* page = mmap(nullptr, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  const bytes data = random_bytes(len, 5);
  std::copy(data.begin(), data.end(), static_cast<unsigned char*>(page));
  ASSERT_EQ(mprotect(page, len, PROT_READ), 0);
  const auto a = allocate(len);
  ASSERT_TRUE(copy_sync(gaudi(), a, address(page), len, direction::host_to_device));
  bytes got(len);
  ASSERT_TRUE(copy_sync(gaudi(), address(got.data()), a, len, direction::device_to_host));
  EXPECT_EQ(got, data);
  EXPECT_TRUE(gaudi()->free(a));
  munmap(page, len);
}

TEST_F(simulated, refuses_ranges_that_are_not_what_they_are_said_to_be) {
  const auto a = allocate(4096);
  bytes host(8192);
  const auto at = address(host.data());
  const auto try_copy = [&](std::uint64_t dst, std::uint64_t src, std::uint64_t len,
                            direction dir) {
    return copy_sync(gaudi(), dst, src, len, dir).code();
  };
  EXPECT_EQ(try_copy(a, at, 4097, direction::host_to_device), -FI_EINVAL);
  EXPECT_EQ(try_copy(at, at, 16, direction::host_to_device), -FI_EINVAL);
  EXPECT_EQ(try_copy(a, a, 16, direction::host_to_device), -FI_EINVAL);
  EXPECT_EQ(try_copy(a, 0, 16, direction::host_to_device), -FI_EINVAL);
  EXPECT_EQ(try_copy(a, a, 16, direction::device_to_host), -FI_EINVAL);
  EXPECT_EQ(try_copy(at, a, 4097, direction::device_to_host), -FI_EINVAL);
  EXPECT_EQ(try_copy(a, at, 16, direction::device_to_device), -FI_EINVAL);
  EXPECT_EQ(try_copy(a, at, 0, direction::host_to_device), 0);
  EXPECT_TRUE(gaudi()->free(a));  // nothing holds it
}

TEST_F(simulated, an_allocation_is_held_while_a_copy_uses_it) {
  const auto a = allocate(8 << 20);
  bytes host(8 << 20);
  const auto keep = copier::for_device(gaudi());
  auto copying = (*keep)->start(a, address(host.data()), host.size(), direction::host_to_device);
  ASSERT_TRUE(copying);
  const int early = gaudi()->free(a).code();
  if (early == 0) {
    // Only right if the copy had ended in start already.
    EXPECT_EQ((*copying)->poll(), 0);
    return;
  }
  EXPECT_EQ(early, -FI_EBUSY);
  EXPECT_EQ((*copying)->wait(-1), 0);
  EXPECT_EQ((*copying)->poll(), 0);
  EXPECT_TRUE(gaudi()->free(a));
}

TEST_F(simulated, more_copies_than_slots_end_in_any_order_of_waiting) {
  constexpr std::size_t count = 200, len = 3000;
  const auto a = allocate(count * len);
  const bytes data = random_bytes(count * len, 8);
  bytes got(data.size());
  const auto keep = copier::for_device(gaudi());
  const auto all = [&](bool to_device) {
    std::vector<std::unique_ptr<operation>> copies;
    for (std::size_t i = 0; i < count; ++i) {
      const auto dev = a + i * len;
      auto started =
          to_device
              ? (*keep)->start(dev, address(data.data() + i * len), len, direction::host_to_device)
              : (*keep)->start(address(got.data() + i * len), dev, len, direction::device_to_host);
      ASSERT_TRUE(started);
      copies.push_back(*std::move(started));
    }
    for (std::size_t i = count; i-- > 0;) ASSERT_EQ(copies[i]->wait(-1), 0);
  };
  all(true);
  all(false);
  EXPECT_EQ(got, data);
  EXPECT_TRUE(gaudi()->free(a));
}

TEST_F(simulated, the_copier_gets_on_while_others_fill_the_engine) {
  const auto a = allocate(1 << 20), b = allocate(1 << 20);
  const auto keep = copier::for_device(gaudi());
  auto& engine = *(*keep)->engine();
  std::vector<ticket> tickets;
  for (;;) {
    const auto copy = engine.submit(b, a, 64, direction::device_to_device);
    if (!copy) {
      EXPECT_EQ(copy.code(), -FI_EAGAIN);
      break;
    }
    tickets.push_back(*copy);
  }
  EXPECT_LT(tickets.size(), 64U);
  bytes host(1 << 20);
  EXPECT_TRUE((*keep)->copy(address(host.data()), a, host.size(), direction::device_to_host));
  for (const auto each : tickets) EXPECT_EQ(engine.wait(each, -1), 0);
  for (const auto each : tickets) EXPECT_EQ(engine.poll(each), -FI_EINVAL);  // used up
  EXPECT_TRUE(gaudi()->free(a) && gaudi()->free(b));
}

TEST_F(simulated, threads_share_the_copier) {
  constexpr std::size_t len = 1 << 20;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      const auto a = allocate(len);
      for (unsigned round = 0; round < 10; ++round) {
        const bytes sent = random_bytes(len - 7 * round, t * 100 + round);
        bytes got(sent.size());
        ASSERT_TRUE(
            copy_sync(gaudi(), a, address(sent.data()), sent.size(), direction::host_to_device));
        ASSERT_TRUE(
            copy_sync(gaudi(), address(got.data()), a, got.size(), direction::device_to_host));
        ASSERT_EQ(got, sent);
      }
      ASSERT_TRUE(gaudi()->free(a));
    });
  for (auto& each : threads) each.join();
}

TEST_F(simulated, bounce_chunks_reach_the_device) {
  bounce_pool pool(gaudi(), {.chunk_size = 64 * 1024, .chunks_per_slab = 2, .limit = 3});
  const auto engine = dma_engine::for_device(gaudi());
  ASSERT_TRUE(engine);
  auto* out = pool.acquire();
  auto* in = pool.acquire();
  auto* other = pool.acquire();
  ASSERT_TRUE(out != nullptr && in != nullptr && other != nullptr);
  EXPECT_EQ(pool.acquire(), nullptr);
  const auto a = allocate(out->size);
  const bytes data = random_bytes(out->size, 6);
  std::memcpy(out->host, data.data(), data.size());
  const auto up = (*engine)->submit(a, out->device_va, out->size, direction::host_to_device);
  ASSERT_TRUE(up);
  ASSERT_EQ((*engine)->wait(*up, -1), 0);
  const auto down = (*engine)->submit(in->device_va, a, in->size, direction::device_to_host);
  ASSERT_TRUE(down);
  ASSERT_EQ((*engine)->wait(*down, -1), 0);
  EXPECT_EQ(std::memcmp(in->host, data.data(), data.size()), 0);
  for (auto* each : {out, in, other}) pool.release(each);
  EXPECT_TRUE(gaudi()->free(a));
}

TEST_F(simulated, an_export_holds_the_page_until_the_descriptor_goes) {
  const auto a = allocate(8192);
  auto exported = gaudi()->export_dmabuf(a + 100, 50);
  ASSERT_TRUE(exported) << fi_strerror(-exported.code());
  EXPECT_EQ(exported->base_addr, gaudi()->find(a, 1)->map_base);
  EXPECT_EQ(exported->base_addr + exported->offset, a + 100);
  EXPECT_EQ(exported->len, 50U);
  EXPECT_TRUE(gaudi()->free(a));
  exported->fd.reset();
  EXPECT_EQ(gaudi()->export_dmabuf(a, 1).code(), -FI_ENOENT);
}

/// A device beside the suite's, and what the stand-in can do to it.
class simulated_loss : public simulated {
 protected:
  void SetUp() override { victim = open(); }
  static std::shared_ptr<device::device> open() {
    auto opened = device::device::open(library(), *device::device_spec::parse("1"));
    EXPECT_TRUE(opened) << fi_strerror(-opened.code());
    return opened ? *opened : nullptr;
  }
  static void inject(const char* event) {
    const auto call = reinterpret_cast<int (*)(int, int*)>(
        dlsym(dlopen(GAUDI_HLSIM, RTLD_NOW | RTLD_NOLOAD), event));
    ASSERT_NE(call, nullptr);
    const auto control = library()->open_control(1);
    ASSERT_TRUE(control);
    int number = 0;
    EXPECT_EQ(call(*control, &number), 0);
  }
  static void expect_copies(const std::shared_ptr<device::device>& on) {
    const bytes sent = random_bytes(100'000, 9);
    bytes got(sent.size());
    const auto at = on->allocate(sent.size());
    ASSERT_TRUE(at);
    EXPECT_TRUE(copy_sync(on, *at, address(sent.data()), sent.size(), direction::host_to_device));
    EXPECT_TRUE(copy_sync(on, address(got.data()), *at, got.size(), direction::device_to_host));
    EXPECT_EQ(sent, got);
    EXPECT_TRUE(on->free(*at));
  }

  std::shared_ptr<device::device> victim;
};

TEST_F(simulated_loss, is_heard_of_while_nothing_is_under_way) {
  const auto keep = copier::for_device(victim);
  ASSERT_TRUE(keep);
  expect_copies(victim);
  const auto at = victim->allocate(4096);
  ASSERT_TRUE(at);
  inject("hlthunk_err_inject_fatal_event");
  while (victim->lost() == 0) std::this_thread::yield();
  EXPECT_EQ(victim->lost(), -FI_EIO);
  bytes host(4096);
  EXPECT_EQ((*keep)->copy(*at, address(host.data()), host.size(), direction::host_to_device).code(),
            -FI_EIO);
  EXPECT_TRUE(victim->free(*at));
  // Neither the old device nor its copier, which are still here, are in the way.
  const auto anew = open();
  ASSERT_NE(anew, victim);
  expect_copies(anew);
}

TEST_F(simulated_loss, does_not_come_of_lesser_events) {
  inject("hlthunk_err_inject_non_fatal_event");
  expect_copies(victim);
  EXPECT_EQ(victim->lost(), 0);
}

}  // namespace
}  // namespace gaudi::copy
