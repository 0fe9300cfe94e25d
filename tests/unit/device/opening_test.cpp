// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the child of a fork has, and may use, of what its parent has opened.
#include "device/opening.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../child.hpp"
#include "base/fork_generation.hpp"
#include "base/scoped_fd.hpp"

namespace gaudi::device {
namespace {

const std::string here = "0000:19:00.0";
const std::string elsewhere = "0000:1a:00.0";

using gaudi::test::holds_in_child;

class an_opening : public testing::Test {
 protected:
  an_opening() { base::fork_generation(); }
  base::scoped_fd file_{::memfd_create("a device", MFD_CLOEXEC)};
};

TEST_F(an_opening, is_closed_in_the_child_and_stays_open_here) {
  const gaudi::device::opening one(here, 1, file_.get());
  EXPECT_TRUE(holds_in_child([&] { return ::fcntl(file_.get(), F_GETFD) == -1; }));
  EXPECT_GE(::fcntl(file_.get(), F_GETFD), 0);
}

TEST_F(an_opening, that_has_ended_is_left_alone) {
  gaudi::device::opening one(here, 1, file_.get());
  one.end();
  EXPECT_TRUE(holds_in_child([&] {
    return ::fcntl(file_.get(), F_GETFD) >= 0 && !gaudi::device::opening::used_after_fork(here, 1);
  }));
}

TEST_F(an_opening, is_the_parents_in_the_child_and_no_other_is) {
  const gaudi::device::opening one(here, 5, file_.get());
  EXPECT_FALSE(gaudi::device::opening::used_after_fork(here, 5));
  EXPECT_TRUE(holds_in_child([] { return gaudi::device::opening::used_after_fork(here, 5); }));
  EXPECT_TRUE(holds_in_child([] { return !gaudi::device::opening::used_after_fork(here, 6); }));
  EXPECT_TRUE(
      holds_in_child([] { return !gaudi::device::opening::used_after_fork(elsewhere, 5); }));
}

TEST_F(an_opening, is_taken_for_the_same_where_the_library_does_not_count) {
  const gaudi::device::opening counted(here, 5, file_.get());
  EXPECT_TRUE(holds_in_child([] { return gaudi::device::opening::used_after_fork(here, 0); }));
  const base::scoped_fd other(::memfd_create("another", MFD_CLOEXEC));
  const gaudi::device::opening uncounted(elsewhere, 0, other.get());
  EXPECT_TRUE(holds_in_child([] { return gaudi::device::opening::used_after_fork(elsewhere, 7); }));
}

TEST_F(an_opening, is_another_when_it_was_renewed) {
  gaudi::device::opening one(here, 5, file_.get());
  one.renew(6);
  EXPECT_TRUE(holds_in_child([] {
    return gaudi::device::opening::used_after_fork(here, 6) &&
           !gaudi::device::opening::used_after_fork(here, 5);
  }));
}

}  // namespace
}  // namespace gaudi::device
