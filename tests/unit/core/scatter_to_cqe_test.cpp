// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "core/scatter_to_cqe.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace {

using gaudi::core::scatter_objection;
using testing::HasSubstr;
using testing::IsEmpty;

/// A folder of links, as /proc/self/fd is.
class descriptors {
 public:
  explicit descriptors(const char* target) {
    std::string name = (std::filesystem::temp_directory_path() / "descriptors_XXXXXX").string();
    if (!::mkdtemp(name.data())) std::abort();
    path_ = name;
    std::filesystem::create_symlink("/dev/null", path_ / "0");
    std::filesystem::create_symlink(target, path_ / "3");
  }
  ~descriptors() { std::filesystem::remove_all(path_); }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

TEST(scatter_to_cqe, can_be_forbidden_before_a_device_is_open) {
  const descriptors open("/dev/infiniband/rdma_cm");
  EXPECT_THAT(scatter_objection(nullptr, true, open.path()), IsEmpty());
}

TEST(scatter_to_cqe, cannot_be_forbidden_for_a_device_that_is_open) {
  const descriptors open("/dev/infiniband/uverbs0");
  EXPECT_THAT(scatter_objection(nullptr, true, open.path()), HasSubstr("was opened before"));
  EXPECT_THAT(scatter_objection("0", true, open.path()), IsEmpty());
}

TEST(scatter_to_cqe, is_the_users_to_ask_for) {
  const descriptors open("/dev/zero");
  EXPECT_THAT(scatter_objection("1", true, open.path()), HasSubstr("MLX5_SCATTER_TO_CQE=1"));
}

TEST(scatter_to_cqe, does_not_concern_other_nics) {
  const descriptors open("/dev/infiniband/uverbs0");
  EXPECT_THAT(scatter_objection(nullptr, false, open.path()), IsEmpty());
  EXPECT_THAT(scatter_objection("1", false, open.path()), IsEmpty());
}

}  // namespace
