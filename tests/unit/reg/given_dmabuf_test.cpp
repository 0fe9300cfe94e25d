// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Dma-bufs that the application brings, with a NIC that takes them in name only.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <rdma/fi_errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "../device/fake_driver.hpp"
#include "base/outstanding_page.hpp"
#include "descriptors.hpp"
#include "fake_nic.hpp"
#include "reg/dmabuf_registrar.hpp"

namespace gaudi::reg {
namespace {

using base::scoped_fd;
using test::few_descriptors;
using test::open_descriptors;

constexpr cache_limits ample{.count = 1000, .bytes = 1ULL << 50};
constexpr std::uint64_t base_address = 0x1001700000000000;
constexpr std::uint64_t page = 4096;

scoped_fd new_file() {
  return scoped_fd(::memfd_create("a dma-buf", MFD_CLOEXEC));
}

class exported_dmabufs : public testing::Test {
 protected:
  exported_dmabufs() : descriptors_before_(open_descriptors()) {
    test::fake_nic::knows_dmabufs = true;
    open(ample);
  }
  ~exported_dmabufs() override {
    registrar_.reset();
    EXPECT_EQ(nic_.live(), 0U);
    EXPECT_EQ(open_descriptors(), descriptors_before_);
    test::fake_nic::knows_dmabufs = false;
  }
  void open(const cache_limits& limits,
            base::dmabuf_choice choice = base::dmabuf_choice::automatic) {
    registrar_.emplace(nic_.core(), choice, limits);
  }

  static core::dmabuf_range part(const scoped_fd& file, std::uint64_t offset = 0,
                                 std::size_t length = page) {
    return {file.get(), offset, length, base_address};
  }
  base::result<registration> obtain(const core::dmabuf_range& part, std::uint64_t access = 0,
                                    retention kept = retention::cache_idle) {
    return registrar_->obtain(part, access, kept);
  }
  static const test::fake_nic::registered& at_nic(const registration& r) {
    return *static_cast<test::fake_nic::registered*>(r->descriptor());
  }

  const long descriptors_before_;
  test::fake_nic nic_;
  std::optional<dmabuf_registrar> registrar_;
};

TEST_F(exported_dmabufs, are_registered_for_the_addresses_that_the_caller_names) {
  const auto file = new_file();
  const auto r = obtain(part(file, 3 * page, 100), FI_REMOTE_READ | FI_SEND);
  ASSERT_TRUE(r);
  EXPECT_EQ(at_nic(*r).address, base_address + 3 * page);
  EXPECT_EQ(at_nic(*r).length, 100U);
  EXPECT_EQ(at_nic(*r).access & (FI_REMOTE_READ | FI_REMOTE_WRITE), FI_REMOTE_READ);
}

TEST_F(exported_dmabufs, share_a_registration_by_file_part_and_access) {
  const auto file = new_file();
  const auto other = new_file();
  const scoped_fd same(::dup(file.get()));
  const auto first = obtain(part(file));
  EXPECT_EQ(obtain(part(same))->get(), first->get()) << "the same file by another descriptor";
  EXPECT_EQ(nic_.asked(), 1U);
  auto elsewhere = part(file);
  elsewhere.base_addr += page;
  for (const auto& different : {part(other), part(file, page), part(file, 0, 2 * page), elsewhere})
    EXPECT_NE(obtain(different)->get(), first->get());
  EXPECT_NE(obtain(part(file), FI_REMOTE_READ)->get(), first->get());
  EXPECT_EQ(nic_.asked(), 6U);
}

TEST_F(exported_dmabufs, are_told_from_what_had_their_descriptor_before) {
  auto file = new_file();
  const int number = file.get();
  const auto before = obtain(part(file));
  file.reset();
  file = new_file();
  ASSERT_EQ(file.get(), number);
  EXPECT_NE(obtain(part(file))->get(), before->get());
}

TEST_F(exported_dmabufs, end_with_their_last_user_unless_they_are_to_be_kept) {
  const auto file = new_file();
  auto one = *obtain(part(file), 0, retention::drop_on_last_use);
  auto two = *obtain(part(file), 0, retention::drop_on_last_use);
  EXPECT_EQ(nic_.asked(), 1U);
  one.reset();
  EXPECT_EQ(nic_.live(), 1U);
  two.reset();
  EXPECT_EQ(nic_.live(), 0U) << "the owner may free the memory";

  EXPECT_TRUE(obtain(part(file)));
  EXPECT_EQ(nic_.live(), 1U);
  EXPECT_TRUE(obtain(part(file)));
  EXPECT_EQ(nic_.asked(), 2U);
  registrar_->forget_idle();
  EXPECT_EQ(nic_.live(), 0U);
}

TEST_F(exported_dmabufs, are_kept_within_the_limits_the_last_used_ones) {
  std::vector<scoped_fd> files;
  for (int i = 0; i < 5; ++i) files.push_back(new_file());
  for (const std::size_t limit : {0U, 1U, 2U}) {
    open({.count = limit, .bytes = 1ULL << 50});
    for (const auto& file : files) EXPECT_TRUE(obtain(part(file)));
    EXPECT_EQ(nic_.live(), limit);
    const unsigned asked = nic_.asked();
    for (std::size_t i = 0; i < limit; ++i) EXPECT_TRUE(obtain(part(files[4 - i])));
    EXPECT_EQ(nic_.asked(), asked) << limit;
    EXPECT_TRUE(obtain(part(files[0])));
    EXPECT_EQ(nic_.asked(), asked + 1) << limit;
  }
}

// Numbers of what is gone are dropped at times; those of what is known to the NIC must not be.
TEST_F(exported_dmabufs, are_found_again_however_many_there_are) {
  constexpr unsigned count = 200;
  const auto file = new_file();
  for (unsigned i = 0; i < count; ++i) EXPECT_TRUE(obtain(part(file, i * page)));
  EXPECT_EQ(nic_.asked(), count);
  for (unsigned i = 0; i < count; ++i) EXPECT_TRUE(obtain(part(file, i * page)));
  EXPECT_EQ(nic_.asked(), count);
  EXPECT_EQ(nic_.live(), count);
}

TEST_F(exported_dmabufs, share_the_limits_with_device_memory) {
  test::fake_driver driver;
  auto on = *device::device::open(driver.thunk(), device::device_spec{});
  const auto address = *on->allocate(page);
  const auto use_device = [&] {
    const auto pin = *on->pin(address);
    EXPECT_TRUE(*registrar_->obtain(*on, pin.where(), 1, 0));
  };
  open({.count = 2, .bytes = 1ULL << 50});
  const auto file = new_file();
  const auto other = new_file();
  use_device();
  EXPECT_TRUE(obtain(part(file)));
  EXPECT_TRUE(obtain(part(other)));
  EXPECT_EQ(nic_.live(), 2U);
  const unsigned asked = nic_.asked();
  use_device();
  EXPECT_EQ(nic_.asked(), asked + 1) << "it was the oldest";
  EXPECT_TRUE(on->free(address));
  EXPECT_EQ(nic_.live(), 1U) << "of the application's memory nobody told anything";
  registrar_.reset();
}

/// What others see that threads of this process are inside of.
std::vector<base::outstanding::record> calls_seen() {
  namespace outstanding = base::outstanding;
  std::vector<outstanding::record> all(outstanding::record_count);
  const std::size_t size = all.size() * sizeof(outstanding::record);
  EXPECT_EQ(::pread(outstanding::page::instance().fd(), all.data(), size, outstanding::header_size),
            static_cast<ssize_t>(size));
  std::erase_if(all, [](const auto& r) { return r.kind != outstanding::record_kind::call; });
  return all;
}

TEST_F(exported_dmabufs, are_seen_from_outside_while_the_nic_registers_them) {
  std::vector<base::outstanding::record> seen;
  nic_.refuse = [&] {
    seen = calls_seen();
    return 0;
  };
  const auto file = new_file();
  ASSERT_TRUE(obtain(part(file, 0, 3 * page)));
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen[0].type, static_cast<std::uint8_t>(base::outstanding::call_kind::register_dmabuf));
  EXPECT_EQ(seen[0].total, 3 * page);
  EXPECT_STREQ(reinterpret_cast<const char*>(seen[0].address.data()), "fake_0");
  EXPECT_TRUE(calls_seen().empty());
}

TEST_F(exported_dmabufs, make_room_when_the_nic_has_none_at_the_kth_registration) {
  constexpr unsigned count = 6;
  std::vector<scoped_fd> files;
  for (unsigned i = 0; i < count; ++i) files.push_back(new_file());
  for (unsigned k = 1; k <= count; ++k) {
    open(ample);
    unsigned calls = 0;
    nic_.refuse = [&] { return ++calls == k ? -FI_ENOMEM : 0; };
    for (unsigned i = 0; i < count; ++i) {
      const auto r = obtain(part(files[i]));
      EXPECT_EQ(r.code(), k == 1 && i == 0 ? -FI_ENOMEM : 0) << k << " " << i;
    }
    EXPECT_EQ(registrar_->refusals(), k == 1 ? 1U : 0U);
    EXPECT_EQ(registrar_->cached().evictions, k == 1 ? 0U : 1U);
    EXPECT_EQ(nic_.live(), count - 1);
  }
}

TEST_F(exported_dmabufs, need_no_descriptor_of_the_provider_s) {
  const few_descriptors limited;
  const long descriptors = open_descriptors();
  for (int i = 0; i < 200; ++i) {
    const auto file = new_file();
    ASSERT_TRUE(file);
    ASSERT_TRUE(obtain(part(file)));
  }
  EXPECT_EQ(nic_.live(), 200U);
  EXPECT_EQ(open_descriptors(), descriptors);
}

TEST_F(exported_dmabufs, fail_with_the_nic_s_error_each_time_they_are_refused) {
  const auto file = new_file();
  for (const int code : {-FI_EOPNOTSUPP, -FI_ENOSYS, -FI_EINVAL, -EPERM}) {
    nic_.refuse = [&] { return code; };
    EXPECT_EQ(obtain(part(file)).code(), code);
  }
  nic_.refuse = [] { return 0; };
  EXPECT_TRUE(obtain(part(file))) << "the next one may be of another device";
  EXPECT_EQ(registrar_->refusals(), 4U);
}

TEST_F(exported_dmabufs, that_are_no_open_file_are_refused) {
  EXPECT_EQ(obtain({-1, 0, page, base_address}).code(), -EBADF);
  EXPECT_EQ(nic_.asked(), 0U);
}

TEST_F(exported_dmabufs, are_refused_by_an_old_libfabric_and_where_the_nic_may_have_none) {
  const auto file = new_file();
  test::fake_nic::knows_dmabufs = false;
  EXPECT_EQ(obtain(part(file)).code(), -FI_EOPNOTSUPP);
  test::fake_nic::knows_dmabufs = true;
  open(ample, base::dmabuf_choice::off);
  EXPECT_EQ(obtain(part(file)).code(), -FI_EOPNOTSUPP);
  EXPECT_EQ(nic_.asked(), 0U);
}

/// Files that come and go in a file system that gives their inodes away again.
class reused_inodes : public exported_dmabufs {
 protected:
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  static constexpr int rounds = 2'000;
#else
  static constexpr int rounds = 30'000;
#endif
  struct one {
    scoped_fd file;
    off_t mark = 0;  // its size, which no other file has
  };

  reused_inodes() {
    nic_.keeps_files = true;
  }

  one make() {
    std::string name = std::filesystem::temp_directory_path() / "given-dmabuf-XXXXXX";
    one made{scoped_fd(::mkstemp(name.data())), ++marks_};
    ::unlink(name.c_str());
    EXPECT_EQ(::ftruncate(made.file.get(), made.mark), 0);
    struct stat s {};
    EXPECT_EQ(::fstat(made.file.get(), &s), 0);
    if (!inodes_.insert(s.st_ino).second) ++reused_;
    return made;
  }
  static off_t mark_of(const registration& r) {
    struct stat s {};
    EXPECT_EQ(::fstat(at_nic(r).file.get(), &s), 0);
    return s.st_size;
  }

  off_t marks_ = 0;
  std::set<ino_t> inodes_;
  int reused_ = 0;
};

TEST_F(reused_inodes, never_lead_to_a_registration_of_another_file) {
  open({.count = 4, .bytes = 1ULL << 50});
  std::mt19937 random(1);
  std::array<one, 6> files;
  for (auto& f : files) f = make();
  unsigned wrong = 0;
  for (int round = 0; round < rounds; ++round) {
    auto& f = files[random() % files.size()];
    if (random() % 4 == 0) {
      f = {};
      f = make();
    }
    const auto kept = random() % 3 == 0 ? retention::drop_on_last_use : retention::cache_idle;
    const auto r = obtain(part(f.file, random() % 2 * page), random() % 2 * FI_REMOTE_READ, kept);
    ASSERT_TRUE(r);
    if (mark_of(*r) != f.mark) ++wrong;
  }
  EXPECT_EQ(wrong, 0U);
  EXPECT_GT(registrar_->cached().hits, static_cast<std::uint64_t>(rounds) / 20);
  RecordProperty("reused_inodes", reused_);
}

}  // namespace
}  // namespace gaudi::reg
