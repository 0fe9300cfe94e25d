// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ipc/segment.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <rdma/fi_errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

namespace gaudi::ipc {
namespace {

TEST(segment, shows_both_ends_the_same_facts_and_rings) {
  base::scoped_fd memory;
  auto made = segment::make(4096, memory);
  ASSERT_TRUE(made);
  made->facts_of(end::maker).proof_value = 77;
  auto taken = segment::take(memory.get());
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->facts_of(end::maker).proof_value, 77U);
  EXPECT_EQ(taken->facts_of(end::taker).proof_value, 0U);

  for (const auto& [from, sends, reads] :
       {std::tuple{end::maker, &*made, &*taken}, std::tuple{end::taker, &*taken, &*made}}) {
    ring_writer out = sends->writer(from);
    ring_reader in = reads->reader(from);
    std::byte* const room = out.reserve(5);
    ASSERT_TRUE(room);
    std::memcpy(room, from == end::maker ? "ping" : "pong", 5);
    EXPECT_FALSE(out.commit(false));
    const auto packet = in.front();
    ASSERT_EQ(packet.size(), 5U);
    EXPECT_STREQ(reinterpret_cast<const char*>(packet.data()),
                 from == end::maker ? "ping" : "pong");
  }
}

TEST(segment, cannot_be_cut_by_who_has_its_descriptor) {
  base::scoped_fd memory;
  ASSERT_TRUE(segment::make(4096, memory));
  EXPECT_NE(::ftruncate(memory.get(), 0), 0);
  EXPECT_NE(::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_WRITE), 0);
}

TEST(segment, is_not_taken_where_it_could_be_cut) {
  const base::scoped_fd loose(::memfd_create("loose", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(loose.get(), 4096 + 2 * 4096), 0);
  EXPECT_EQ(segment::take(loose.get()).code(), -FI_EINVAL);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const base::scoped_fd out(ends[0]);
  const base::scoped_fd in(ends[1]);
  EXPECT_EQ(segment::take(out.get()).code(), -FI_EINVAL);
}

TEST(segment, is_not_taken_in_another_size_or_with_other_contents) {
  for (const off_t size : {0, 4096, 4096 + 2 * 4096, 4096 + 2 * 5000, 4096 + 2 * 512}) {
    const base::scoped_fd other(::memfd_create("other", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(::ftruncate(other.get(), size), 0);
    ASSERT_EQ(::fcntl(other.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
    EXPECT_EQ(segment::take(other.get()).code(), -FI_EINVAL) << size;
  }
}

}  // namespace
}  // namespace gaudi::ipc
