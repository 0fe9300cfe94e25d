// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "reg/dmabuf_ids.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "base/scoped_fd.hpp"

namespace gaudi::reg {
namespace {

TEST(dmabuf_ids, of_nothing_that_is_registered_are_dropped_once_there_are_many) {
  const base::scoped_fd file(::memfd_create("dma-buf", MFD_CLOEXEC));
  dmabuf_ids ids;
  const auto add_until = [&](std::size_t count) {
    while (ids.count() < count) {
      core::dmabuf_range part{};
      part.fd = file.get();
      part.offset = 4096 * ids.count();
      part.length = 4096;
      ASSERT_TRUE(ids.number_of(part));
    }
  };
  const auto nothing = [](std::uint64_t) { return false; };
  add_until(10);
  ids.prune(nothing);
  EXPECT_EQ(ids.count(), 10U) << "which is not worth a look";
  add_until(100);
  ids.prune(nothing);
  EXPECT_EQ(ids.count(), 0U);
}

}  // namespace
}  // namespace gaudi::reg
