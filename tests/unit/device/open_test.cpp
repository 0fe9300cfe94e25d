// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <fcntl.h>
#include <rdma/fi_errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device/device.hpp"
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
    const auto which = selector::parse(text);
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

TEST_F(opening, finds_a_module_with_a_library_that_cannot_open_by_it) {
  auto table = test::mock_library::table();
  table.open_control_by_module_id = nullptr;
  const auto old = std::make_shared<const hl::thunk>(table, "simulated Gaudi2");
  EXPECT_TRUE(device::open(old, *selector::parse("module:5"), {}));
  EXPECT_EQ(device::open(old, *selector::parse("module:6"), {}).code(), -FI_ENODEV);
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
  EXPECT_EQ(*device::indices(*driver.thunk()), (std::vector<int>{1, 6}));
}

TEST_F(opening, counting_opens_nothing) {
  EXPECT_CALL(driver.library, open(_, _)).Times(0);
  EXPECT_EQ(*device::count(*driver.thunk()), 1U);
  EXPECT_EQ(*device::indices(*driver.thunk()), std::vector<int>{0});
  EXPECT_EQ(driver.open_descriptors(), 0);
}

}  // namespace
}  // namespace gaudi::device
