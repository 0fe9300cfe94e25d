// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ipc/peer_process.hpp"

#include <gtest/gtest.h>
#include <rdma/fi_errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <vector>

#include "../base/scarce_memory.hpp"
#include "ipc/host_kernel.hpp"

namespace gaudi::ipc {
namespace {

constexpr std::size_t page = 4096;

std::uint64_t address_of(const void* p) {
  return reinterpret_cast<std::uint64_t>(p);
}

/// A child with the memory that this process had, until it is ended.
class child {
 public:
  child() : pid_(::fork()) {
    if (pid_ == 0) {
      for (;;) ::pause();
    }
  }
  ~child() { end(); }
  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

class a_neighbour : public testing::Test {
 protected:
  a_neighbour() : cookie_(0x5eed), data_(3 * page) { std::iota(data_.begin(), data_.end(), 0); }

  std::uint64_t cookie_;
  std::vector<unsigned char> data_;
};

TEST_F(a_neighbour, is_read_and_written_in_its_own_memory) {
  const child other;
  auto found = peer_process::find(other.pid(), address_of(&cookie_), cookie_);
  ASSERT_TRUE(found) << found.code();
  const auto before = data_;
  std::vector<unsigned char> mine(5000, 9);
  ASSERT_EQ(found->write(address_of(&data_[100]), mine.data(), mine.size()), 0);
  EXPECT_EQ(data_, before) << "this process has its own";
  std::vector<unsigned char> back(data_.size());
  ASSERT_EQ(found->read(back.data(), address_of(data_.data()), back.size()), 0);
  auto expected = before;
  std::copy(mine.begin(), mine.end(), expected.begin() + 100);
  EXPECT_EQ(back, expected);
}

TEST_F(a_neighbour, is_only_who_has_the_proof) {
  const child other;
  EXPECT_EQ(peer_process::find(other.pid(), address_of(&cookie_), cookie_ + 1).code(), -FI_EINVAL);
  EXPECT_EQ(peer_process::find(other.pid(), 0, cookie_).code(), -FI_EFAULT);
  EXPECT_EQ(peer_process::find(0, address_of(&cookie_), cookie_).code(), -ESRCH);
}

TEST_F(a_neighbour, that_has_ended_is_not_taken_for_the_next_with_its_number) {
  child other;
  auto found = peer_process::find(other.pid(), address_of(&cookie_), cookie_);
  ASSERT_TRUE(found);
  other.end();
  std::array<unsigned char, 8> bytes{};
  EXPECT_EQ(found->read(bytes.data(), address_of(data_.data()), bytes.size()), -FI_ECONNRESET);
  EXPECT_EQ(found->write(address_of(data_.data()), bytes.data(), bytes.size()), -FI_ECONNRESET);
  // As where the next one is read: nothing but its end says that it was not the one.
  EXPECT_EQ(found->read(bytes.data(), address_of(data_.data()), 0), -FI_ECONNRESET);
}

TEST_F(a_neighbour, that_is_not_there_any_more_is_not_found) {
  child other;
  const pid_t gone = other.pid();
  other.end();
  EXPECT_EQ(peer_process::find(gone, address_of(&cookie_), cookie_).code(), -ESRCH);
}

// Who asks goes on without its memory.
TEST_F(a_neighbour, is_not_reached_where_there_is_no_memory_for_it) {
  const child other;
  const control_socket with{.socket = {}, .pid = other.pid()};
  int ret = 0;
  {
    const gaudi::test::scarce_memory none(0);
    ret = host_kernel::real().find(with, address_of(&cookie_), cookie_).code();
  }
  EXPECT_EQ(ret, -FI_ENOMEM);
  EXPECT_TRUE(host_kernel::real().find(with, address_of(&cookie_), cookie_));
}

TEST_F(a_neighbour, is_told_from_this_process) {
  const child other;
  const auto found = peer_process::find(other.pid(), address_of(&cookie_), cookie_);
  const auto self = peer_process::find(::getpid(), address_of(&cookie_), cookie_);
  ASSERT_TRUE(found && self);
  EXPECT_FALSE(found->is_this_process());
  EXPECT_TRUE(self->is_this_process());
}

TEST_F(a_neighbour, has_no_memory_beyond_its_own) {
  void* const hole =
      ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(hole, MAP_FAILED);
  ASSERT_EQ(::munmap(static_cast<char*>(hole) + page, page), 0);
  const child other;
  auto found = peer_process::find(other.pid(), address_of(&cookie_), cookie_);
  ASSERT_TRUE(found);
  std::vector<unsigned char> bytes(2 * page);
  EXPECT_EQ(found->read(bytes.data(), address_of(hole), page), 0);
  EXPECT_EQ(found->read(bytes.data(), address_of(hole), bytes.size()), -FI_EFAULT);
  EXPECT_EQ(found->write(address_of(hole), bytes.data(), bytes.size()), -FI_EFAULT);
  ::munmap(hole, page);
}

}  // namespace
}  // namespace gaudi::ipc
