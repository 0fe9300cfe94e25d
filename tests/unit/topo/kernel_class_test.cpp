// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "topo/kernel_class.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace {

class temporary_folder {
 public:
  temporary_folder() {
    std::string name = (std::filesystem::temp_directory_path() / "kernel_class_XXXXXX").string();
    if (!::mkdtemp(name.data())) std::abort();
    path_ = name;
  }
  ~temporary_folder() { std::filesystem::remove_all(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

TEST(class_devices, are_the_entries_of_the_class_folder_in_order) {
  const temporary_folder root;
  std::filesystem::create_directories(root.path() / "infiniband" / "mlx5_1");
  std::filesystem::create_directories(root.path() / "infiniband" / "irdma0");
  std::filesystem::create_directories(root.path() / "accel" / "accel0");
  EXPECT_THAT(gaudi::topo::rdma_devices(root.path()), testing::ElementsAre("irdma0", "mlx5_1"));
  EXPECT_THAT(gaudi::topo::class_devices("accel", root.path()), testing::ElementsAre("accel0"));
}

TEST(class_devices, of_the_host_are_not_gaudis_own_ports) {
  const temporary_folder root;
  const auto make = [&](const char* name, const char* vendor) {
    const auto device = root.path() / "infiniband" / name / "device";
    std::filesystem::create_directories(device);
    std::ofstream(device / "vendor") << vendor << '\n';
  };
  make("mlx5_0", "0x15b3");
  make("hbl_0", "0x1da3");
  make("renamed", "0x1da3");
  std::filesystem::create_directories(root.path() / "infiniband" / "hlib_3");
  EXPECT_THAT(gaudi::topo::rdma_devices(root.path()), testing::ElementsAre("mlx5_0"));
  EXPECT_TRUE(gaudi::topo::is_gaudi_port("hbl_7", root.path()));
  EXPECT_FALSE(gaudi::topo::is_gaudi_port("absent", root.path()));
}

TEST(class_devices, are_none_where_the_folder_is_empty_or_missing) {
  const temporary_folder root;
  std::filesystem::create_directory(root.path() / "infiniband");
  EXPECT_THAT(gaudi::topo::rdma_devices(root.path()), testing::IsEmpty());
  EXPECT_THAT(gaudi::topo::class_devices("accel", root.path()), testing::IsEmpty());
  EXPECT_THAT(gaudi::topo::rdma_devices(root.path() / "absent"), testing::IsEmpty());
}

}  // namespace
