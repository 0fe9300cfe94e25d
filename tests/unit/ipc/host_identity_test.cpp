// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ipc/host_identity.hpp"

#include <gtest/gtest.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "ipc/host_kernel.hpp"

namespace gaudi::ipc {
namespace {

TEST(host_identity, is_the_same_for_all_and_never_zero) {
  EXPECT_NE(host_identity(), 0U);
  EXPECT_EQ(host_identity(), host_identity());
}

TEST(host_identity, is_another_for_another_boot) {
  const std::string name = testing::TempDir() + "boot_id-" + std::to_string(::getpid());
  const auto of = [&](const char* boot_id) {
    std::ofstream(name) << boot_id << "\n";
    return host_identity(name.c_str());
  };
  const auto first = of("0c5c2b5e-7a43-4a6c-9d24-1f5a0d3e7b11");
  EXPECT_NE(first, 0U);
  EXPECT_NE(of("0c5c2b5e-7a43-4a6c-9d24-1f5a0d3e7b12"), first);
  EXPECT_NE(of("1c5c2b5e-7a43-4a6c-9d24-1f5a0d3e7b11"), first);
  EXPECT_EQ(of("0c5c2b5e-7a43-4a6c-9d24-1f5a0d3e7b11"), first);
  ::unlink(name.c_str());
}

// Peers on a host may be of several builds of the provider.
TEST(host_identity, is_the_fnv_1a_of_the_boot_id_folded_once) {
  const std::string name = testing::TempDir() + "boot_id-" + std::to_string(::getpid());
  std::ofstream(name) << "a\n";
  EXPECT_EQ(host_identity(name), 0xaf63dc4cU ^ 0x8601ec8cU);
  std::ofstream(name) << "0c5c2b5e-7a43-4a6c-9d24-1f5a0d3e7b11\n";
  EXPECT_EQ(host_identity(name), 0x90f169d9U ^ 0x36546faaU);
  ::unlink(name.c_str());
}

TEST(host_identity, cannot_be_told_without_a_boot_id) {
  EXPECT_EQ(host_identity("/no/such/file"), 0U);
  const std::string name = testing::TempDir() + "boot_id-" + std::to_string(::getpid());
  std::ofstream(name) << "\n";
  EXPECT_EQ(host_identity(name), 0U);
  ::unlink(name.c_str());
}

TEST(host_kernel, knows_whether_another_processor_could_help) {
  EXPECT_EQ(host_kernel::real().has_one_cpu(), ::get_nprocs() == 1);
}

}  // namespace
}  // namespace gaudi::ipc
