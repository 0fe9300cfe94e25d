// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "device/device_registry.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <rdma/fi_errno.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/outstanding_page.hpp"
#include "many_devices.hpp"

namespace gaudi::device {
namespace {

TEST(device_registry, without_a_library_says_so_and_has_no_device) {
  device_registry empty;
  EXPECT_EQ(empty.current({.library = "/nonexistent.so", .device = ""}).code(), -FI_ENOSYS);
  EXPECT_EQ(empty.library("/nonexistent.so").code(), -FI_ENOSYS);
  EXPECT_EQ(empty.opened(), nullptr);
  EXPECT_EQ(empty.find_owner(0x1001001800000000).owner, nullptr);
  EXPECT_FALSE(empty.find_owner(0x1001001800000000).several);
}

TEST(device_registry, a_list_that_does_not_parse_is_einval) {
  device_registry empty;
  for (const char* text : {"gpu", "0,,1"}) {
    EXPECT_EQ(empty.current({.library = "/nonexistent.so", .device = text}).code(), -FI_EINVAL);
    EXPECT_EQ(empty.count({.library = "/nonexistent.so", .device = text}).code(), -FI_EINVAL);
  }
  EXPECT_EQ(empty.count(), 0U);
}

TEST(device_registry, counts_a_list_without_the_library) {
  device_registry some;
  EXPECT_EQ(*some.count({.library = "/nonexistent.so", .device = "3,0,module:1"}), 3U);
  EXPECT_EQ(some.count(), 3U);
  device_registry of_all;
  EXPECT_EQ(of_all.count({.library = "/nonexistent.so", .device = "all"}).code(), -FI_ENOSYS);
}

TEST(device_registry, refuses_a_list_that_is_too_long) {
  std::string text = "0";
  for (unsigned i = 1; i <= device_registry::max_devices; ++i) text += ",0";
  device_registry some;
  EXPECT_EQ(some.count({.library = "/nonexistent.so", .device = text}).code(), -FI_EINVAL);
}

TEST(device_registry, takes_a_list_of_as_many_as_there_can_be) {
  std::string text = "0";
  for (unsigned i = 1; i < device_registry::max_devices; ++i) text += ",0";
  device_registry some;
  EXPECT_EQ(*some.count({.library = "/nonexistent.so", .device = text}),
            device_registry::max_devices);
}

TEST_F(many_devices, are_numbered_by_the_list) {
  const auto how = listing("3,module:5,0000:19:00.0");
  EXPECT_EQ(open(2, how)->attributes().index, 0);
  EXPECT_EQ(all_.opened(0), nullptr) << "each is opened when it is asked for";
  EXPECT_EQ(open(0, how)->attributes().index, 3);
  EXPECT_EQ(open(1, how)->attributes().index, 5);
  EXPECT_EQ(all_.opened(0), *all_.current(how));
  EXPECT_EQ(all_.at(3, how).code(), -FI_EINVAL);
  EXPECT_EQ(all_.at(device_registry::max_devices, how).code(), -FI_EINVAL);
  EXPECT_EQ(all_.opened(3), nullptr);
  EXPECT_EQ(all_.opened(UINT32_MAX), nullptr);
}

TEST_F(many_devices, all_lists_every_one) {
  const auto how = listing("all");
  EXPECT_EQ(*all_.count(how), 8U);
  std::set<std::shared_ptr<device>> seen;
  for (unsigned n = 0; n < 8; ++n) {
    const auto one = open(n, how);
    EXPECT_EQ(one->attributes().index, static_cast<int>(n));
    seen.insert(one);
  }
  EXPECT_EQ(seen.size(), 8U);
}

TEST_F(many_devices, the_same_address_on_two_is_nobodys_alone) {
  const auto how = listing("all");
  device& first = *open(0, how);
  const std::uint64_t address = allocate(first, 4096);
  EXPECT_EQ(all_.find_owner(address).owner, &first);
  device& second = *open(1, how);
  EXPECT_EQ(all_.find_owner(address).owner, &first) << "the second has nothing there";
  ASSERT_EQ(allocate(second, 8192), address) << "simulated as the driver does it";
  EXPECT_EQ(all_.find_owner(address).owner, nullptr);
  EXPECT_TRUE(all_.find_owner(address).several);
  EXPECT_TRUE(all_.is_known(address));
  EXPECT_EQ(all_.find_owner(address + 4096).owner, &second) << "beyond the first one's allocation";
  std::set<device*> told;
  all_.each_owner(address, [&](device& one) { told.insert(&one); });
  EXPECT_EQ(told, (std::set<device*>{&first, &second}));
  EXPECT_TRUE(first.free(address));
  EXPECT_EQ(all_.find_owner(address).owner, &second);
  EXPECT_FALSE(all_.find_owner(address).several);
  EXPECT_TRUE(second.free(address));
  EXPECT_FALSE(all_.is_known(address));
}

TEST_F(many_devices, one_that_is_lost_is_opened_anew_in_its_own_place) {
  const auto how = listing("all");
  const auto lost = open(2, how), before = open(1, how), after = open(3, how);
  lost->lose(-FI_EIO, "of the test");
  const auto anew = open(2, how);
  ASSERT_TRUE(anew);
  EXPECT_NE(anew, lost);
  EXPECT_EQ(all_.opened(2), anew);
  EXPECT_EQ(all_.opened(1), before);
  EXPECT_EQ(all_.opened(3), after);
}

TEST_F(many_devices, come_from_one_library) {
  EXPECT_EQ(*all_.library(GAUDI_HLSIM), *all_.library(GAUDI_HLSIM));
}

TEST_F(many_devices, are_there_after_a_library_was_missing_and_all_is_cleared) {
  EXPECT_EQ(all_.library("/nonexistent.so").code(), -FI_ENOSYS);
  EXPECT_EQ(all_.library(GAUDI_HLSIM).code(), -FI_ENOSYS) << "said once";
  all_.clear();
  EXPECT_TRUE(all_.library(GAUDI_HLSIM));
}

// Only Synapse, which this process does not use, would have acquired one.
TEST_F(many_devices, none_is_opened_for_an_address_that_nobody_knows) {
  device_registry& all = device_registry::instance();
  {
    const device_registry::user uses(all, listing("all"));
    EXPECT_EQ(all.find_or_attach(0x1001001800000000).owner, nullptr);
    for (unsigned n = 0; n < 8; ++n) EXPECT_EQ(all.opened(n), nullptr);
  }
  all.clear();
}

TEST_F(many_devices, one_named_twice_is_one) {
  const auto how = listing("1,module:1");
  device& first = *open(0, how);
  EXPECT_EQ(open(1, how).get(), &first);
  const std::uint64_t address = allocate(first, 4096);
  EXPECT_EQ(all_.find_owner(address).owner, &first);
  EXPECT_TRUE(first.free(address));
}

TEST_F(many_devices, one_that_is_taken_leaves_the_others) {
  std::ofstream(folder() + "/fault") << "1:busy";
  const auto how = listing("all");
  EXPECT_EQ(all_.at(1, how).code(), -FI_EBUSY);
  EXPECT_TRUE(open(0, how));
  EXPECT_TRUE(open(2, how));
  std::filesystem::remove(folder() + "/fault");
  EXPECT_TRUE(open(1, how)) << "it may be free later";
}

/// Whether a thread of this process sleeps.
bool sleeps(int thread) {
  std::ifstream stat("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string number, name, state;
  stat >> number >> name >> state;
  return state == "S";
}

/// What another process would find in this one's page of calls that open a device.
std::vector<base::outstanding::record> openings_shown() {
  using namespace base::outstanding;
  std::vector<record> all(record_count);
  const std::size_t size = all.size() * sizeof(record);
  EXPECT_EQ(::pread(page::instance().fd(), all.data(), size, header_size),
            static_cast<ssize_t>(size));
  std::erase_if(all, [](const record& r) {
    return r.kind != record_kind::call ||
           r.type != static_cast<std::uint8_t>(call_kind::open_device);
  });
  return all;
}

TEST_F(many_devices, one_in_reset_holds_up_no_other) {
  std::ofstream(folder() + "/fault") << "1:in-reset";
  auto how = listing("all");
  how.reset_timeout = std::chrono::minutes(1);
  ASSERT_TRUE(all_.count(how));
  std::atomic<int> thread{0};
  std::atomic<bool> is_over{false};
  base::result<std::shared_ptr<device>> waited = base::error{-FI_EOTHER};
  std::thread waiting([&] {
    thread = gettid();
    waited = all_.at(1, how);
    is_over = true;
  });
  while (!is_over && (thread == 0 || !sleeps(thread))) std::this_thread::yield();
  EXPECT_FALSE(is_over);
  const auto shown = openings_shown();
  ASSERT_EQ(shown.size(), 1U) << "to who asks why the process does not get on";
  EXPECT_EQ(shown[0].device, 1);
  EXPECT_EQ(shown[0].total, 0U) << "it is about no memory";
  const auto other = open(2, how);
  ASSERT_TRUE(other);
  EXPECT_TRUE(other->free(allocate(*other, 4096)));
  EXPECT_EQ(*all_.count(how), 8U);
  EXPECT_EQ(all_.opened(1), nullptr);
  std::filesystem::remove(folder() + "/fault");
  waiting.join();
  EXPECT_TRUE(waited);
  EXPECT_EQ(all_.opened(1), *waited);
}

TEST_F(many_devices, one_that_is_adopted_while_another_is_opened_takes_its_place) {
  std::ofstream(folder() + "/fault") << "1:in-reset";
  auto how = listing("0000:1a:00.0");
  how.reset_timeout = std::chrono::minutes(1);
  std::atomic<int> thread{0};
  std::atomic<bool> is_over{false};
  base::result<std::shared_ptr<device>> got = base::error{-FI_EOTHER};
  std::thread opening([&] {
    thread = gettid();
    got = all_.at(0, how);
    is_over = true;
  });
  while (!is_over && (thread == 0 || !sleeps(thread))) std::this_thread::yield();
  const int fd = open_elsewhere("0000:1b:00.0");
  EXPECT_EQ(*all_.adopt(how, fd), 0U);
  const auto adopted = all_.opened(0);
  std::filesystem::remove(folder() + "/fault");
  opening.join();
  ASSERT_TRUE(got);
  EXPECT_EQ(*got, adopted);
  EXPECT_EQ(all_.opened(0), adopted);
  all_.clear();
  close(fd);
}

TEST_F(many_devices, a_control_node_is_not_adopted) {
  const auto how = listing("all");
  const auto library = all_.library(GAUDI_HLSIM);
  ASSERT_TRUE(library);
  const auto control = (*library)->open_control(2);
  ASSERT_TRUE(control);
  EXPECT_EQ(all_.adopt(how, *control).code(), -FI_EINVAL);
  (*library)->close(*control);
  EXPECT_TRUE(open(2, how)->attributes().owned);
}

TEST_F(many_devices, one_that_the_application_has_open_is_used_beside_the_others) {
  const int fd = open_elsewhere("0000:1a:00.0");
  const auto how = listing("all");
  const auto apps = open(1, how), own = open(2, how);
  ASSERT_TRUE(apps && own);
  EXPECT_FALSE(apps->attributes().owned);
  EXPECT_NE(apps->fd(), fd) << "a duplicate";
  EXPECT_TRUE(own->attributes().owned);
  allocate(*apps, 4096);
  EXPECT_EQ(*all_.adopt(how, fd), 1U) << "found already";
  close(fd);
}

TEST_F(many_devices, one_of_the_applications_that_is_lost_is_found_when_it_is_opened_anew) {
  const auto how = listing("0000:1b:00.0");
  for (const bool is_handed_over : {false, true}) {
    const int fd = open_elsewhere("0000:1b:00.0");
    if (is_handed_over) {
      EXPECT_EQ(*all_.adopt(how, fd), 0U);
    }
    const auto lost = open(0, how);
    ASSERT_TRUE(lost);
    EXPECT_EQ(lost->was_found(), !is_handed_over);
    const std::uint64_t address = allocate(*lost, 4096);
    lost->lose(-FI_EIO, "of the test");
    EXPECT_EQ(all_.at(0, how).code(), -FI_EIO) << "it has memory there";
    EXPECT_TRUE(lost->free(address));
    EXPECT_EQ(all_.at(0, how).code(), -FI_EIO) << "the same open file";
    close(fd);
    EXPECT_EQ(all_.at(0, how).code(), -FI_EIO) << "the application's to open";
    const int again = open_elsewhere("0000:1b:00.0");
    const auto anew = open(0, how);
    ASSERT_TRUE(anew);
    EXPECT_NE(anew, lost);
    EXPECT_FALSE(anew->attributes().owned);
    EXPECT_EQ(*all_.adopt(how, again), 0U) << "handed over late";
    EXPECT_TRUE(anew->free(allocate(*anew, 4096)));
    EXPECT_EQ(lost->allocate(4096).code(), -FI_EIO);
    close(again);
    all_.clear();
  }
}

TEST_F(many_devices, an_adopted_one_is_used_though_the_application_closes_its_descriptor) {
  const int fd = open_elsewhere("0000:1b:00.0");
  const auto how = listing("0000:1b:00.0");
  EXPECT_EQ(*all_.adopt(how, fd), 0U);
  const auto adopted = open(0, how);
  close(fd);
  const base::scoped_fd other(::open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_EQ(other.get(), fd) << "somebody else's file has its number now";
  EXPECT_TRUE(adopted->free(allocate(*adopted, 4096)));
}

TEST_F(many_devices, without_a_list_one_that_the_application_has_open_is_the_default) {
  const int fd = open_elsewhere("0000:1b:00.0");
  const auto apps = open(0, listing(""));
  ASSERT_TRUE(apps);
  EXPECT_EQ(apps->attributes().bus_id, "0000:1b:00.0");
  EXPECT_FALSE(apps->attributes().owned);
  close(fd);
}

TEST_F(many_devices, an_adopted_one_takes_the_place_of_the_only_one) {
  const auto how = listing("");
  const int fd = open_elsewhere("0000:1b:00.0");
  EXPECT_EQ(*all_.adopt(how, fd), 0U);
  EXPECT_EQ(*all_.count(how), 1U);
  EXPECT_FALSE((*all_.current(how))->attributes().owned);
  EXPECT_EQ(all_.adopt(how, fd).code(), -FI_EBUSY) << "known already";
  const int other = open_elsewhere("0000:1c:00.0");
  EXPECT_EQ(*all_.adopt(how, other), 1U);
  EXPECT_EQ(all_.count(), 2U);
  EXPECT_EQ((*all_.at(1, how))->attributes().index, 3);
  all_.clear();
  for (const int mine : {fd, other}) close(mine);
}

TEST_F(many_devices, an_adopted_one_that_is_lost_is_followed_in_its_own_place) {
  const auto how = listing("0,1");
  const int first = open_elsewhere("0000:1b:00.0"), second = open_elsewhere("0000:1c:00.0");
  EXPECT_EQ(*all_.adopt(how, first), 2U);
  EXPECT_EQ(*all_.adopt(how, second), 3U);
  const auto lost = all_.opened(3);
  lost->lose(-FI_EIO, "of the test");
  close(second);
  const int again = open_elsewhere("0000:1c:00.0");
  EXPECT_EQ(*all_.adopt(how, again), 3U);
  EXPECT_NE(all_.opened(3), lost);
  EXPECT_EQ(all_.count(), 4U);
  all_.clear();
  for (const int mine : {first, again}) close(mine);
}

TEST_F(many_devices, none_is_adopted_beside_a_list_that_does_not_parse) {
  const int fd = open_elsewhere("0000:1b:00.0");
  EXPECT_EQ(all_.adopt(listing("gpu"), fd).code(), -FI_EINVAL);
  EXPECT_EQ(all_.count(), 0U);
  close(fd);
}

TEST_F(many_devices, adopted_ones_follow_the_list) {
  const auto how = listing("0,1");
  const int fd = open_elsewhere("0000:1b:00.0");
  EXPECT_EQ(*all_.adopt(how, fd), 2U);
  EXPECT_EQ(*all_.count(how), 3U);
  EXPECT_EQ(open(0, how)->attributes().index, 0);
  EXPECT_EQ(open(2, how)->attributes().index, 2);
  EXPECT_EQ(all_.adopt(how, STDIN_FILENO).code(), -FI_EINVAL);
  EXPECT_EQ(all_.count(), 3U) << "what is refused is not listed";
  all_.clear();
  EXPECT_EQ(all_.opened(0), nullptr);
  EXPECT_EQ(all_.count(), 0U);
  close(fd);
}

// Those who have an address of the first device find it whatever else is opened meanwhile.
TEST_F(many_devices, are_found_while_others_are_opened) {
  const auto how = listing("all");
  device& first = *open(0, how);
  const std::uint64_t address = allocate(first, 4096);
  std::atomic<bool> stop{false};
  std::atomic<unsigned> missed{0};
  std::thread reader([&] {
    while (!stop) missed += all_.find_owner(address).owner != &first;
  });
  for (unsigned n = 1; n < 8; ++n) open(n, how);
  stop = true;
  reader.join();
  EXPECT_EQ(missed, 0U);
  EXPECT_TRUE(first.free(address));
}

}  // namespace
}  // namespace gaudi::device
