// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "device/sysfs.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/scoped_fd.hpp"

namespace gaudi::device {
namespace {

namespace fs = std::filesystem;

/// A sysfs tree in a temporary folder.
class sysfs_tree : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "gaudi-sysfs-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root = name;
  }
  void TearDown() override { fs::remove_all(root); }

  static void write(const fs::path& file, const std::string& text) {
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text << '\n';
  }
  /// A PCI function, and a node of a class that links to it.
  void add(const std::string& node, const std::string& bus_id, const std::string& vendor) {
    const fs::path function = root / "devices/pci0000:17" / bus_id;
    write(function / "vendor", vendor);
    fs::create_directories(root / node);
    fs::create_directory_symlink(function, root / node / "device");
  }

  fs::path root;
};

TEST_F(sysfs_tree, names_a_device_by_its_index) {
  add("class/accel/accel0", "0000:19:00.0", "0x1da3");
  add("class/accel/accel1", "0000:1a:00.0", "0x1da3");
  const sysfs machine(root);
  EXPECT_EQ(machine.bus_id_of_index(1), "0000:1a:00.0");
  EXPECT_EQ(machine.index_of_bus_id("0000:1a:00.0"), 1);
  EXPECT_EQ(machine.bus_id_of_index(2), std::nullopt);
  EXPECT_EQ(machine.index_of_bus_id("0000:1b:00.0"), std::nullopt);
}

TEST_F(sysfs_tree, knows_the_older_drivers_class) {
  add("class/habanalabs/hl3", "0000:19:00.0", "0x1da3");
  EXPECT_EQ(sysfs(root).bus_id_of_index(3), "0000:19:00.0");
}

TEST_F(sysfs_tree, leaves_other_vendors_accelerators_alone) {
  add("class/accel/accel0", "0000:00:0b.0", "0x8086");
  EXPECT_EQ(sysfs(root).bus_id_of_index(0), std::nullopt);
}

TEST_F(sysfs_tree, finds_the_module_id_in_both_places_it_has_been) {
  add("class/accel/accel0", "0000:19:00.0", "0x1da3");
  add("class/accel/accel1", "0000:1a:00.0", "0x1da3");
  write(root / "class/accel/accel0/device/module_id", "6");
  write(root / "class/accel/accel1/module_id", "2");
  const sysfs machine(root);
  EXPECT_EQ(machine.bus_id_of_module(6), "0000:19:00.0");
  EXPECT_EQ(machine.bus_id_of_module(2), "0000:1a:00.0");
  EXPECT_EQ(machine.bus_id_of_module(0), std::nullopt);
}

TEST_F(sysfs_tree, names_an_open_node_and_no_other_file) {
  const base::scoped_fd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  struct stat node {};
  ASSERT_EQ(fstat(null.get(), &node), 0);
  const sysfs machine(root);
  EXPECT_EQ(machine.bus_id_of_fd(null.get()), std::nullopt);
  add("dev/char/" + std::to_string(major(node.st_rdev)) + ":" + std::to_string(minor(node.st_rdev)),
      "0000:19:00.0", "0x1da3");
  EXPECT_EQ(machine.bus_id_of_fd(null.get()), "0000:19:00.0");
  EXPECT_EQ(machine.bus_id_of_fd(-1), std::nullopt);
  const base::scoped_fd file(open((root / "dev").c_str(), O_RDONLY | O_CLOEXEC));
  add("dev/char/0:0", "0000:1a:00.0", "0x1da3");
  EXPECT_EQ(machine.bus_id_of_fd(file.get()), std::nullopt) << "no node, which has no numbers";
  for (const int no_node : {-1, file.get()}) EXPECT_FALSE(machine.is_control(no_node));
}

}  // namespace
}  // namespace gaudi::device
