// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What is left of a device when it has been reset or removed.
#include <fcntl.h>
#include <poll.h>
#include <rdma/fi_errno.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "../proto/logged_warnings.hpp"
#include "device/device.hpp"
#include "device/device_loss_epoch.hpp"
#include "fake_driver.hpp"

namespace gaudi::device {
namespace {

using testing::_;
using testing::HasSubstr;
using testing::Not;
using testing::SetErrnoAndReturn;

class loss : public testing::Test {
 protected:
  void SetUp() override { gaudi = open(); }
  void TearDown() override {
    gaudi.reset();
    EXPECT_EQ(driver.open_descriptors(), 0);
  }
  std::shared_ptr<device> open() {
    auto opened = device::open(driver.thunk(), *device_spec::parse(driver.bus_id));
    EXPECT_TRUE(opened);
    return opened ? *opened : nullptr;
  }
  /// What a descriptor is open on.
  static bool is_closed_to_driver(int fd) {
    struct stat here {
    }, null{};
    return ::fstat(fd, &here) == 0 && ::stat("/dev/null", &null) == 0 &&
           here.st_rdev == null.st_rdev;
  }

  test::fake_driver driver;
  std::shared_ptr<device> gaudi;
};

TEST_F(loss, is_for_good_and_counted_once) {
  const auto before = device_loss_epoch::count();
  EXPECT_EQ(gaudi->lost(), 0);
  EXPECT_EQ(gaudi->lose(-FI_ETIMEDOUT, "of the test"), -FI_EIO);
  EXPECT_EQ(gaudi->lose(-FI_ENODEV, "of the test"), -FI_EIO);
  EXPECT_EQ(gaudi->lost(), -FI_EIO);
  EXPECT_EQ(device_loss_epoch::count(), before + 1);
}

TEST_F(loss, closes_the_device_at_once_and_keeps_its_number) {
  const int fd = gaudi->fd();
  EXPECT_FALSE(is_closed_to_driver(fd));
  gaudi->lose(-FI_EIO, "of the test");
  EXPECT_EQ(gaudi->fd(), fd);
  EXPECT_TRUE(is_closed_to_driver(fd));
}

TEST_F(loss, gives_exports_back) {
  const auto addr = gaudi->allocate(4096);
  ASSERT_TRUE(addr);
  int exported = -1;
  EXPECT_CALL(driver.library, export_dmabuf(_, _, _, _, _)).WillOnce([&](auto...) {
    return exported = memfd_create("dma-buf", MFD_CLOEXEC);
  });
  ASSERT_TRUE(gaudi->export_dmabuf(*addr, 1));
  EXPECT_GE(fcntl(exported, F_GETFD), 0);
  gaudi->lose(-FI_EIO, "of the test");
  EXPECT_EQ(fcntl(exported, F_GETFD), -1);
}

TEST_F(loss, refuses_everything_but_to_free) {
  const auto addr = gaudi->allocate(4096);
  ASSERT_TRUE(addr);
  {
    const auto pin = gaudi->pin(*addr);
    ASSERT_TRUE(pin);
    gaudi->lose(-FI_ENODEV, "of the test");
    EXPECT_EQ(gaudi->free(*addr).code(), -FI_EBUSY);
  }
  EXPECT_CALL(driver.library, device_memory_alloc(_, _, _, _, _)).Times(0);
  EXPECT_CALL(driver.library, memory_unmap(_, _)).Times(0);
  EXPECT_EQ(gaudi->allocate(4096).code(), -FI_ENODEV);
  EXPECT_EQ(gaudi->allocate(2 * test::fake_driver::page).code(), -FI_ENODEV);
  EXPECT_EQ(gaudi->pin(*addr).code(), -FI_ENODEV);
  EXPECT_EQ(gaudi->export_dmabuf(*addr, 1).code(), -FI_ENODEV);
  EXPECT_EQ(gaudi->hbm_free().code(), -FI_ENODEV);
  EXPECT_FALSE(gaudi->is_vacant());
  EXPECT_TRUE(gaudi->free(*addr));
  EXPECT_TRUE(gaudi->is_vacant());
  gaudi.reset();
}

TEST_F(loss, shows_in_a_call_that_the_driver_refuses) {
  EXPECT_CALL(driver.library, device_memory_alloc(_, _, _, _, _))
      .WillOnce(SetErrnoAndReturn(EBUSY, 0));
  EXPECT_EQ(gaudi->allocate(4096).code(), -FI_EIO);
  EXPECT_EQ(gaudi->lost(), -FI_EIO);
}

TEST_F(loss, is_the_cause_of_whatever_fails_afterwards) {
  gaudi->lose(-FI_ENODEV, "of the test");
  for (const int code : {-FI_ENOMEM, -FI_EBUSY, -FI_EINVAL})
    EXPECT_EQ(gaudi->cause_of(code), -FI_ENODEV);
}

TEST_F(loss, is_not_want_of_memory) {
  EXPECT_EQ(gaudi->allocate(9 * test::fake_driver::page).code(), -FI_ENOMEM);
  EXPECT_EQ(gaudi->cause_of(-FI_ENOMEM), -FI_ENOMEM);
  EXPECT_EQ(gaudi->lost(), 0);
}

TEST_F(loss, lets_the_same_device_be_opened_anew) {
  EXPECT_EQ(open(), gaudi);
  const auto addr = gaudi->allocate(4096);
  gaudi->lose(-FI_EIO, "of the test");
  const auto anew = open();
  ASSERT_NE(anew, gaudi);
  EXPECT_EQ(anew->lost(), 0);
  EXPECT_NE(anew->fd(), gaudi->fd());
  EXPECT_TRUE(gaudi->free(*addr)) << "of the books of the old one";
  EXPECT_TRUE(anew->allocate(4096));
}

// Nobody will free it for the device to be opened anew.
TEST_F(loss, does_not_wait_for_memory_of_the_providers_own) {
  const auto internal = gaudi->allocate(4096, purpose::internal);
  const auto users = gaudi->allocate(4096);
  ASSERT_TRUE(internal && users);
  gaudi->lose(-FI_EIO, "of the test");
  EXPECT_FALSE(gaudi->is_vacant());
  EXPECT_TRUE(gaudi->free(*users));
  EXPECT_TRUE(gaudi->is_vacant());
  EXPECT_TRUE(gaudi->free(*internal));
  EXPECT_TRUE(gaudi->is_vacant());
}

TEST_F(loss, rings_a_bell) {
  device_loss_epoch::loss_eventfd loss_eventfd;
  const auto is_ringing = [&] {
    pollfd entry{loss_eventfd.fd(), POLLIN, 0};
    return ::poll(&entry, 1, 0) == 1;
  };
  EXPECT_FALSE(is_ringing());
  gaudi->lose(-FI_EIO, "of the test");
  EXPECT_TRUE(is_ringing());
  loss_eventfd.clear();
  EXPECT_FALSE(is_ringing());
}

class counting_observer final : public loss_observer {
 public:
  int told = 0;

 private:
  void device_lost() noexcept override { ++told; }
};

TEST_F(loss, is_told_once_to_each_who_wants_to_know) {
  counting_observer early, gone, late;
  gaudi->add_observer(early);
  gaudi->add_observer(gone);
  gaudi->remove_observer(gone);
  gaudi->lose(-FI_EIO, "of the test");
  gaudi->lose(-FI_EIO, "of the test");
  gaudi->add_observer(late);
  EXPECT_EQ(early.told, 1);
  EXPECT_EQ(gone.told, 0);
  EXPECT_EQ(late.told, 1);
  gaudi->remove_observer(early);
  gaudi->remove_observer(late);
}

TEST_F(loss, of_an_adopted_device_leaves_its_descriptor_alone) {
  gaudi.reset();
  const base::scoped_fd fd(memfd_create("application", MFD_CLOEXEC));
  const auto adopted = device::adopt(driver.thunk(), fd.get());
  ASSERT_TRUE(adopted);
  (*adopted)->lose(-FI_EIO, "of the test");
  EXPECT_FALSE(is_closed_to_driver(fd.get()));
}

// Who opened it has to do something for it to be used again.
TEST_F(loss, is_a_warning_that_says_what_to_do_next) {
  const proto::test::logged_warnings logged;
  gaudi->lose(-FI_EIO, "of the test");
  EXPECT_THAT(logged.text(), HasSubstr("opens it anew"));
  gaudi.reset();
  const base::scoped_fd fd(memfd_create("application", MFD_CLOEXEC));
  const auto adopted = device::adopt(driver.thunk(), fd.get());
  ASSERT_TRUE(adopted);
  (*adopted)->lose(-FI_EIO, "of the test");
  EXPECT_THAT(logged.text(), HasSubstr("close the application's descriptor"));
  EXPECT_THAT(logged.text(), Not(HasSubstr("synDevice")));
}

TEST_F(loss, of_an_adopted_device_that_is_removed_is_seen) {
  gaudi.reset();
  const base::scoped_fd fd(memfd_create("application", MFD_CLOEXEC));
  const auto adopted = device::adopt(driver.thunk(), fd.get());
  ASSERT_TRUE(adopted);
  driver.status = static_cast<hl::device_status>(-ENODEV);
  for (int slept_ms = 0; (*adopted)->lost() == 0 && slept_ms < 10'000; ++slept_ms)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ((*adopted)->lost(), -FI_ENODEV);
}

std::atomic<unsigned> events_taken{0};

TEST_F(loss, comes_of_no_other_event_than_a_reset) {
  gaudi.reset();
  events_taken = 0;
  auto table = test::mock_library::table();
  table.notifier_create = [](int) {
    return ::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);  // rings until all is over
  };
  table.notifier_recv = [](int, int, std::uint64_t* events, std::uint64_t* count, std::uint32_t,
                           std::uint32_t) {
    *events = ++events_taken < 3 ? 1 : hl::event_device_reset;
    *count = 1;
    return 0;
  };
  gaudi = *device::open(std::make_shared<const hl::thunk>(table, "simulated Gaudi2"), {});
  while (gaudi->lost() == 0) std::this_thread::yield();
  EXPECT_EQ(gaudi->lost(), -FI_EIO);
  EXPECT_EQ(events_taken, 3U);
}

}  // namespace
}  // namespace gaudi::device
