// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "holders.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace gaudi::info {
namespace {

namespace fs = std::filesystem;

MATCHER_P2(is_process, pid, command, "") {
  return arg.pid == pid && arg.command == command;
}

/// Devices as the stand-in has them and a procfs, in a temporary folder.
class holders : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "gaudi-proc-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root_ = name;
    for (const char* file : {"device0", "device1", "other/device0"}) write(root_ / file, "");
  }
  void TearDown() override { fs::remove_all(root_); }

  static void write(const fs::path& file, const std::string& text) {
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  [[nodiscard]] fs::path proc() const { return root_ / "proc"; }
  void add_process(const std::string& pid, const std::string& command) const {
    write(proc() / pid / "comm", command + "\n");
    fs::create_directories(proc() / pid / "fd");
  }
  void add_descriptor(const std::string& pid, const std::string& number, const fs::path& to) const {
    fs::create_symlink(to, proc() / pid / "fd" / number);
  }

  fs::path root_;
};

TEST_F(holders, are_the_processes_that_have_the_file_open) {
  add_process("200", "python3");
  add_descriptor("200", "0", "/dev/null");
  add_descriptor("200", "7", root_ / "device0");
  add_process("31", "hccl_demo");
  add_descriptor("31", "3", root_ / "device0");
  add_descriptor("31", "4", root_ / "device0");
  add_process("5", "sh");
  add_descriptor("5", "3", "socket:[4711]");
  EXPECT_THAT(holders_of(root_ / "device0", proc()),
              testing::ElementsAre(is_process(31, "hccl_demo"), is_process(200, "python3")));
}

TEST_F(holders, are_told_apart_by_whether_they_use_synapse) {
  for (const char* pid : {"31", "32"}) {
    add_process(pid, "python3");
    add_descriptor(pid, "3", root_ / "device0");
  }
  const std::string mapped = "7f5a1c000000-7f5a1c021000 r-xp 00000000 08:01 1234    /usr/lib/";
  write(proc() / "31" / "maps", mapped + "libc.so.6\n" + mapped + "habanalabs/libSynapse.so\n");
  write(proc() / "32" / "maps", mapped + "habanalabs/libSynapse.so.txt\n");
  const auto found = holders_of(root_ / "device0", proc());
  ASSERT_EQ(found.size(), 2U);
  EXPECT_TRUE(found[0].synapse);
  EXPECT_FALSE(found[1].synapse);
}

TEST_F(holders, are_not_those_of_other_files) {
  add_process("31", "neighbour");
  add_descriptor("31", "3", root_ / "device1");
  add_descriptor("31", "4", root_ / "other/device0");
  add_descriptor("31", "5", root_ / "device0 (deleted)");
  EXPECT_TRUE(holders_of(root_ / "device0", proc()).empty());
}

TEST_F(holders, of_a_character_device_are_found_by_its_number) {
  add_process("31", "cat");
  add_descriptor("31", "3", "/dev/null");
  add_process("32", "dd");
  add_descriptor("32", "3", "/dev/zero");
  EXPECT_THAT(holders_of("/dev/null", proc()), testing::ElementsAre(is_process(31, "cat")));
}

TEST_F(holders, that_may_not_be_looked_at_are_left_out) {
  add_process("31", "hidden");
  fs::remove_all(proc() / "31/fd");
  write(proc() / "cpuinfo", "");
  add_process("12ab", "no number");
  add_descriptor("12ab", "3", root_ / "device0");
  EXPECT_TRUE(holders_of(root_ / "device0", proc()).empty());
  EXPECT_TRUE(holders_of(root_ / "device0", root_ / "missing").empty());
  EXPECT_TRUE(holders_of(root_ / "missing", proc()).empty());
}

TEST_F(holders, have_names_that_can_be_printed) {
  add_process("31", "\x1b[2J\xff");
  add_descriptor("31", "3", root_ / "device0");
  EXPECT_THAT(holders_of(root_ / "device0", proc()), testing::ElementsAre(is_process(31, "?[2J?")));
}

TEST_F(holders, include_this_process) {
  const std::ifstream open(root_ / "device0");
  EXPECT_THAT(holders_of(root_ / "device0", "/proc"),
              testing::Contains(testing::Field(&holder::pid, ::getpid())));
}

TEST(compute_node, lies_beside_the_control_node) {
  EXPECT_EQ(compute_node_of("/dev/accel/accel_controlD12"), "/dev/accel/accel12");
  EXPECT_EQ(compute_node_of("/dev/hl_controlD0"), "/dev/hl0");
  EXPECT_EQ(compute_node_of("/dev/shm/hlsim-0/control1"), "/dev/shm/hlsim-0/device1");
}

TEST(compute_node, is_not_guessed) {
  for (const char* name : {"", "/dev/accel/accel0", "/dev/accel/accel_controlD", "/dev/controlD64"})
    EXPECT_EQ(compute_node_of(name), "") << name;
}

}  // namespace
}  // namespace gaudi::info
