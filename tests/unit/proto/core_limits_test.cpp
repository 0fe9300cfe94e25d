// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the core takes: so many operations at a time, and so many bytes in each.
#include <dlfcn.h>
#include <poll.h>

#include <algorithm>
#include <array>

#include "../reg/fake_nic.hpp"
#include "endpoint_node.hpp"

namespace {
/// Descriptors that poll(2) was asked about by this thread: those that watch devices poll, too.
thread_local unsigned long polled_descriptors = 0;

int count_and_poll(pollfd* fds, nfds_t count, int timeout) {
  using function = int (*)(pollfd*, nfds_t, int);
  static const auto real = reinterpret_cast<function>(dlsym(RTLD_NEXT, "poll"));
  polled_descriptors += count;
  return real(fds, count, timeout);
}
}  // namespace

// The core's calls, too, come here.
extern "C" {
[[gnu::visibility("default")]] int poll(pollfd* fds, nfds_t count, int timeout) {
  return count_and_poll(fds, count, timeout);
}
[[gnu::visibility("default")]] int __poll_chk(pollfd* fds, nfds_t count, int timeout, std::size_t) {
  return count_and_poll(fds, count, timeout);
}
}

namespace gaudi::proto {
namespace {

using test::counting;
using test::live_node;
using test::memory_of;
using test::node;
using test::number;
using test::pass;
using test::post;
using test::progress_until;
using test::wait;

endpoint::settings without_links() {
  auto s = test::small_settings();
  s.kernel = nullptr;
  return s;
}

TEST(core_limits, stop_the_application_before_the_queue_overruns) {
  constexpr std::size_t room = 16;
  auto config = without_links();
  config.core_operations = room;
  live_node a(config);
  live_node b(without_links());
  live_node c(without_links());
  const std::array peers{a.meet(b), a.meet(c)};
  pass(a, peers[0], b, 10, 1);
  pass(a, peers[1], c, 10, 1);
  std::vector<std::byte> target(100);
  std::array<reg::region, 2> there;
  b.expose(there[0], target);
  c.expose(there[1], target);
  auto bytes = counting(100);
  const auto write = [&](std::size_t i) {
    return a.ep->write(memory_of(bytes.data(), bytes.size()),
                       {.target = peers[i % 2],
                        .address = there[i % 2].address,
                        .key = there[i % 2].key,
                        .completion = a.completion(number(i))});
  };
  std::size_t posted = 0;
  int ret = 0;
  while (posted < 10 * room && (ret = write(posted)) == 0) ++posted;
  EXPECT_EQ(posted, room) << "of all peers together";
  EXPECT_EQ(ret, -FI_EAGAIN);
  for (; posted < 10 * room; ++posted)
    ASSERT_EQ(post({&a, &b, &c}, [&] { return write(posted); }), 0);
  for (std::size_t i = 0; i < posted; ++i) ASSERT_EQ(wait(a, {&a, &b, &c}).error, 0) << i;
}

TEST(core_limits, are_counted_for_each_send_that_there_is_no_room_for) {
  constexpr std::size_t length = 1000;  // more than the core injects
  auto config = without_links();
  config.core_operations = 2;
  live_node a(config);
  live_node b(without_links());
  const auto to = a.meet(b);
  pass(a, to, b, 10, 1);
  auto bytes = counting(length);
  const auto send = [&] { return a.send(to, memory_of(bytes.data(), length), 2, nullptr); };
  const std::uint64_t before = a.paths.stalls.local;
  EXPECT_EQ(send(), 0);
  EXPECT_EQ(send(), 0);
  EXPECT_EQ(a.paths.stalls.local, before);
  EXPECT_EQ(send(), -FI_EAGAIN);
  EXPECT_EQ(a.paths.stalls.local, before + 1);
  std::vector<std::byte> got(length);
  for (int i = 0; i < 2; ++i) ASSERT_EQ(b.receive(memory_of(got.data(), length), 2, nullptr), 0);
  EXPECT_TRUE(progress_until({&a, &b}, [&] { return a.queue.size() == 2 && b.queue.size() == 2; }));
}

// Long transfers, which the application started, wait for their turn.
TEST(core_limits, let_everything_through_in_the_end) {
  auto config = without_links();
  config.core_operations = 2;
  live_node a(config);
  live_node b(config);
  const auto to = a.meet(b);
  constexpr unsigned count = 20;
  constexpr std::size_t length = 100'000;
  auto sent = counting(length);
  std::vector<std::vector<std::byte>> got(count, std::vector<std::byte>(length));
  for (unsigned i = 0; i < count; ++i) {
    ASSERT_EQ(b.receive(memory_of(got[i].data(), length), i, number(i)), 0);
    ASSERT_EQ(
        post({&a, &b}, [&] { return a.send(to, memory_of(sent.data(), length), i, number(i)); }),
        0);
  }
  for (unsigned i = 0; i < count; ++i) ASSERT_EQ(wait(b, {&a, &b}).error, 0);
  EXPECT_TRUE(std::all_of(got.begin(), got.end(), [&](const auto& g) { return g == sent; }));
}

/// Whose core takes no more than `length` bytes at a time.
struct short_node : node {
  explicit short_node(std::size_t length) : node(without_links()) {
    core->info().ep_attr->max_msg_size = length;
    EXPECT_TRUE(ep->enable());
  }
};

TEST(core_limits, of_length_cut_long_transfers_into_pieces) {
  constexpr std::size_t length = 1'000'000;
  constexpr std::size_t piece = 300'000;
  short_node a(piece);
  short_node b(piece);
  const auto to = a.meet(b);
  auto sent = counting(length);
  std::vector<std::byte> got(length);
  ASSERT_EQ(b.receive(memory_of(got.data(), length), 1, &got), 0);
  ASSERT_EQ(post({&a, &b}, [&] { return a.send(to, memory_of(sent.data(), length), 1, &sent); }),
            0);
  EXPECT_EQ(wait(b, {&a, &b}).error, 0);
  EXPECT_TRUE(got == sent);
  const std::uint64_t written = a.paths.direct_ops;
  EXPECT_EQ(b.core->reads_safely() ? b.paths.direct_ops : written, 4U) << "reads of the core";

  std::vector<std::byte> target(length);
  reg::region r;
  b.expose(r, target);
  EXPECT_EQ(wait(a, {&a, &b}).error, 0);
  const rma_access at{
      .target = to, .address = r.address, .key = r.key, .completion = a.completion(&r)};
  ASSERT_EQ(post({&a, &b}, [&] { return a.ep->write(memory_of(sent.data(), length), at); }), 0);
  EXPECT_EQ(wait(a, {&a, &b}).error, 0);
  EXPECT_TRUE(progress_until({&a, &b}, [&] { return target == sent; }));
  EXPECT_EQ(a.paths.direct_ops - written, 4U) << "writes of the core";
}

/// Writes down what the core's completion queues are opened to be waited for by.
class watched_queues {
 public:
  explicit watched_queues(core::inner_domain& core) : domain_(*core.domain()), real_(domain_.ops) {
    ops_ = *real_;
    ops_.cq_open = [](fid_domain* d, fi_cq_attr* attr, fid_cq** out, void* context) {
      opened().push_back(attr->wait_obj);
      return self()->real_->cq_open(d, attr, out, context);
    };
    opened().clear();
    self() = this;
    domain_.ops = &ops_;
  }
  ~watched_queues() { domain_.ops = real_; }
  watched_queues(const watched_queues&) = delete;
  watched_queues& operator=(const watched_queues&) = delete;

  static std::vector<fi_wait_obj>& opened() {
    static std::vector<fi_wait_obj> all;
    return all;
  }

 private:
  static watched_queues*& self() {
    static watched_queues* one;
    return one;
  }

  fid_domain& domain_;
  fi_ops_domain* const real_;
  fi_ops_domain ops_{};
};

// Of releases that look at each connection at each read, unless the queue can be waited for.
TEST(core_queue, can_be_waited_for_where_it_is_read_sooner_so) {
  if (fi_version() >= FI_VERSION(1, 18)) GTEST_SKIP() << "this libfabric is none of them";
  for (const bool is_newer : {false, true}) {
    node n(without_links());
    {
      const watched_queues watched(*n.core);
      gaudi::test::fake_nic::knows_dmabufs = is_newer;
      EXPECT_TRUE(n.ep->enable());
      gaudi::test::fake_nic::knows_dmabufs = false;
    }
    EXPECT_EQ(watched_queues::opened(), std::vector{is_newer ? FI_WAIT_NONE : FI_WAIT_FD});
  }
}

TEST(core_queue, is_read_without_a_look_at_each_connection) {
  live_node a(without_links());
  std::vector<std::unique_ptr<live_node>> peers;
  for (int i = 0; i < 20; ++i) {
    peers.push_back(std::make_unique<live_node>(without_links()));
    pass(a, a.meet(*peers.back()), *peers.back(), 10, 1);
  }
  constexpr unsigned reads = 1000;
  polled_descriptors = 0;
  for (unsigned i = 0; i < reads; ++i) a.ep->progress();
  EXPECT_LT(polled_descriptors, reads);
}

}  // namespace
}  // namespace gaudi::proto
