// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "device/open_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "device/device.hpp"
#include "fake_driver.hpp"

namespace gaudi::device {
namespace {

namespace fs = std::filesystem;

/// A process's descriptors under names of the test's, and a machine whose /dev/zero is a Gaudi.
class open_files : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "gaudi-open-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root = name;
    const fs::path function = root / "devices/0000:1b:00.0";
    struct stat node {};
    ASSERT_EQ(stat("/dev/zero", &node), 0);
    const fs::path entry =
        root / "dev/char" /
        (std::to_string(major(node.st_rdev)) + ":" + std::to_string(minor(node.st_rdev)));
    fs::create_directories(function);
    fs::create_directories(entry);
    std::ofstream(function / "vendor") << "0x1da3\n";
    fs::create_directory_symlink(function, entry / "device");
    fs::create_directories(root / "fd");
  }
  void TearDown() override { fs::remove_all(root); }

  void has_open(const base::scoped_fd& fd, const char* path) {
    fs::create_symlink(path, root / "fd" / std::to_string(fd.get()));
  }
  std::vector<open_file> on_real_library() {
    return gaudis_open_here(*driver.thunk(), sysfs(root.string()), root / "fd");
  }
  std::vector<open_file> on_stand_in() {
    return gaudis_open_here(*driver.thunk(), std::nullopt, root / "fd");
  }
  static base::scoped_fd open(const char* path) {
    return base::scoped_fd(::open(path, O_RDWR | O_CLOEXEC));
  }

  fs::path root;
  test::fake_driver driver;
};

TEST_F(open_files, are_told_by_their_device_numbers) {
  const auto gaudi = open("/dev/zero"), other = open("/dev/null");
  has_open(gaudi, "/dev/accel/accel2");
  has_open(other, "/dev/accel/accel3");
  const auto found = on_real_library();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].bus_id, "0000:1b:00.0");
  EXPECT_NE(found[0].fd.get(), gaudi.get()) << "a duplicate";
  EXPECT_EQ(fcntl(found[0].fd.get(), F_GETFD), FD_CLOEXEC);
}

TEST_F(open_files, are_no_control_nodes) {
  const auto gaudi = open("/dev/zero");
  has_open(gaudi, "/dev/accel/accel_controlD2");
  EXPECT_TRUE(on_real_library().empty());
}

TEST_F(open_files, of_the_stand_in_have_its_names_and_are_asked) {
  const auto a = open("/dev/null"), b = open("/dev/null"), c = open("/dev/null");
  has_open(a, "/dev/shm/hlsim-0/device1");
  has_open(b, "/dev/shm/hlsim-0/control1");
  has_open(c, "/tmp/device1.hbm");
  EXPECT_EQ(on_stand_in().size(), 1U);
  EXPECT_CALL(driver.library, get_pci_bus_id_from_fd(testing::_, testing::_, testing::_))
      .WillOnce(testing::SetErrnoAndReturn(ENOTTY, -ENOTTY));
  EXPECT_TRUE(on_stand_in().empty()) << "another's file of such a name";
}

// A closed duplicate drops them all.
TEST_F(open_files, of_others_keep_their_posix_locks) {
  const std::string path = (root / "device1").string();
  const base::scoped_fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  struct flock whole {};
  whole.l_type = F_WRLCK;
  ASSERT_EQ(fcntl(file.get(), F_SETLK, &whole), 0);
  has_open(file, path.c_str());
  ON_CALL(driver.library, get_pci_bus_id_from_fd(testing::_, testing::_, testing::_))
      .WillByDefault(testing::SetErrnoAndReturn(ENOTTY, -ENOTTY));
  EXPECT_TRUE(on_real_library().empty());
  EXPECT_TRUE(on_stand_in().empty());
  const pid_t other = fork();
  if (other == 0) {
    struct flock found {};
    found.l_type = F_WRLCK;
    _exit(fcntl(file.get(), F_GETLK, &found) == 0 && found.l_type == F_WRLCK ? 0 : 1);
  }
  int status = -1;
  waitpid(other, &status, 0);
  EXPECT_EQ(status, 0) << "another process could lock the file";
}

TEST_F(open_files, are_no_control_nodes_under_another_name) {
  const auto gaudi = open("/dev/zero");
  has_open(gaudi, "/dev/gaudi0");
  ASSERT_EQ(on_real_library().size(), 1U);
  struct stat node {};
  ASSERT_EQ(fstat(gaudi.get(), &node), 0);
  const std::string number =
      std::to_string(major(node.st_rdev)) + ":" + std::to_string(minor(node.st_rdev));
  const fs::path kernels = root / "class/accel/accel_controlD2";
  fs::create_directories(kernels.parent_path());
  fs::rename(root / "dev/char" / number, kernels);
  fs::create_directory_symlink(kernels, root / "dev/char" / number);
  EXPECT_TRUE(is_control_node(sysfs(root.string()), gaudi.get()));
  EXPECT_TRUE(on_real_library().empty());
}

TEST_F(open_files, that_are_closed_meanwhile_are_left_alone) {
  auto gaudi = open("/dev/zero");
  has_open(gaudi, "/dev/accel/accel2");
  gaudi.reset();
  EXPECT_TRUE(on_real_library().empty());
}

TEST_F(open_files, are_none_where_the_folder_is_missing) {
  EXPECT_TRUE(gaudis_open_here(*driver.thunk(), std::nullopt, root / "nothing").empty());
}

}  // namespace
}  // namespace gaudi::device
