// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ipc/segment.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <rdma/fi_errno.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "../mappings.hpp"
#include "ipc/host_kernel.hpp"

namespace gaudi::ipc {
namespace {

segment_shape rings_of(std::size_t capacity) {
  return {.capacity = capacity, .slots = 0, .slot_size = 0};
}

TEST(segment, shows_both_ends_the_same_facts_and_rings) {
  base::scoped_fd memory;
  auto made = segment::make(rings_of(4096), memory, host_kernel::real());
  ASSERT_TRUE(made);
  made->peer_info_of(end::creator).probe_cookie = 77;
  auto taken = segment::take(memory.get(), host_kernel::real());
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->peer_info_of(end::creator).probe_cookie, 77U);
  EXPECT_EQ(taken->peer_info_of(end::attacher).probe_cookie, 0U);

  for (const auto& [from, sends, reads] :
       {std::tuple{end::creator, &*made, &*taken}, std::tuple{end::attacher, &*taken, &*made}}) {
    ring_writer out = sends->writer(from);
    ring_reader in = reads->reader(from);
    std::byte* const room = out.reserve(5);
    ASSERT_TRUE(room);
    std::memcpy(room, from == end::creator ? "ping" : "pong", 5);
    EXPECT_FALSE(out.commit(false));
    const auto packet = in.front();
    ASSERT_EQ(packet.size(), 5U);
    EXPECT_STREQ(reinterpret_cast<const char*>(packet.data()),
                 from == end::creator ? "ping" : "pong");
  }
}

TEST(segment, has_slots_each_way_that_overlap_nothing) {
  base::scoped_fd memory;
  auto made =
      segment::make({.capacity = 1024, .slots = 3, .slot_size = 8192}, memory, host_kernel::real());
  ASSERT_TRUE(made);
  auto taken = segment::take(memory.get(), host_kernel::real());
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->shape(), made->shape());
  ASSERT_EQ(made->slots_to(end::creator).size(), 3U * 8192);
  made->peer_info_of(end::creator).probe_cookie = 5;
  std::byte* const room = made->writer(end::attacher).reserve(100);
  ASSERT_TRUE(room);
  std::memset(room, 7, 100);
  unsigned char fill = 1;
  for (const end to : {end::creator, end::attacher}) {
    const auto slots = made->slots_to(to);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(slots.data()) % 4096, 0U) << "devices pin pages";
    std::memset(slots.data(), fill++, slots.size());
  }
  EXPECT_EQ(made->peer_info_of(end::creator).probe_cookie, 5U);
  EXPECT_EQ(room[0], std::byte{7});
  EXPECT_EQ(room[99], std::byte{7});
  EXPECT_EQ(taken->slots_to(end::creator).front(), std::byte{1});
  EXPECT_EQ(taken->slots_to(end::creator).back(), std::byte{1});
  EXPECT_EQ(taken->slots_to(end::attacher).front(), std::byte{2});
  EXPECT_EQ(taken->slots_to(end::attacher).back(), std::byte{2});
}

TEST(segment, is_not_made_in_an_impossible_shape) {
  base::scoped_fd memory;
  for (const segment_shape& s :
       {segment_shape{1000, 0, 0}, segment_shape{512, 0, 0}, segment_shape{1024, 1, 5000},
        segment_shape{1024, 1 << 20, 4096}, segment_shape{1024, 1, std::uint64_t{1} << 40}})
    EXPECT_EQ(segment::make(s, memory, host_kernel::real()).code(), -FI_EINVAL);
}

TEST(segment, is_not_made_without_a_descriptor) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  base::scoped_fd memory;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const int refused = segment::make(rings_of(4096), memory, host_kernel::real()).code();
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(refused, -EMFILE);
}

TEST(segment, is_neither_made_nor_taken_where_it_cannot_be_mapped) {
  struct without_memory final : host_kernel {
    base::result<void*> map(int, std::size_t) override { return base::error{-FI_ENOMEM}; }
    void unmap(void*, std::size_t) noexcept override { ADD_FAILURE() << "nothing was mapped"; }
  } kernel;
  base::scoped_fd memory;
  EXPECT_EQ(segment::make(rings_of(4096), memory, kernel).code(), -FI_ENOMEM);
  ASSERT_TRUE(segment::make(rings_of(4096), memory, host_kernel::real()));
  EXPECT_EQ(segment::take(memory.get(), kernel).code(), -FI_ENOMEM);
}

TEST(segment, is_made_up_to_the_limits) {
  constexpr std::size_t largest_ring = std::size_t{1} << 28, largest_slot = std::size_t{1} << 30;
  for (const segment_shape& s : {segment_shape{largest_ring, 0, 0}, segment_shape{1024, 1024, 4096},
                                 segment_shape{1024, 1, largest_slot}}) {
    base::scoped_fd memory;
    EXPECT_TRUE(segment::make(s, memory, host_kernel::real()))
        << s.capacity << " " << s.slots << " " << s.slot_size;
  }
  for (const segment_shape& s :
       {segment_shape{2 * largest_ring, 0, 0}, segment_shape{1024, 1025, 4096},
        segment_shape{1024, 1, largest_slot + 4096}}) {
    base::scoped_fd memory;
    EXPECT_EQ(segment::make(s, memory, host_kernel::real()).code(), -FI_EINVAL);
  }
}

TEST(segment, is_as_long_as_its_parts_and_the_kernels_again_when_it_goes) {
  base::scoped_fd memory;
  {
    const auto made = segment::make({.capacity = 8192, .slots = 3, .slot_size = 8192}, memory,
                                    host_kernel::real());
    ASSERT_TRUE(made);
    EXPECT_EQ(gaudi::test::mapped_file(memory.get()).mappings(), 1U);
  }
  struct stat facts {};
  ASSERT_EQ(::fstat(memory.get(), &facts), 0);
  EXPECT_EQ(facts.st_size, 4096 + 2 * 8192 + 2 * 3 * 8192);
  EXPECT_EQ(gaudi::test::mapped_file(memory.get()).mappings(), 0U);
}

TEST(segment, is_not_taken_where_its_head_says_more_than_there_is) {
  base::scoped_fd memory;
  ASSERT_TRUE(segment::make({.capacity = 1024, .slots = 3, .slot_size = 8192}, memory,
                            host_kernel::real()));
  // Where the shape lies: behind the magic number.
  for (const segment_shape& s :
       {segment_shape{1024, 4, 8192}, segment_shape{4096, 3, 8192}, segment_shape{1024, 3, 4096},
        segment_shape{1024, UINT64_MAX / 8192, 8192}}) {
    ASSERT_EQ(::pwrite(memory.get(), &s, sizeof s, 8), static_cast<ssize_t>(sizeof s));
    EXPECT_EQ(segment::take(memory.get(), host_kernel::real()).code(), -FI_EINVAL);
  }
  const segment_shape same{1024, 3, 8192};
  ASSERT_EQ(::pwrite(memory.get(), &same, sizeof same, 8), static_cast<ssize_t>(sizeof same));
  EXPECT_TRUE(segment::take(memory.get(), host_kernel::real()));
}

TEST(segment, cannot_be_cut_by_who_has_its_descriptor) {
  base::scoped_fd memory;
  ASSERT_TRUE(segment::make(rings_of(4096), memory, host_kernel::real()));
  EXPECT_NE(::ftruncate(memory.get(), 0), 0);
  EXPECT_NE(::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_WRITE), 0);
}

// All that is wrong with it is that the other process could cut it under this one's reads.
TEST(segment, that_is_well_formed_is_not_taken_unsealed) {
  base::scoped_fd memory;
  ASSERT_TRUE(segment::make(rings_of(4096), memory, host_kernel::real()));
  struct stat facts {};
  ASSERT_EQ(::fstat(memory.get(), &facts), 0);
  std::vector<char> bytes(static_cast<std::size_t>(facts.st_size));
  ASSERT_EQ(::pread(memory.get(), bytes.data(), bytes.size(), 0), facts.st_size);
  const base::scoped_fd copy(::memfd_create("copy", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::pwrite(copy.get(), bytes.data(), bytes.size(), 0), facts.st_size);
  EXPECT_EQ(segment::take(copy.get(), host_kernel::real()).code(), -FI_EINVAL);
  ASSERT_EQ(::fcntl(copy.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  EXPECT_TRUE(segment::take(copy.get(), host_kernel::real()));
}

// It would keep the memory of a connection that it has no part in.
TEST(segment, is_not_mapped_in_a_child_of_fork) {
  base::scoped_fd memory;
  auto made =
      segment::make({.capacity = 1024, .slots = 1, .slot_size = 4096}, memory, host_kernel::real());
  ASSERT_TRUE(made);
  auto taken = segment::take(memory.get(), host_kernel::real());
  ASSERT_TRUE(taken);
  for (segment* const one : {&*made, &*taken}) {
    std::byte* const slot = one->slots_to(end::creator).data();
    ASSERT_EQ(::msync(slot, 4096, MS_ASYNC), 0);
    const pid_t child = ::fork();
    if (child == 0) ::_exit(::msync(slot, 4096, MS_ASYNC) != 0 && errno == ENOMEM ? 0 : 1);
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
}

TEST(segment, is_not_taken_where_it_could_be_cut) {
  const base::scoped_fd loose(::memfd_create("loose", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(loose.get(), 4096 + 2 * 4096), 0);
  EXPECT_EQ(segment::take(loose.get(), host_kernel::real()).code(), -FI_EINVAL);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const base::scoped_fd out(ends[0]);
  const base::scoped_fd in(ends[1]);
  EXPECT_EQ(segment::take(out.get(), host_kernel::real()).code(), -FI_EINVAL);
}

TEST(segment, is_not_taken_in_another_size_or_with_other_contents) {
  for (const off_t size : {0, 4096, 4096 + 2 * 4096, 4096 + 2 * 5000, 4096 + 2 * 512}) {
    const base::scoped_fd other(::memfd_create("other", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(::ftruncate(other.get(), size), 0);
    ASSERT_EQ(::fcntl(other.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
    EXPECT_EQ(segment::take(other.get(), host_kernel::real()).code(), -FI_EINVAL) << size;
  }
}

// Nothing is looked for behind the end of a file, which would be a SIGBUS.
TEST(segment, is_not_mapped_where_there_is_not_even_a_head) {
  struct without_mappings final : host_kernel {
    base::result<void*> map(int, std::size_t length) override {
      ADD_FAILURE() << length << " bytes";
      return base::error{-FI_ENOMEM};
    }
  } kernel;
  for (const off_t size : {0, 1, 4095}) {
    const base::scoped_fd small(::memfd_create("small", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(::ftruncate(small.get(), size), 0);
    ASSERT_EQ(::fcntl(small.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
    EXPECT_EQ(segment::take(small.get(), kernel).code(), -FI_EINVAL) << size;
  }
}

}  // namespace
}  // namespace gaudi::ipc
