// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "topo/kernel_class.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
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

TEST(class_devices, are_none_where_the_folder_is_empty_or_missing) {
  const temporary_folder root;
  std::filesystem::create_directory(root.path() / "infiniband");
  EXPECT_THAT(gaudi::topo::rdma_devices(root.path()), testing::IsEmpty());
  EXPECT_THAT(gaudi::topo::class_devices("accel", root.path()), testing::IsEmpty());
  EXPECT_THAT(gaudi::topo::rdma_devices(root.path() / "absent"), testing::IsEmpty());
}

}  // namespace
