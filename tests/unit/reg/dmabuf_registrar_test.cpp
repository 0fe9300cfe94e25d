// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What a domain keeps of its registrations, with a NIC that takes dma-bufs in name only.
#include "reg/dmabuf_registrar.hpp"

#include <fcntl.h>
#include <rdma/fi_errno.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "../device/fake_driver.hpp"
#include "descriptors.hpp"
#include "fake_nic.hpp"

namespace gaudi::reg {
namespace {

using base::dmabuf_choice;
using testing::_;

constexpr std::uint64_t page = test::fake_driver::page;
constexpr cache_limits ample{.count = 1000, .bytes = 1ULL << 50};

/// A domain's registrar and its NIC.
struct side {
  explicit side(const cache_limits& limits = ample, dmabuf_choice choice = dmabuf_choice::automatic,
                window_size windows = {}) {
    registrar.emplace(nic.core(), choice, limits, windows);
  }
  ~side() {
    registrar.reset();
    EXPECT_EQ(nic.live(), 0U);
  }
  side(const side&) = delete;
  side& operator=(const side&) = delete;

  test::fake_nic nic;
  std::optional<dmabuf_registrar> registrar;
};

/// What a memory region holds.
struct held {
  std::optional<device::allocation_pin> pin;
  registration known;
};

class registrar : public testing::Test {
 protected:
  registrar() {
    test::fake_nic::knows_dmabufs = true;
    device_ = *device::device::open(driver_.thunk(), device::device_spec{});
  }
  ~registrar() override {
    // The driver undoes by itself what a lost one had.
    const bool is_lost = device_ && device_->lost() != 0;
    device_.reset();
    EXPECT_EQ(driver_.open_descriptors(), 0);
    if (!is_lost) {
      EXPECT_EQ(driver_.mappings(), 0U);
    }
    EXPECT_EQ(test::open_descriptors(), descriptors_before_);
    test::fake_nic::knows_dmabufs = false;
  }

  held use(side& s, std::uint64_t address, std::uint64_t access = 0, std::uint64_t length = 1) {
    held h;
    h.pin.emplace(*device_->pin(address, length));
    auto got = s.registrar->obtain(*device_, h.pin->where(), length, access);
    if (got) h.known = *std::move(got);
    return h;
  }
  std::uint64_t allocate(std::uint64_t length = 4096) { return *device_->allocate(length); }
  std::vector<std::uint64_t> allocate_pages(int count) {
    std::vector<std::uint64_t> all;
    for (int i = 0; i < count; ++i) all.push_back(allocate(page));
    return all;
  }

  const long descriptors_before_ = test::open_descriptors();
  test::fake_driver driver_;
  std::shared_ptr<device::device> device_;
};

TEST_F(registrar, asks_driver_and_nic_once_for_all_regions_to_come) {
  side s;
  const auto a = allocate();
  EXPECT_CALL(driver_.library, export_dmabuf(_, _, _, _, _)).Times(1);
  const std::uint64_t key = use(s, a).known->key();
  for (std::uint64_t offset = 0; offset < 4096; ++offset)
    ASSERT_EQ(use(s, a + offset).known->key(), key);
  EXPECT_EQ(s.nic.asked(), 1U);
  const cache_counters now = s.registrar->cached();
  EXPECT_EQ(now.hits, 4096U);
  EXPECT_EQ(now.misses, 1U);
  EXPECT_EQ(now.made, 1U);
  EXPECT_EQ(now.idle_bytes, 4096U);
}

TEST_F(registrar, grants_no_more_access_than_was_asked_for) {
  side s;
  const auto a = allocate();
  std::vector<std::uint64_t> accesses;
  s.nic.made = [&](const auto& mr) {
    accesses.push_back(mr.access & (FI_REMOTE_READ | FI_REMOTE_WRITE));
  };
  for (int round = 0; round < 2; ++round) {
    use(s, a, FI_REMOTE_READ | FI_REMOTE_WRITE);
    use(s, a, FI_SEND);
    use(s, a, FI_REMOTE_READ | FI_READ);
  }
  EXPECT_THAT(accesses, testing::ElementsAre(FI_REMOTE_READ | FI_REMOTE_WRITE, 0, FI_REMOTE_READ));
}

TEST_F(registrar, keeps_nothing_where_the_cache_is_off) {
  side s({.count = 0, .bytes = 1ULL << 50});
  const auto a = allocate();
  {
    const held one = use(s, a);
    const held two = use(s, a);
    EXPECT_EQ(one.known.get(), two.known.get());
    EXPECT_EQ(s.nic.live(), 1U);
  }
  EXPECT_EQ(s.nic.live(), 0U);
  use(s, a);
  EXPECT_EQ(s.nic.asked(), 2U);
}

TEST_F(registrar, makes_room_when_the_nic_has_none_at_the_kth_registration) {
  constexpr unsigned count = 6;
  const auto all = allocate_pages(count);
  for (unsigned k = 1; k <= count; ++k) {
    side s;
    unsigned calls = 0;
    s.nic.refuse = [&] { return ++calls == k ? -FI_ENOMEM : 0; };
    for (unsigned i = 0; i < count; ++i)
      EXPECT_EQ(static_cast<bool>(use(s, all[i]).known), k != 1 || i != 0) << k << " " << i;
    EXPECT_EQ(s.registrar->refusals(), k == 1 ? 1U : 0U) << "only the first finds nothing to evict";
    EXPECT_EQ(s.registrar->cached().evictions, k == 1 ? 0U : 1U);
    EXPECT_EQ(s.nic.live(), count - 1);
  }
}

TEST_F(registrar, makes_room_when_an_export_fails_at_the_kth_call) {
  constexpr int count = 6;
  for (const int code : {EMFILE, ENFILE, ENOMEM, EIO}) {
    for (int k = 1; k <= count; ++k) {
      const auto all = allocate_pages(count);
      side s;
      int calls = 0;
      EXPECT_CALL(driver_.library, export_dmabuf(_, _, _, _, _))
          .WillRepeatedly([&](int, std::uint64_t, std::uint64_t, std::uint64_t, std::uint32_t) {
            return ++calls == k ? -code : memfd_create("fake-gaudi", MFD_CLOEXEC);
          });
      const bool retried = k != 1 && code != EIO;
      const bool by_evicting = retried && code == ENOMEM;  // else by closing descriptors
      for (int i = 0; i < count; ++i)
        EXPECT_EQ(static_cast<bool>(use(s, all[static_cast<std::size_t>(i)]).known),
                  retried || i + 1 != k)
            << code << " " << k << " " << i;
      EXPECT_EQ(s.registrar->refusals(), retried ? 0U : 1U);
      EXPECT_EQ(s.registrar->cached().evictions, by_evicting ? 1U : 0U);
      for (const auto address : all) EXPECT_TRUE(device_->free(address));
      EXPECT_EQ(s.nic.live(), 0U);
      // The next round exports anew.
      device_.reset();
      s.registrar.reset();
      device_ = *device::device::open(driver_.thunk(), device::device_spec{});
    }
  }
}

TEST_F(registrar, lives_with_a_nic_that_has_room_for_few) {
  for (const unsigned room : {1U, 2U, 3U}) {
    side s;
    s.nic.refuse = [&] { return s.nic.live() < room ? 0 : -FI_ENOMEM; };
    std::vector<std::uint64_t> all;
    for (int i = 0; i < 6; ++i) all.push_back(allocate());
    for (const auto address : all) EXPECT_TRUE(use(s, address).known);
    EXPECT_EQ(s.nic.live(), room);
    // Those that were used last are the ones that are left.
    const unsigned asked = s.nic.asked();
    for (unsigned i = 0; i < room; ++i) EXPECT_TRUE(use(s, all[5 - i]).known);
    EXPECT_EQ(s.nic.asked(), asked);

    std::vector<held> users;
    for (unsigned i = 0; i < room; ++i) users.push_back(use(s, all[i]));
    EXPECT_FALSE(use(s, all[5]).known) << "nothing is left to evict";
    EXPECT_EQ(s.registrar->refusals(), 1U);
    users.pop_back();
    EXPECT_TRUE(use(s, all[5]).known) << "want of room is not for good";
  }
}

TEST_F(registrar, fails_with_the_nic_s_error_where_staging_is_forbidden) {
  side s(ample, dmabuf_choice::on);
  const auto a = allocate();
  s.nic.refuse = [] { return -FI_ENOMEM; };
  EXPECT_EQ(s.registrar->obtain(*device_, *device_->find(a, 1), 1, 0).code(), -FI_ENOMEM);
  s.nic.refuse = [] { return -FI_EOPNOTSUPP; };
  EXPECT_EQ(s.registrar->obtain(*device_, *device_->find(a, 1), 1, 0).code(), -FI_EOPNOTSUPP);
  EXPECT_EQ(s.registrar->obtain(*device_, *device_->find(a, 1), 1, 0).code(), -FI_EOPNOTSUPP);
  EXPECT_EQ(s.nic.asked(), 2U) << "that one is for good";
}

TEST_F(registrar, a_free_ends_what_other_domains_keep_before_the_driver_gets_the_memory) {
  side here, there, bystander;
  const auto a = allocate(page);
  const auto b = allocate(page);
  for (side* s : {&here, &there}) {
    use(*s, a);
    use(*s, a, FI_REMOTE_READ);
    use(*s, b);
  }
  use(bystander, b);
  EXPECT_EQ(here.nic.live(), 3U);
  EXPECT_TRUE(device_->free(a));
  EXPECT_EQ(here.nic.live(), 1U);
  EXPECT_EQ(there.nic.live(), 1U);
  EXPECT_EQ(bystander.nic.live(), 1U);

  unsigned live_at_unmap = 99;
  EXPECT_CALL(driver_.library, memory_unmap(_, _)).WillOnce([&](int, std::uint64_t) {
    live_at_unmap = here.nic.live() + there.nic.live() + bystander.nic.live();
    return -EINVAL;  // keeps the page: it is asked for again at the end
  });
  EXPECT_TRUE(device_->free(b));
  EXPECT_EQ(live_at_unmap, 0U);
  testing::Mock::VerifyAndClearExpectations(&driver_.library);
}

TEST_F(registrar, a_user_keeps_memory_from_being_freed_and_an_idle_registration_does_not) {
  side s;
  const auto a = allocate();
  {
    const held user = use(s, a);
    EXPECT_EQ(device_->free(a).code(), -FI_EBUSY);
    EXPECT_EQ(s.nic.live(), 1U) << "nothing has been ended";
    EXPECT_EQ(use(s, a).known.get(), user.known.get());
  }
  EXPECT_TRUE(device_->free(a));
  EXPECT_EQ(s.nic.live(), 0U);
  EXPECT_EQ(s.registrar->cached().idle, 0U);
}

TEST_F(registrar, never_serves_an_old_registration_for_new_memory) {
  side s;
  const auto a = allocate();
  const std::uint64_t before = use(s, a).known->key();
  EXPECT_TRUE(device_->free(a));
  ASSERT_EQ(allocate(8192), a);
  EXPECT_NE(use(s, a).known->key(), before);
  EXPECT_EQ(s.registrar->cached().hits, 0U);
}

TEST_F(registrar, an_adopted_range_leaves_as_an_allocation_does) {
  constexpr std::uint64_t base = 0x1001500000000000;
  side s;
  ASSERT_TRUE(device_->memory().adopt_range(base, 4096, base, 65536));
  {
    const held user = use(s, base);
    EXPECT_EQ(device_->memory().release_range(base).code(), -FI_EBUSY);
  }
  EXPECT_EQ(s.nic.live(), 1U);
  EXPECT_TRUE(device_->memory().release_range(base));
  EXPECT_EQ(s.nic.live(), 0U);
}

TEST_F(registrar, a_device_that_is_lost_is_known_to_no_nic_any_more) {
  side s;
  const auto a = allocate(), b = allocate();
  use(s, a);
  {
    const held in_use = use(s, b);
    ASSERT_EQ(s.nic.live(), 2U);
    device_->lose(-FI_EIO, "of the test");
    EXPECT_EQ(s.nic.live(), 1U) << "the one in use alone";
  }
  EXPECT_EQ(s.nic.live(), 0U) << "with its last user";
  EXPECT_EQ(s.registrar->cached().idle, 0U);
}

TEST_F(registrar, a_device_lost_while_it_is_registered_is_not_kept) {
  side s;
  const auto a = allocate();
  s.nic.made = [&](const auto&) { device_->lose(-FI_EIO, "of the test"); };
  use(s, a);
  EXPECT_EQ(s.nic.live(), 0U);
}

TEST_F(registrar, one_range_that_the_nic_refuses_stages_no_other) {
  side s;
  const auto all = allocate_pages(5);
  s.nic.refuse = [&] { return -FI_EINVAL; };
  EXPECT_FALSE(use(s, all[0]).known);
  EXPECT_FALSE(use(s, all[1]).known);
  s.nic.refuse = [] { return 0; };
  EXPECT_TRUE(use(s, all[2]).known);
  s.nic.refuse = [&] { return -FI_EINVAL; };
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(use(s, all[3]).known);
  s.nic.refuse = [] { return 0; };
  EXPECT_TRUE(use(s, all[4]).known) << "what has worked may work again";
}

TEST_F(registrar, a_nic_that_refuses_the_first_ranges_is_not_asked_for_ever) {
  side s;
  const auto a = allocate();
  s.nic.refuse = [] { return -FI_EINVAL; };
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(use(s, a).known);
  EXPECT_EQ(s.nic.asked(), 3U);
}

TEST_F(registrar, a_domain_that_closes_drops_what_it_kept_and_hears_no_more) {
  side s;
  const auto a = allocate();
  use(s, a);
  s.registrar->forget_idle();
  EXPECT_EQ(s.nic.live(), 0U);
  use(s, a);
  s.registrar.reset();
  EXPECT_EQ(s.nic.live(), 0U);
  EXPECT_TRUE(device_->free(a));
}

TEST_F(registrar, the_device_stays_open_for_as_long_as_something_of_it_is_kept) {
  side s;
  use(s, allocate());
  int open_at_end = 0;
  s.nic.ended = [&](const auto&) { open_at_end = driver_.open_descriptors(); };
  device_.reset();
  EXPECT_EQ(driver_.open_descriptors(), 1);
  s.registrar.reset();
  EXPECT_EQ(open_at_end, 1);
  EXPECT_EQ(driver_.open_descriptors(), 0);
}

/// Windows of 64 KiB of an allocation that is a page of the driver's.
class in_windows : public registrar {
 protected:
  static constexpr std::uint64_t size = 65536;
  explicit in_windows(const cache_limits& limits = ample)
      : a_(allocate(page)), s_(limits, dmabuf_choice::automatic, window_size::at_least(size)) {}

  static const test::fake_nic::registered& known(const held& h) {
    return *static_cast<const test::fake_nic::registered*>(h.known->descriptor());
  }

  const std::uint64_t a_;
  side s_;
};

TEST_F(in_windows, a_long_allocation_is_exported_once_and_registered_where_it_is_used) {
  EXPECT_CALL(driver_.library, export_dmabuf(_, _, _, _, _)).Times(1);
  for (const std::uint64_t at : {0U, 1U, 65535U}) {
    const held h = use(s_, a_ + at);
    EXPECT_EQ(known(h).address, a_);
    EXPECT_EQ(known(h).length, size);
    EXPECT_EQ(known(h).offset, 0U);
  }
  const held other = use(s_, a_ + 5 * size + 100, 0, 1000);
  EXPECT_EQ(known(other).address, a_ + 5 * size);
  EXPECT_EQ(known(other).offset, 5 * size) << "in the same dma-buf";
  EXPECT_EQ(s_.nic.asked(), 2U);
  EXPECT_EQ(s_.registrar->cached().misses, 2U);
  EXPECT_EQ(s_.registrar->cached().hits, 2U);
  EXPECT_EQ(s_.registrar->cached().idle_bytes, size);
}

TEST_F(in_windows, a_range_across_a_border_is_in_one_of_them) {
  const held across = use(s_, a_ + size - 1, 0, 2);
  EXPECT_EQ(known(across).address, a_ + size / 2);
  EXPECT_EQ(known(across).length, size);
  const held longer = use(s_, a_ + 1, 0, 3 * size);
  EXPECT_LE(known(longer).address, a_ + 1);
  EXPECT_GE(known(longer).address + known(longer).length, a_ + 1 + 3 * size);
  const held whole = use(s_, a_, 0, page);
  EXPECT_EQ(known(whole).length, page);
}

TEST_F(in_windows, a_wider_one_that_is_there_serves_as_well) {
  const held whole = use(s_, a_, 0, page);
  const held part = use(s_, a_ + 3 * size + 7, 0, 100);
  EXPECT_EQ(part.known.get(), whole.known.get());
  EXPECT_EQ(s_.nic.asked(), 1U);
  EXPECT_EQ(s_.registrar->cached().hits, 1U);
  EXPECT_EQ(s_.registrar->cached().misses, 1U);
  EXPECT_NE(use(s_, a_, FI_REMOTE_READ).known.get(), whole.known.get()) << "another access";
}

TEST_F(in_windows, all_end_before_their_memory_does) {
  for (std::uint64_t at = 0; at < 64; ++at) use(s_, a_ + at * size, at % 2 ? FI_REMOTE_READ : 0);
  use(s_, a_ + size - 1, 0, 2);
  use(s_, a_, 0, page);
  EXPECT_GE(s_.nic.live(), 34U);
  {
    const held user = use(s_, a_ + 9 * size);
    EXPECT_EQ(device_->free(a_).code(), -FI_EBUSY);
  }
  EXPECT_TRUE(device_->free(a_));
  EXPECT_EQ(s_.nic.live(), 0U);
}

TEST_F(in_windows, each_goes_by_its_own_use) {
  side s({.count = 2, .bytes = ample.bytes}, dmabuf_choice::automatic, window_size::at_least(size));
  for (const std::uint64_t at : {0U, 1U, 2U, 1U, 3U}) use(s, a_ + at * size);
  EXPECT_EQ(s.nic.live(), 2U);
  EXPECT_EQ(s.registrar->cached().evictions, 2U);
  const unsigned asked = s.nic.asked();
  use(s, a_ + 1 * size);
  use(s, a_ + 3 * size);
  EXPECT_EQ(s.nic.asked(), asked);
  use(s, a_ + 2 * size);
  EXPECT_EQ(s.nic.asked(), asked + 1);
}

TEST_F(in_windows, one_is_made_where_the_nic_has_no_room_for_all) {
  s_.nic.refuse = [&] { return s_.nic.live() < 3 ? 0 : -FI_ENOMEM; };
  for (std::uint64_t at = 0; at < 20; ++at) EXPECT_TRUE(use(s_, a_ + at * size).known) << at;
  EXPECT_EQ(s_.nic.live(), 3U);
  EXPECT_EQ(s_.registrar->refusals(), 0U);
}

TEST(descriptors, are_never_more_than_allocations_and_suffice_with_64) {
  constexpr unsigned pages = 200;
  test::fake_nic::knows_dmabufs = true;
  test::fake_driver driver(pages);
  auto device = *device::device::open(driver.thunk(), {});
  const long before = test::open_descriptors();
  std::vector<std::uint64_t> all;
  {
    side s;
    std::optional<test::few_descriptors> limited(std::in_place);
    for (unsigned i = 0; i < pages; ++i) {
      all.push_back(*device->allocate(page));
      for (const std::uint64_t access : {0ULL, FI_REMOTE_READ}) {
        held h;
        h.pin.emplace(*device->pin(all.back()));
        auto got = s.registrar->obtain(*device, h.pin->where(), 1, access);
        EXPECT_TRUE(got && *got) << i;
        if (got) h.known = *std::move(got);
        if (i < 40) {
          EXPECT_LE(test::open_descriptors() - before, static_cast<long>(all.size()));
        }
      }
    }
    EXPECT_EQ(s.nic.live(), 2 * pages) << "none was driven out";
    EXPECT_EQ(s.registrar->refusals(), 0U);
    limited.reset();
    for (const auto address : all) EXPECT_TRUE(device->free(address));
    EXPECT_EQ(s.nic.live(), 0U);
  }
  EXPECT_LE(test::open_descriptors() - before, 1) << "of the mapping that is kept for the next";
  device.reset();
  EXPECT_LT(test::open_descriptors(), before) << "the device's own went, too";
  test::fake_nic::knows_dmabufs = false;
}

TEST_F(registrar, counts_each_device_apart) {
  driver_.bus_id = "0000:1a:00.0";
  const base::scoped_fd own(memfd_create("fake-gaudi", MFD_CLOEXEC));
  auto other = *device::device::adopt(driver_.thunk(), own.get());
  side s({.count = 2, .bytes = 1ULL << 50});
  const auto use_other = [&](std::uint64_t address) {
    held h;
    h.pin.emplace(*other->pin(address));
    h.known = *s.registrar->obtain(*other, h.pin->where(), 1, 0);
  };
  EXPECT_EQ(s.registrar->counted(*other).cached.misses, 0U) << "not wanted yet";
  const auto all = allocate_pages(3);
  for (const auto address : all) use(s, address);  // evicts the first
  use(s, all[2]);
  const auto b = *other->allocate(page);
  use_other(b);  // evicts the second
  s.nic.refuse = [] { return -FI_EACCES; };
  const auto c = *other->allocate(page);
  use_other(c);

  const registration_counters here = s.registrar->counted(*device_);
  EXPECT_EQ(here.cached.made, 3U);
  EXPECT_EQ(here.cached.misses, 3U);
  EXPECT_EQ(here.cached.hits, 1U);
  EXPECT_EQ(here.cached.evictions, 2U);
  EXPECT_EQ(here.cached.idle_bytes, page);
  EXPECT_EQ(here.refusals, 0U);
  EXPECT_EQ(here.last_refusal, 0);
  const registration_counters there = s.registrar->counted(*other);
  EXPECT_EQ(there.cached.made, 1U);
  EXPECT_EQ(there.cached.misses, 2U);
  EXPECT_EQ(there.cached.evictions, 0U);
  EXPECT_EQ(there.cached.idle_bytes, page);
  EXPECT_EQ(there.refusals, 1U);
  EXPECT_EQ(there.last_refusal, -FI_EACCES);
  EXPECT_EQ(s.registrar->cached().misses, 5U);
  EXPECT_EQ(s.registrar->cached().evictions, 2U);

  EXPECT_TRUE(other->free(b));
  EXPECT_TRUE(other->free(c));
  EXPECT_EQ(s.registrar->counted(*other).cached.idle, 0U);
  s.registrar.reset();
  other.reset();
}

/// Two domains with a thread each, which free each other's allocations, while both register them.
class racing : public registrar {
 protected:
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  static constexpr unsigned rounds = 25'000;  // of each thread
#else
  static constexpr unsigned rounds = 600'000;
#endif
  static constexpr std::size_t slots = 12;

  racing() : live_(2 * (rounds + slots) + 1) {
    for (auto& slot : addresses_) slot = allocate();
  }

  // A registration belongs to the allocation that is there when it is made: that is pinned then.
  void follow(side& s) {
    s.nic.made = [this](auto& mr) {
      mr.note = generation_at(mr.address);
      ++live_[mr.note - first_];
    };
    s.nic.ended = [this](const auto& mr) { --live_[mr.note - first_]; };
  }
  std::uint64_t generation_at(std::uint64_t address) {
    return device_->find(address, 1)->allocation_id;
  }
  void free_and_allocate(std::mt19937& random, std::atomic<std::uint64_t>& slot);
  void register_and_close(side& s, std::mt19937& random, std::uint64_t address);
  void work(side& s, unsigned seed);

  std::array<std::atomic<std::uint64_t>, slots> addresses_;
  std::vector<std::atomic<int>> live_;  // registrations of each generation
  std::uint64_t first_ = 0;             // the lowest generation
  std::atomic<unsigned> stale_{0}, late_{0}, lost_{0}, registered_{0}, freed_{0};
};

void racing::free_and_allocate(std::mt19937& random, std::atomic<std::uint64_t>& slot) {
  const std::uint64_t address = slot.exchange(0);
  if (address == 0) return;  // the other thread is at it
  const std::uint64_t generation = generation_at(address);
  const int code = device_->free(address).code();
  if (code == -FI_EBUSY) return slot.store(address);
  if (code != 0) ++lost_;
  if (live_[generation - first_] != 0) ++late_;
  ++freed_;
  slot.store(allocate(4096 * (1 + random() % 4)));
}

void racing::register_and_close(side& s, std::mt19937& random, std::uint64_t address) {
  auto pin = device_->pin(address);
  if (!pin) return;  // it is being freed
  held h;
  h.pin.emplace(*std::move(pin));
  const std::uint64_t access = random() % 2 ? FI_REMOTE_READ : 0;
  auto got = s.registrar->obtain(*device_, h.pin->where(), 1, access);
  if (!got || !*got) return static_cast<void>(++lost_);
  h.known = *std::move(got);
  const auto& mr = *static_cast<test::fake_nic::registered*>(h.known->descriptor());
  if (mr.note != h.pin->where().allocation_id || (mr.access & FI_REMOTE_READ) != access) ++stale_;
  ++registered_;
}

void racing::work(side& s, unsigned seed) {
  std::mt19937 random(seed);
  for (unsigned round = 0; round < rounds; ++round) {
    auto& slot = addresses_[random() % slots];
    if (random() % 3 == 0)
      free_and_allocate(random, slot);
    else
      register_and_close(s, random, slot);
  }
}

TEST_F(racing, domains_never_serve_what_is_gone) {
  first_ = generation_at(addresses_.front());
  side here({.count = 6, .bytes = 1 << 20}), there({.count = 9, .bytes = 40'000});
  follow(here);
  follow(there);
  std::thread other([&] { work(there, 1); });
  work(here, 2);
  other.join();
  EXPECT_EQ(stale_, 0U);
  EXPECT_EQ(late_, 0U) << "registrations that outlived their memory";
  EXPECT_EQ(lost_, 0U);
  EXPECT_GT(registered_, rounds / 2);
  EXPECT_GT(freed_, rounds / 4);
  EXPECT_GT(here.registrar->cached().hits, rounds / 100);
  EXPECT_GT(here.registrar->cached().evictions, rounds / 100);
}

}  // namespace
}  // namespace gaudi::reg
