// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Which descriptors of a set are readable.
#include "base/event_set.hpp"

#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <vector>

namespace gaudi::base {
namespace {

class members : public testing::Test {
 protected:
  int add_one() {
    const int fd = all.emplace_back(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)).get();
    EXPECT_EQ(set->add(fd), 0);
    return fd;
  }
  static void ring(int fd) { EXPECT_EQ(::eventfd_write(fd, 1), 0); }

  result<event_set> set = event_set::open();
  std::vector<scoped_fd> all;
};

TEST_F(members, that_are_readable_are_known) {
  const int first = add_one();
  const int second = add_one();
  EXPECT_FALSE(set->ready().any_of(std::vector{first, second}));
  ring(second);
  const ready_fds ready = set->ready();
  EXPECT_FALSE(ready.any_of(std::vector{first}));
  EXPECT_TRUE(ready.any_of(std::vector{first, second}));
  EXPECT_TRUE(set->ready().any_of(std::vector{second})) << "it still is";
  set->remove(second);
  EXPECT_FALSE(set->ready().any_of(std::vector{second}));
}

// Nobody may be taken for quiet then.
TEST_F(members, that_are_too_many_may_all_be_readable) {
  const int quiet = add_one();
  for (int i = 0; i < 31; ++i) ring(add_one());
  EXPECT_FALSE(set->ready().any_of(std::vector{quiet}));
  ring(add_one());
  EXPECT_TRUE(set->ready().any_of(std::vector{quiet}));
}

TEST(ready_descriptors, may_be_any_or_none) {
  EXPECT_TRUE(ready_fds::any().any_of(std::vector{3}));
  EXPECT_FALSE(ready_fds::none().any_of(std::vector{3}));
}

}  // namespace
}  // namespace gaudi::base
