// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "copy/host_pages.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>

namespace gaudi::copy {
namespace {

bool is_mapped(void* at) {
  return ::msync(at, 4096, MS_ASYNC) == 0;
}

TEST(host_pages, are_the_kernels_again_when_they_go) {
  std::byte* at = nullptr;
  {
    const auto pages = host_pages::allocate(5000);
    ASSERT_TRUE(pages);
    at = pages->data();
    EXPECT_EQ(pages->len(), 8192U);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(at) % 4096, 0U);
    EXPECT_TRUE(is_mapped(at) && is_mapped(at + 4096));
  }
  EXPECT_FALSE(is_mapped(at) || is_mapped(at + 4096));
}

// A device that writes to them would write to the parent's or the child's, as it happens.
TEST(host_pages, are_not_there_in_a_child_of_a_fork) {
  const auto pages = host_pages::allocate(4096);
  ASSERT_TRUE(pages);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(is_mapped(pages->data()) ? 1 : 0);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(is_mapped(pages->data()));
}

TEST(host_pages, are_one_owners) {
  auto first = host_pages::allocate(4096);
  ASSERT_TRUE(first);
  std::byte* const at = first->data();
  {
    const host_pages second = *std::move(first);
    EXPECT_EQ(second.data(), at);
    EXPECT_TRUE(is_mapped(at));
  }
  EXPECT_FALSE(is_mapped(at));
}

}  // namespace
}  // namespace gaudi::copy
