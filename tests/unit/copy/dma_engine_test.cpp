// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "copy/dma_engine.hpp"

#include <fcntl.h>
#include <rdma/fi_errno.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <set>
#include <vector>

#include "../proto/logged_warnings.hpp"
#include "base/scoped_fd.hpp"
#include "copy/copier.hpp"
#include "fake_engine.hpp"

namespace gaudi::copy {
namespace {

using testing::_;
using testing::Return;

constexpr std::uint64_t dst = 0x1001001800000000, src = 0x1001001900000000;

class engine_test : public testing::Test {
 protected:
  void SetUp() override {
    auto made = dma_engine::for_device(fake.open());
    ASSERT_TRUE(made);
    engine = *made;
  }
  void TearDown() override {
    fake.finish_all();
    // The driver undoes what a lost one had.
    const int left = engine && engine->owner()->lost() != 0 ? fake.host_maps : 0;
    engine.reset();
    EXPECT_EQ(fake.host_maps, left);
    EXPECT_EQ(fake.driver.open_descriptors(), 0);
  }
  ticket submit(direction dir = direction::host_to_device) {
    const auto copy = engine->submit(dst, src, 4096, dir);
    EXPECT_TRUE(copy);
    return copy ? *copy : ticket{};
  }

  test::fake_engine fake;
  std::shared_ptr<dma_engine> engine;
};

TEST_F(engine_test, is_one_per_device) {
  EXPECT_EQ(*dma_engine::for_device(engine->owner()), engine);
}

TEST_F(engine_test, writes_one_packet_with_the_copy) {
  submit();
  ASSERT_EQ(fake.submitted.size(), 1U);
  ASSERT_EQ(fake.submitted[0].packets.size(), 1U);
  const auto& packet = fake.submitted[0].packets[0];
  EXPECT_EQ(packet.size, 4096U);
  EXPECT_EQ(packet.src, src);
  EXPECT_EQ(packet.dst, dst);
  EXPECT_EQ((packet.ctl >> 24) & 0x1f, 9U);  // LIN_DMA
}

TEST_F(engine_test, counts_what_it_was_given_for_as_long_as_the_device_is_open) {
  submit(direction::host_to_device);
  submit(direction::device_to_host);
  submit(direction::device_to_host);
  ASSERT_TRUE(engine->submit(dst, src, 100, direction::device_to_device));
  ASSERT_TRUE(engine->submit(dst, src, 0, direction::device_to_device));
  const auto owner = engine->owner();
  fake.finish_all();
  engine.reset();
  const device::counters& counted = owner->counted();
  EXPECT_EQ(counted.copies.value(), 4U);
  EXPECT_EQ(counted.host_to_device_bytes.value(), 4096U);
  EXPECT_EQ(counted.device_to_host_bytes.value(), 8192U);
  EXPECT_EQ(counted.device_to_device_bytes.value(), 100U);
}

TEST_F(engine_test, takes_the_directions_queues_in_turn) {
  std::set<std::uint32_t> up, down;
  for (int i = 0; i < 8; ++i) {
    submit(direction::host_to_device);
    up.insert(fake.submitted.back().queue);
    submit(direction::device_to_host);
    down.insert(fake.submitted.back().queue);
  }
  for (const auto queue : up) EXPECT_LE(queue, 3U);
  for (const auto queue : down) EXPECT_TRUE(queue >= 4 && queue <= 7);
  EXPECT_GT(up.size(), 1U);
  EXPECT_GT(down.size(), 1U);
}

TEST_F(engine_test, splits_what_a_packet_cannot_hold) {
  constexpr std::uint64_t len = (5ULL << 30) + 12345;
  ASSERT_TRUE(engine->submit(dst, src, len, direction::device_to_device));
  std::uint64_t done = 0;
  for (const auto& packet : fake.submitted.at(0).packets) {
    EXPECT_EQ(packet.src, src + done);
    EXPECT_EQ(packet.dst, dst + done);
    EXPECT_LE(packet.size, 1U << 31);
    done += packet.size;
  }
  EXPECT_EQ(done, len);
  EXPECT_EQ(engine->submit(dst, src, 1ULL << 40, direction::device_to_device).code(), -FI_EINVAL);
}

TEST_F(engine_test, nothing_to_copy_is_done_at_once) {
  const auto copy = engine->submit(dst, src, 0, direction::host_to_device);
  ASSERT_TRUE(copy);
  EXPECT_EQ(engine->poll(*copy), 0);
  EXPECT_TRUE(fake.submitted.empty());
}

TEST_F(engine_test, a_ticket_is_good_until_its_end_is_told) {
  const auto copy = submit();
  EXPECT_EQ(engine->poll(copy), -FI_EAGAIN);
  EXPECT_EQ(engine->wait(copy, 0), -FI_ETIMEDOUT);
  fake.finish_all();
  EXPECT_EQ(engine->poll(copy), 0);
  EXPECT_EQ(engine->poll(copy), -FI_EINVAL);
  const auto next = submit();  // the same slot: the old ticket must not name it
  EXPECT_EQ(engine->poll(copy), -FI_EINVAL);
  EXPECT_EQ(engine->poll(next), -FI_EAGAIN);
  EXPECT_EQ(engine->poll(ticket{0xffffff}), -FI_EINVAL);
}

TEST_F(engine_test, waits_for_ever_when_asked) {
  const auto copy = submit();
  int asked = 0;
  EXPECT_CALL(fake.driver.library, wait_for_cs(_, _, _, _))
      .WillRepeatedly([&](int, std::uint64_t, std::uint64_t timeout_us, std::uint32_t* status) {
        EXPECT_GT(timeout_us, 0U);
        *status = ++asked < 3 ? 1 : 0;
        return 0;
      });
  EXPECT_EQ(engine->wait(copy, -1), 0);
  EXPECT_EQ(asked, 3);
}

TEST_F(engine_test, stays_below_the_drivers_limit_and_goes_on_after) {
  std::vector<ticket> tickets;
  for (;;) {
    const auto copy = engine->submit(dst, src, 64, direction::host_to_device);
    if (!copy) {
      EXPECT_EQ(copy.code(), -FI_EAGAIN);
      break;
    }
    tickets.push_back(*copy);
    ASSERT_LT(tickets.size(), 64U);
  }
  fake.finish_all();
  EXPECT_EQ(engine->poll(tickets[5]), 0);
  EXPECT_TRUE(engine->submit(dst, src, 64, direction::host_to_device));
  EXPECT_EQ(engine->submit(dst, src, 64, direction::host_to_device).code(), -FI_EAGAIN);
}

// Below what the driver takes, where one more would make the library spin.
TEST_F(engine_test, has_every_slot_but_those_kept_for_who_waits_at_once) {
  constexpr std::size_t slots = 48, kept = 8;
  std::size_t taken = 0;
  while (engine->submit(dst, src, 64, direction::host_to_device)) ++taken;
  EXPECT_EQ(taken, slots - kept);
  const copy_part one{dst, src, 64};
  while (engine->submit_urgently({&one, 1}, direction::host_to_device)) ++taken;
  EXPECT_EQ(taken, slots);
}

TEST_F(engine_test, polls_with_one_call_and_no_waiting) {
  const auto copy = submit();
  EXPECT_CALL(fake.driver.library, wait_for_cs(_, 1, 0, _)).Times(1);
  EXPECT_EQ(engine->poll(copy), -FI_EAGAIN);
  testing::Mock::VerifyAndClearExpectations(&fake.driver.library);
}

TEST(no_engine, a_lost_device_has) {
  test::fake_engine fake;
  const auto owner = fake.open();
  owner->lose(-FI_EIO, "of the test");
  EXPECT_EQ(dma_engine::for_device(owner).code(), -FI_EIO);
}

// The device may still write to the memory until then.
TEST(engine_end, waits_for_the_copies_under_way_and_no_others) {
  test::fake_engine fake;
  auto engine = *dma_engine::for_device(fake.open());
  const auto done = engine->submit(dst, src, 64, direction::host_to_device);
  fake.finish_all();
  ASSERT_EQ(engine->poll(*done), 0);
  const auto pending = engine->submit(dst, src, 64, direction::host_to_device);
  ASSERT_TRUE(pending);
  int asked = 0;
  ON_CALL(fake.driver.library, wait_for_cs(_, _, _, _))
      .WillByDefault([&](int, std::uint64_t number, std::uint64_t, std::uint32_t* status) {
        EXPECT_EQ(number, 2U);
        *status = ++asked < 3 ? 1 : 0;
        return 0;
      });
  engine.reset();
  EXPECT_EQ(asked, 3);
}

// What can be pinned no more is not asked for again, nor taken for a short time.
TEST(engine_table, has_the_default_for_pins_where_one_was_refused) {
  test::fake_engine fake;
  const auto engine = *dma_engine::for_device(fake.open());
  ON_CALL(fake.driver.library, wait_for_cs(_, _, _, _))
      .WillByDefault([](int, std::uint64_t, std::uint64_t, std::uint32_t* status) {
        *status = static_cast<std::uint32_t>(hl::cs_status::completed);
        return 0;
      });
  int pins = 0, refused = 0;
  ON_CALL(fake.driver.library, host_memory_map(_, _, _, _))
      .WillByDefault([&](int, void* at, std::uint64_t, std::uint64_t) -> std::uint64_t {
        if (++pins == 1) return reinterpret_cast<std::uintptr_t>(at);
        ++refused;
        errno = ENOMEM;
        return 0;
      });
  ON_CALL(fake.driver.library, memory_unmap(_, _)).WillByDefault(Return(0));
  EXPECT_EQ(engine->table()[direction::host_to_device].pin, copy_row{}.pin);
  EXPECT_GE(pins, 1);
  EXPECT_LE(refused, 1);
}

struct death {
  int rc;
  hl::cs_status status;
  int expected;
};

class engine_death : public engine_test, public testing::WithParamInterface<death> {};

TEST_P(engine_death, fails_every_pending_copy_and_every_later_one) {
  const auto a = submit(), b = submit();
  EXPECT_CALL(fake.driver.library, wait_for_cs(_, _, _, _))
      .WillOnce([&](int, std::uint64_t, std::uint64_t, std::uint32_t* status) {
        *status = static_cast<std::uint32_t>(GetParam().status);
        return GetParam().rc;
      });  // and never again: a dead engine makes no calls
  EXPECT_EQ(engine->poll(a), GetParam().expected);
  EXPECT_EQ(engine->poll(b), GetParam().expected);
  EXPECT_EQ(engine->poll(b), -FI_EINVAL);
  EXPECT_EQ(engine->submit(dst, src, 64, direction::host_to_device).code(), GetParam().expected);
}

INSTANTIATE_TEST_SUITE_P(causes, engine_death,
                         testing::Values(death{0, hl::cs_status::aborted, -FI_EIO},
                                         death{-EIO, hl::cs_status::aborted, -FI_EIO},
                                         death{-ETIMEDOUT, hl::cs_status::timed_out, -FI_EIO},
                                         death{-EBUSY, hl::cs_status::completed,
                                               -FI_EIO},  // in reset
                                         death{-ENODEV, hl::cs_status::completed, -FI_ENODEV}));

// It makes no difference that the driver says nothing.
TEST(engine_patience, ends_with_a_copy_that_does_not) {
  for (const bool waiting : {false, true}) {
    test::fake_engine fake;
    const auto engine = dma_engine::for_device(
        fake.open(), {.timeout = std::chrono::milliseconds{20}, .table = {}});
    ASSERT_TRUE(engine);
    const auto a = (*engine)->submit(dst, src, 64, direction::host_to_device);
    const auto b = (*engine)->submit(dst, src, 64, direction::host_to_device);
    ASSERT_TRUE(a && b);
    int rc = waiting ? (*engine)->wait(*a, -1) : -FI_EAGAIN;
    while (rc == -FI_EAGAIN) rc = (*engine)->poll(*a);
    EXPECT_EQ(rc, -FI_EIO);
    EXPECT_EQ((*engine)->owner()->lost(), -FI_EIO);
    EXPECT_CALL(fake.driver.library, wait_for_cs(_, _, _, _)).Times(0);
    EXPECT_EQ((*engine)->poll(*b), -FI_EIO);
  }
}

// A copy that hangs may still read or write what it was given.
TEST(engine_table, has_defaults_where_copies_do_not_end_and_their_memory_is_kept) {
  test::fake_engine fake;
  auto made = dma_engine::for_device(fake.open());
  ASSERT_TRUE(made);
  std::shared_ptr<dma_engine> engine = *std::move(made);
  const copy_table& table = engine->table();
  for (const direction dir : all_directions) EXPECT_FALSE(table[dir].is_measured());
  EXPECT_EQ(fake.submitted.size(), 1U);
  EXPECT_EQ(&engine->table(), &table);
  EXPECT_EQ(fake.submitted.size(), 1U) << "asked once";
  EXPECT_GT(fake.host_maps, 1) << "what the copy reads is still pinned";
  EXPECT_EQ(engine->owner()->counted().copies.value(), 0U);
  EXPECT_TRUE(engine->submit(dst, src, 4096, direction::host_to_device));
  fake.finish_all();
  engine.reset();
  EXPECT_EQ(fake.driver.open_descriptors(), 0);
}

TEST(engine_table, is_the_users_where_nothing_is_to_be_measured) {
  test::fake_engine fake;
  const auto engine = dma_engine::for_device(
      fake.open(), {.table = *base::copy_overrides::parse("off;h2d:pin=64K;d2h:chunk=8K")});
  ASSERT_TRUE(engine);
  const copy_table& table = (*engine)->table();
  EXPECT_EQ(table[direction::host_to_device].pin, 64U << 10);
  EXPECT_EQ(table[direction::device_to_host].chunk, 8U << 10);
  EXPECT_EQ(table[direction::device_to_host].pin, copy_row{}.pin);
  EXPECT_TRUE(fake.submitted.empty());
}

/// The application's, whose copies are over as soon as they are looked at.
class adopted_engine : public testing::Test {
 protected:
  void adopt() {
    ON_CALL(fake.driver.library, wait_for_cs(_, _, _, _))
        .WillByDefault([](int, std::uint64_t, std::uint64_t, std::uint32_t* status) {
          *status = static_cast<std::uint32_t>(hl::cs_status::completed);
          return 0;
        });
    const auto adopted = device::device::adopt(fake.driver.thunk(), application.get());
    ASSERT_TRUE(adopted);
    const auto made = dma_engine::for_device(*adopted);
    ASSERT_TRUE(made);
    engine = *made;
  }

  test::fake_engine fake;
  base::scoped_fd application{memfd_create("the-applications", MFD_CLOEXEC)};
  std::shared_ptr<dma_engine> engine;
};

TEST_F(adopted_engine, is_measured_and_the_memory_is_the_applications_again) {
  adopt();
  const auto before = engine->owner()->hbm_free();
  static_cast<void>(engine->table());
  EXPECT_FALSE(fake.submitted.empty());
  EXPECT_EQ(*engine->owner()->hbm_free(), *before);
  EXPECT_EQ(engine->owner()->counted().copies.value(), 0U);
}

TEST_F(adopted_engine, is_left_alone_while_its_memory_is_short) {
  adopt();
  std::vector<std::uint64_t> all;
  for (auto at = engine->owner()->allocate(1 << 20); at;
       at = engine->owner()->allocate(test::fake_driver::page))
    all.push_back(*at);
  EXPECT_CALL(fake.driver.library, device_memory_alloc(_, _, _, _, _)).Times(0);
  static_cast<void>(engine->table());
  EXPECT_TRUE(fake.submitted.empty());
  for (const auto at : all) EXPECT_TRUE(engine->owner()->free(at));
}

// What is free there only the application knows.
TEST_F(adopted_engine, of_a_gaudi1_has_the_defaults_without_a_warning) {
  fake.driver.pci_id = 0x1000;
  fake.driver.dram_base = 0x20000000;
  adopt();
  const proto::test::logged_warnings logged;
  static_cast<void>(engine->table());
  EXPECT_EQ(logged.text(), "");
  EXPECT_TRUE(fake.submitted.empty());
}

TEST_F(engine_test, dies_of_a_submission_to_a_device_in_reset) {
  EXPECT_CALL(fake.driver.library, command_submission(_, _, _)).WillOnce(Return(-EBUSY));
  EXPECT_EQ(engine->submit(dst, src, 64, direction::host_to_device).code(), -FI_EIO);
  EXPECT_EQ(engine->submit(dst, src, 64, direction::host_to_device).code(), -FI_EIO);
}

TEST_F(engine_test, fails_what_is_pending_when_somebody_else_has_noticed) {
  const auto copy = submit();
  engine->owner()->lose(-FI_ENODEV, "of the test");
  EXPECT_CALL(fake.driver.library, wait_for_cs(_, _, _, _)).Times(0);
  EXPECT_EQ(engine->poll(copy), -FI_ENODEV);
}

TEST_F(engine_test, survives_a_submission_for_which_memory_is_short) {
  EXPECT_CALL(fake.driver.library, command_submission(_, _, _))
      .WillOnce(Return(-ENOMEM))
      .WillRepeatedly(testing::DoDefault());
  EXPECT_EQ(engine->submit(dst, src, 64, direction::host_to_device).code(), -FI_ENOMEM);
  submit();
}

TEST(no_engine, a_gaudi3_has_and_nothing_is_asked_of_its_driver) {
  test::fake_driver driver;
  driver.pci_id = 0x1060;
  EXPECT_CALL(driver.library, host_memory_map(_, _, _, _)).Times(0);
  EXPECT_CALL(driver.library, command_submission(_, _, _)).Times(0);
  const auto opened = device::device::open(driver.thunk(), {});
  ASSERT_TRUE(opened);
  EXPECT_EQ(dma_engine::for_device(*opened).code(), -FI_EOPNOTSUPP);
  EXPECT_EQ(copier::for_device(*opened).code(), -FI_EOPNOTSUPP);
  std::uint64_t host = 0;
  EXPECT_EQ(copy_sync(*opened, *(*opened)->allocate(8), reinterpret_cast<std::uint64_t>(&host), 8,
                      direction::host_to_device)
                .code(),
            -FI_EOPNOTSUPP);
  EXPECT_EQ((*opened)->counted().copies.value(), 0U);
}

// What it is measured with must not keep the device from being opened anew.
TEST_F(engine_test, that_hangs_while_it_is_measured_leaves_nothing_that_the_user_had_to_free) {
  static_cast<void>(engine->table());
  const auto owner = engine->owner();
  EXPECT_GT(fake.submitted.size(), 0U);
  owner->lose(-FI_ETIMEDOUT, "of the test");
  EXPECT_TRUE(owner->is_vacant());
}

/// What ends a device in the middle of its calibration: the answer to a look at a copy.
using calibration_end = std::function<int(device::device&, std::uint32_t& status)>;

class lost_in_calibration : public testing::TestWithParam<calibration_end> {};

// Its engine is still there, and has what the device was to be measured with.
TEST_P(lost_in_calibration, is_opened_anew_and_measured) {
  test::fake_engine fake;
  const auto selected = *device::device_spec::parse(fake.driver.bus_id);
  const auto lost = *device::device::open(fake.driver.thunk(), selected);
  auto engine = *dma_engine::for_device(lost);
  unsigned looks = 0;
  ON_CALL(fake.driver.library, wait_for_cs(_, _, _, _))
      .WillByDefault([&](int, std::uint64_t, std::uint64_t, std::uint32_t* status) {
        *status = static_cast<std::uint32_t>(hl::cs_status::completed);
        return ++looks >= 10 && lost->lost() == 0 ? GetParam()(*lost, *status) : 0;
      });
  const copy_table& before = engine->table();
  ASSERT_GE(looks, 10U);
  EXPECT_FALSE(before[direction::device_to_device].is_measured());
  lost->lose(-FI_ETIMEDOUT, "of the test");
  EXPECT_TRUE(lost->is_vacant()) << "nobody has anything to free";

  const auto anew = device::device::open(fake.driver.thunk(), selected);
  ASSERT_TRUE(anew);
  ASSERT_NE(*anew, lost);
  EXPECT_EQ((*anew)->lost(), 0);
  const auto next = *dma_engine::for_device(*anew);
  ASSERT_NE(next, engine);
  const auto submitted = fake.submitted.size();
  static_cast<void>(next->table());
  EXPECT_GT(fake.submitted.size(), submitted + 10) << "it is measured; what of, a mock cannot say";
  EXPECT_EQ((*anew)->lost(), 0);
  engine.reset();
  EXPECT_TRUE((*anew)->allocate(4096));
}

INSTANTIATE_TEST_SUITE_P(by, lost_in_calibration,
                         testing::Values(
                             // Its driver aborts a copy.
                             [](device::device&, std::uint32_t& status) {
                               status = static_cast<std::uint32_t>(hl::cs_status::aborted);
                               errno = EIO;
                               return -EIO;
                             },
                             // Somebody else notices first, and the copy does not end.
                             [](device::device& d, std::uint32_t& status) {
                               d.lose(-FI_ENODEV, "of the test");
                               status = static_cast<std::uint32_t>(hl::cs_status::busy);
                               return 0;
                             },
                             // It hangs, which the calibration does not wait for.
                             [](device::device&, std::uint32_t& status) {
                               status = static_cast<std::uint32_t>(hl::cs_status::busy);
                               return 0;
                             },
                             // Somebody else notices, at the end of the copy.
                             [](device::device& d, std::uint32_t&) {
                               d.lose(-FI_EIO, "of the test");
                               return 0;
                             }));

// As long again as the driver gives a copy by default: what has not ended by then never will.
TEST(engine_end, gives_up_a_copy_that_never_ends) {
  constexpr std::uint64_t drivers_limit_us = 30'000'000;
  test::fake_engine fake;
  auto engine = *dma_engine::for_device(fake.open());
  ASSERT_TRUE(engine->submit(dst, src, 64, direction::host_to_device));
  std::uint64_t waited_us = 0;
  ON_CALL(fake.driver.library, wait_for_cs(_, _, _, _))
      .WillByDefault([&](int, std::uint64_t, std::uint64_t timeout_us, std::uint32_t* status) {
        waited_us += timeout_us;
        *status = static_cast<std::uint32_t>(hl::cs_status::busy);
        return 0;
      });
  engine.reset();
  EXPECT_EQ(waited_us, 2 * drivers_limit_us);
}

}  // namespace
}  // namespace gaudi::copy
