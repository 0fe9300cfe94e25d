// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <fcntl.h>
#include <rdma/fi_errno.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "device/device.hpp"
#include "device/open_failures.hpp"
#include "fake_driver.hpp"

namespace gaudi::device {
namespace {

using std::chrono::milliseconds;
using testing::_;
using testing::Return;
using testing::SetErrnoAndReturn;

class opening : public testing::Test {
 protected:
  base::result<std::shared_ptr<device>> open(const char* text, milliseconds timeout = {}) {
    const auto which = device_spec::parse(text);
    if (!which) return which.failure();
    return device::open(driver.thunk(), *which, timeout);
  }

  test::fake_driver driver;
};

TEST_F(opening, finds_a_device_by_each_name) {
  EXPECT_CALL(driver.library, open_control_by_module_id(5)).WillOnce([&](std::uint32_t) {
    return driver.library.open_control(0, nullptr);
  });
  for (const char* text : {"", "0", "module:5", "0000:19:00.0", "19:00.0"}) {
    EXPECT_TRUE(open(text)) << text;
    EXPECT_EQ(driver.open_descriptors(), 0) << text;
  }
}

TEST_F(opening, tells_the_index_of_a_device_without_opening_it) {
  EXPECT_CALL(driver.library, open(_, _)).Times(0);
  ON_CALL(driver.library, get_device_index_from_pci_bus_id(_)).WillByDefault([](const char* id) {
    return std::string(id) == "0000:19:00.0" ? 0 : -1;
  });
  EXPECT_CALL(driver.library, open_control_by_module_id(5)).WillRepeatedly([&](std::uint32_t) {
    return driver.library.open_control(0, nullptr);
  });
  EXPECT_CALL(driver.library, open_control_by_module_id(6))
      .WillRepeatedly(SetErrnoAndReturn(EBADF, -1));
  const auto index = [&](const char* text) {
    return device::index_named(*driver.thunk(), *device_spec::parse(text));
  };
  for (const char* text : {"0", "module:5", "0000:19:00.0", "19:00.0"}) {
    ASSERT_TRUE(index(text)) << text;
    EXPECT_EQ(*index(text), 0) << text;
  }
  for (const char* text : {"5", "module:6", "0000:1a:00.0"})
    EXPECT_EQ(index(text).code(), -FI_ENODEV) << text;
  EXPECT_EQ(index("").code(), -FI_EINVAL);
  EXPECT_EQ(driver.open_descriptors(), 0);
}

TEST_F(opening, finds_a_module_with_a_library_that_cannot_open_by_it) {
  auto table = test::mock_library::table();
  table.open_control_by_module_id = nullptr;
  const auto old = std::make_shared<const hl::thunk>(table, "simulated Gaudi2");
  EXPECT_TRUE(device::open(old, *device_spec::parse("module:5"), {}));
  EXPECT_EQ(device::open(old, *device_spec::parse("module:6"), {}).code(), -FI_ENODEV);
  EXPECT_EQ(driver.open_descriptors(), 0);
}

TEST_F(opening, works_with_a_library_that_has_the_required_functions_only) {
  auto table = test::mock_library::table();
  table.open_control_by_module_id = nullptr;
  table.get_open_stats = nullptr;
  table.device_mapped_memory_export_dmabuf_fd = nullptr;
  table.device_memory_export_dmabuf_fd = nullptr;
  table.request_command_buffer = nullptr;
  table.destroy_command_buffer = nullptr;
  table.cs_flush_pci_hbw_writes = nullptr;
  table.notifier_create = nullptr;
  table.notifier_recv = nullptr;
  const auto old = std::make_shared<const hl::thunk>(table, "simulated Gaudi2");
  for (const std::uint32_t id : {0x1000U, 0x1020U, 0x1060U}) {
    driver.pci_id = id;
    const auto gaudi = device::open(old, {});
    ASSERT_TRUE(gaudi);
    const auto address = (*gaudi)->allocate(4096);
    ASSERT_TRUE(address);
    EXPECT_EQ((*gaudi)->export_dmabuf(*address, 4096).code(), -FI_EOPNOTSUPP);
    EXPECT_EQ((*gaudi)->lost(), 0);
    EXPECT_TRUE((*gaudi)->free(*address));
  }
}

TEST_F(opening, is_shared_in_the_process) {
  const auto one = open("");
  EXPECT_CALL(driver.library, open(_, _)).Times(0);
  const auto two = open("0"), three = open("0000:19:00.0");
  ASSERT_TRUE(one && two && three);
  EXPECT_EQ(*one, *two);
  EXPECT_EQ(*one, *three);
}

TEST_F(opening, a_taken_device_is_ebusy_in_both_forms_of_the_answer) {
  EXPECT_CALL(driver.library, open(_, _))
      .WillOnce(SetErrnoAndReturn(EBUSY, -1))
      .WillOnce(SetErrnoAndReturn(EBUSY, -EBUSY));
  EXPECT_EQ(open("").code(), -FI_EBUSY);
  EXPECT_EQ(open("0000:19:00.0").code(), -FI_EBUSY);
}

TEST_F(opening, is_tried_again_while_the_device_is_in_reset) {
  EXPECT_CALL(driver.library, open(_, _))
      .WillOnce(SetErrnoAndReturn(EAGAIN, -1))
      .WillOnce(SetErrnoAndReturn(EAGAIN, -EAGAIN))
      .WillOnce([](auto, auto) { return memfd_create("fake", MFD_CLOEXEC); });
  EXPECT_TRUE(open("", milliseconds{60000}));
}

TEST_F(opening, gives_up_on_a_reset_that_does_not_end) {
  EXPECT_CALL(driver.library, open(_, _)).WillRepeatedly(SetErrnoAndReturn(EAGAIN, -1));
  EXPECT_EQ(open("", milliseconds{30}).code(), -FI_EAGAIN);
}

TEST_F(opening, an_absent_device_is_enodev) {
  EXPECT_EQ(open("3").code(), -FI_ENODEV);
  EXPECT_EQ(open("module:3").code(), -FI_ENODEV);
  EXPECT_EQ(open("0000:20:00.0").code(), -FI_ENODEV);
  EXPECT_CALL(driver.library, open(_, _)).WillOnce(SetErrnoAndReturn(ENOENT, -1));
  EXPECT_EQ(open("").code(), -FI_ENODEV);
}

TEST_F(opening, a_broken_device_is_eperm) {
  EXPECT_CALL(driver.library, open(_, _)).WillOnce(SetErrnoAndReturn(EPERM, -EPERM));
  EXPECT_EQ(open("0000:19:00.0").code(), -FI_EPERM);
}

TEST_F(opening, knows_each_generation_by_its_pci_ids) {
  for (const auto& [id, generation] :
       {std::pair{0x1000U, 1}, std::pair{0x1001U, 1}, std::pair{0x1010U, 1}, std::pair{0x1011U, 1},
        std::pair{0xff02U, 1}, std::pair{0x1020U, 2}, std::pair{0xff07U, 2}, std::pair{0x1060U, 3},
        std::pair{0x1061U, 3}, std::pair{0x1062U, 3}, std::pair{0xff0bU, 3}}) {
    driver.pci_id = id;
    const auto opened = open("");
    ASSERT_TRUE(opened) << id;
    EXPECT_EQ((*opened)->attributes().generation, generation) << id;
  }
}

TEST_F(opening, refuses_what_is_no_gaudi_and_closes_it) {
  driver.pci_id = 0x4711;
  EXPECT_EQ(open("").code(), -FI_EINVAL);
  EXPECT_EQ(driver.open_descriptors(), 0);
}

TEST_F(opening, an_adopted_descriptor_stays_the_applications) {
  const base::scoped_fd fd(memfd_create("application", MFD_CLOEXEC));
  EXPECT_CALL(driver.library, close(_)).Times(0);
  {
    const auto gaudi = device::adopt(driver.thunk(), fd.get());
    ASSERT_TRUE(gaudi);
    EXPECT_FALSE((*gaudi)->attributes().owned);
    EXPECT_TRUE((*gaudi)->allocate(4096));
  }
  EXPECT_GE(fcntl(fd.get(), F_GETFD), 0);
  EXPECT_EQ(driver.pages_used(), 0U);
}

TEST_F(opening, adopting_what_is_no_gaudi_is_einval) {
  driver.pci_id = 0;
  const base::scoped_fd fd(memfd_create("application", MFD_CLOEXEC));
  EXPECT_EQ(device::adopt(driver.thunk(), fd.get()).code(), -FI_EINVAL);
}

TEST_F(opening, indices_need_not_be_dense) {
  EXPECT_CALL(driver.library, get_device_count(_)).WillOnce(Return(2));
  EXPECT_CALL(driver.library, open_control(_, _)).WillRepeatedly([](int index, const char*) {
    return index == 1 || index == 6 ? memfd_create("fake", MFD_CLOEXEC) : (errno = ENOENT, -ENOENT);
  });
  EXPECT_EQ(*device_indices(*driver.thunk()), (std::vector<int>{1, 6}));
}

TEST_F(opening, counting_opens_nothing) {
  EXPECT_CALL(driver.library, open(_, _)).Times(0);
  EXPECT_EQ(*count_devices(*driver.thunk()), 1U);
  EXPECT_EQ(*device_indices(*driver.thunk()), std::vector<int>{0});
  EXPECT_EQ(driver.open_descriptors(), 0);
}

/// No descriptor can be opened while it lives.
class without_descriptors {
 public:
  without_descriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const base::scoped_fd next(dup(0));
    const rlimit none{static_cast<rlim_t>(next.get()), before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
    // Numbers below that one may be free.
    for (int fd = dup(0); fd >= 0; fd = dup(0)) fillers_.emplace_back(fd);
  }
  ~without_descriptors() { setrlimit(RLIMIT_NOFILE, &before_); }
  without_descriptors(const without_descriptors&) = delete;
  without_descriptors& operator=(const without_descriptors&) = delete;

 private:
  rlimit before_{};
  std::vector<base::scoped_fd> fillers_;
};

// The library finds no device then, whatever there is, and says so in several ways.
TEST_F(opening, tells_want_of_descriptors_from_want_of_a_device) {
  for (const int told : {EINVAL, ENODEV, ENOENT, EBADF, EMFILE, ENFILE}) {
    EXPECT_CALL(driver.library, open(_, _)).WillRepeatedly(SetErrnoAndReturn(told, -told));
    base::result<std::shared_ptr<device>> got = base::error{-FI_EOTHER};
    {
      const without_descriptors none;
      got = open("0000:19:00.0");
    }
    EXPECT_EQ(got.code(), -EMFILE) << told;
    if (told != EMFILE && told != ENFILE) {
      EXPECT_EQ(open("0000:19:00.0").code(), -FI_ENODEV) << told;
    }
  }
}

// errno is of the call before where that one had a descriptor.
TEST_F(opening, sees_no_want_of_descriptors_where_there_was_one_earlier) {
  for (const int earlier : {EMFILE, ENFILE}) {
    errno = earlier;
    EXPECT_EQ(base::result<void>(refuse("a device", -FI_ENODEV, {})).code(), -FI_ENODEV);
  }
}

// Its driver's context is that of the parent's open file.
TEST_F(opening, of_a_parent_is_not_adopted_by_its_child) {
  const base::scoped_fd fd(memfd_create("application", MFD_CLOEXEC));
  const auto parents = device::adopt(driver.thunk(), fd.get());
  ASSERT_TRUE(parents);
  const pid_t child = ::fork();
  if (child == 0) {
    const int refused = device::adopt(driver.thunk(), fd.get()).code();
    ::_exit(refused == -FI_EBUSY ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(opening, of_a_device_in_reset_keeps_nobody_from_others) {
  std::atomic<bool> is_asked{false}, is_ready{false};
  ON_CALL(driver.library, open(_, _)).WillByDefault([&](hl::device_name, const char* bus_id) {
    if (std::string(bus_id) == "0000:19:00.0" && !is_ready) {
      is_asked = true;
      errno = EAGAIN;
      return -EAGAIN;
    }
    return memfd_create("device", MFD_CLOEXEC);
  });
  ON_CALL(driver.library, close(_)).WillByDefault([](int fd) { return ::close(fd); });
  base::result<std::shared_ptr<device>> waited = base::error{-FI_EOTHER};
  std::thread waiting([&] { waited = open("0000:19:00.0", milliseconds{60'000}); });
  while (!is_asked) std::this_thread::yield();
  driver.bus_id = "0000:1a:00.0";  // what the library calls the one that is opened
  EXPECT_TRUE(open("0000:1a:00.0"));
  EXPECT_FALSE(is_ready);
  driver.bus_id = "0000:19:00.0";
  is_ready = true;
  waiting.join();
  EXPECT_TRUE(waited);
}

TEST(adopting, fails_without_a_descriptor_of_its_own) {
  test::fake_driver driver;
  const base::scoped_fd application(::memfd_create("the-applications", MFD_CLOEXEC));
  ASSERT_TRUE(application);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{1, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  const int refused = device::adopt(driver.thunk(), application.get()).code();
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(refused, -EMFILE);
}

}  // namespace
}  // namespace gaudi::device
