// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "ipc/shm_channel.hpp"

#include <gtest/gtest.h>
#include <rdma/fi_errno.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "handshakes.hpp"

namespace gaudi::ipc {
namespace {

const shm_channel::config plain{.largest_packet = 4096, .sleeps = false};

std::string next_packet(shm_channel& l) {
  for (int i = 0; i < 1'000'000; ++i) {
    const auto packet = l.in().front();
    if (packet.empty()) continue;
    std::string text(reinterpret_cast<const char*>(packet.data()), packet.size());
    l.in().pop();
    return text;
  }
  return "nothing came";
}

void put(shm_channel& l, const std::string& text) {
  std::byte* const room = l.out().reserve(text.size());
  ASSERT_TRUE(room);
  std::memcpy(room, text.data(), text.size());
  EXPECT_FALSE(l.out().commit(false));
}

struct both_ends {
  std::unique_ptr<shm_channel> creator;
  std::unique_ptr<shm_channel> attacher;
};

both_ends linked(const shm_channel::config& makers = plain,
                 const shm_channel::config& takers = plain) {
  const auto instance = new_instance();
  auto point = fd_listener::open(instance);
  EXPECT_TRUE(point);
  auto made = shm_channel::make(to(instance), makers);
  EXPECT_TRUE(made) << made.code();
  EXPECT_FALSE((*made)->agreed().has_value());
  auto came = point->take(to(instance));
  EXPECT_TRUE(came.has_value());
  auto taken = shm_channel::take(std::move(*came), takers);
  EXPECT_TRUE(taken) << taken.code();
  EXPECT_EQ((*made)->agreed(), true);
  return {std::move(*made), std::move(*taken)};
}

// The kernel tells of an end before a packet that came just before it, once in some 10,000 rounds.
TEST(shm_channel, a_yes_is_heard_of_a_taker_that_goes_on_at_once) {
  constexpr std::chrono::seconds long_enough{2};
  constexpr int none = -1;
  constexpr int last = -2;
  std::atomic<int> takers_end = none;
  std::thread attacher([&] {
    for (int socket = none; socket != last; socket = takers_end) {
      if (socket == none) continue;
      EXPECT_EQ(answer({.socket = base::scoped_fd(socket)}, true), 0);
      takers_end = none;
    }
  });
  int lost = 0;
  const auto end = std::chrono::steady_clock::now() + long_enough;
  while (std::chrono::steady_clock::now() < end) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ends.data()), 0);
    const control_socket with{.socket = base::scoped_fd(ends[0])};
    takers_end = ends[1];
    std::optional<bool> said;
    while (!said) said = answer_of(with);
    if (said != true) ++lost;
    while (takers_end != none) std::this_thread::yield();
  }
  takers_end = last;
  attacher.join();
  EXPECT_EQ(lost, 0);
}

TEST(shm_channel, a_no_is_heard_as_well) {
  for (const bool says : {false, true}) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ends.data()), 0);
    const control_socket here{.socket = base::scoped_fd(ends[0])};
    const control_socket there{.socket = base::scoped_fd(ends[1])};
    EXPECT_FALSE(answer_of(here).has_value());
    EXPECT_EQ(answer(there, says), 0);
    EXPECT_EQ(answer_of(here), says);
  }
}

TEST(shm_channel, carries_packets_both_ways) {
  const auto l = linked();
  put(*l.creator, "from the maker");
  put(*l.attacher, "from the taker");
  EXPECT_EQ(next_packet(*l.attacher), "from the maker");
  EXPECT_EQ(next_packet(*l.creator), "from the taker");
}

TEST(shm_channel, has_room_for_the_largest_packet_of_an_end) {
  const auto l = linked({.largest_packet = 1 << 20, .sleeps = false});
  const std::string packet(1 << 20, 'x');
  put(*l.creator, packet);
  EXPECT_EQ(next_packet(*l.attacher), packet);
}

TEST(shm_channel, has_room_for_a_packet_that_is_no_power_of_two) {
  constexpr std::size_t length = (1 << 20) + 8;
  const auto l = linked({.largest_packet = length, .sleeps = false});
  const std::string packet(length, 'x');
  put(*l.creator, packet);
  EXPECT_EQ(next_packet(*l.attacher), packet);
}

TEST(shm_channel, has_slots_of_whole_pages_that_both_ends_see) {
  for (const auto& [asked, size] : {std::pair{4096, 4096}, std::pair{5000, 8192}}) {
    const auto l = linked({.largest_packet = 4096,
                           .sleeps = false,
                           .slots = 2,
                           .slot_size = static_cast<std::size_t>(asked)});
    EXPECT_EQ(l.creator->slot_size(), static_cast<std::size_t>(size));
    ASSERT_EQ(l.creator->slots_out().size(), 2U * static_cast<std::size_t>(size));
    ASSERT_EQ(l.attacher->slots_in().size(), l.creator->slots_out().size());
    l.creator->slots_out().front() = std::byte{1};
    l.attacher->slots_out().back() = std::byte{2};
    EXPECT_EQ(l.attacher->slots_in().front(), std::byte{1});
    EXPECT_EQ(l.creator->slots_in().back(), std::byte{2});
  }
}

TEST(shm_channel, knows_that_both_ends_are_in_one_process) {
  const auto l = linked();
  EXPECT_TRUE(l.creator->is_within_process());
  EXPECT_TRUE(l.attacher->is_within_process());
}

// By it an end proves that it has found the other's memory, and no memory of a channel before.
TEST(shm_channel, has_a_cookie_of_its_own) {
  std::set<std::uint64_t> cookies;
  constexpr unsigned count = 3;
  for (unsigned i = 0; i < count; ++i) {
    const auto instance = new_instance();
    auto point = fd_listener::open(instance);
    ASSERT_TRUE(point);
    const auto made = shm_channel::make(to(instance), plain);
    auto came = point->take(to(instance));
    ASSERT_TRUE(made && came);
    auto memory = segment::take(came->memory.get(), host_kernel::real());
    ASSERT_TRUE(memory);
    cookies.insert(memory->peer_info_of(end::creator).probe_cookie);
  }
  EXPECT_EQ(cookies.size(), count);
}

TEST(shm_channel, tells_each_end_whether_the_other_sleeps) {
  const auto l = linked({.largest_packet = 4096, .sleeps = true}, plain);
  EXPECT_TRUE(l.attacher->peer_sleeps());
  EXPECT_FALSE(l.creator->peer_sleeps());
}

TEST(shm_channel, reaches_the_memory_of_a_process_that_the_kernel_allows) {
  const auto l = linked();
  ASSERT_TRUE(l.creator->cma()) << l.creator->cma_errno();
  ASSERT_TRUE(l.attacher->cma());
  const int value = 5;
  int copy = 0;
  EXPECT_EQ(l.creator->cma()->read(&copy, reinterpret_cast<std::uint64_t>(&value), sizeof copy), 0);
  EXPECT_EQ(copy, 5);
}

TEST(shm_channel, leaves_no_descriptor_but_one_for_each_reached_process) {
  const int before = open_descriptors();
  {
    const auto l = linked();
    EXPECT_EQ(open_descriptors(), before + 2);
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(shm_channel, is_not_made_in_a_shape_that_no_segment_has) {
  constexpr std::size_t too_many = 1 << 20;
  EXPECT_EQ(shm_channel::make(
                to(new_instance()),
                {.largest_packet = 4096, .sleeps = false, .slots = too_many, .slot_size = 4096})
                .code(),
            -FI_EINVAL);
}

TEST(shm_channel, to_nobody_is_refused) {
  EXPECT_EQ(shm_channel::make(to(new_instance()), plain).code(), -FI_ECONNREFUSED);
}

TEST(shm_channel, is_no_more_when_the_taker_is_gone_before_it_took_it) {
  const auto instance = new_instance();
  auto made = [&] {
    auto point = fd_listener::open(instance);
    EXPECT_TRUE(point);
    return shm_channel::make(to(instance), plain);
  }();
  ASSERT_TRUE(made);
  EXPECT_EQ((*made)->agreed(), false);
}

TEST(fd_listener, gives_each_connection_what_came_for_it) {
  const auto instance = new_instance();
  auto point = fd_listener::open(instance);
  ASSERT_TRUE(point);
  auto first = shm_channel::make(to(instance, 1), plain);
  auto second = shm_channel::make(to(instance, 2), plain);
  ASSERT_TRUE(first && second);
  EXPECT_FALSE(point->take(to(instance, 3)).has_value());
  auto came = point->take(to(instance, 2));
  ASSERT_TRUE(came.has_value());
  auto taken = shm_channel::take(std::move(*came), plain);
  ASSERT_TRUE(taken);
  put(**second, "the second");
  EXPECT_EQ(next_packet(**taken), "the second");
  EXPECT_FALSE(point->take(to(instance, 2)).has_value()) << "only once";
  EXPECT_TRUE(point->take(to(instance, 1)).has_value());
}

TEST(shm_channel, joins_two_processes) {
  const auto instance = new_instance();
  auto point = fd_listener::open(instance);
  ASSERT_TRUE(point);
  const pid_t other = ::fork();
  if (other == 0) {
    auto made = shm_channel::make(to(instance), plain);
    bool well = static_cast<bool>(made);
    while (well && !(*made)->agreed().has_value()) ::usleep(100);
    if (well) put(**made, "from another process");
    for (int i = 0; well && i < 50'000 && (*made)->in().front().empty(); ++i) ::usleep(100);
    well = well && next_packet(**made) == "seen" && (*made)->cma() != nullptr;
    ::_exit(well ? 0 : 1);
  }
  std::optional<received_fd> came;
  for (int i = 0; i < 50'000 && !came; ++i) {
    came = point->take(to(instance));
    ::usleep(100);
  }
  ASSERT_TRUE(came.has_value());
  auto taken = shm_channel::take(std::move(*came), plain);
  ASSERT_TRUE(taken);
  for (int i = 0; i < 50'000 && (*taken)->in().front().empty(); ++i) ::usleep(100);
  EXPECT_EQ(next_packet(**taken), "from another process");
  put(**taken, "seen");
  int status = -1;
  ::waitpid(other, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace gaudi::ipc
