// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Messages and tagged messages between processes, in host memory that is not registered.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <thread>

#include "node.hpp"

namespace gaudi::test {
namespace {

using bytes = std::vector<std::byte>;

constexpr std::size_t kib = 1024;
constexpr std::size_t mib = 1024 * kib;

// Around the eager limits, the chunk sizes and their neighbours.
const std::vector<std::size_t> sizes{
    0,      1,         7,       64,      1023,    4 * kib, 16 * kib - 1, 16 * kib, 16 * kib + 1,
    100001, 512 * kib, mib + 3, 8 * mib, 64 * mib};

// Messages without FI_MR_LOCAL, as MPI uses them.
node_options plain() {
  return {.mr_mode = 0};
}

// The bytes stay until the process ends, so that a caller may give a temporary.
void tsend(node& n, int to, bytes bytes_to_send, std::uint64_t tag, void* context) {
  static std::deque<bytes> kept;
  const bytes& data = kept.emplace_back(std::move(bytes_to_send));
  n.post([&] {
    return fi_tsend(n.ep(), data.data(), data.size(), nullptr, n.peer(to), tag, context);
  });
}

void trecv(node& n, bytes& data, std::uint64_t tag, std::uint64_t ignore, void* context,
           fi_addr_t from = FI_ADDR_UNSPEC) {
  n.post([&] {
    return fi_trecv(n.ep(), data.data(), data.size(), nullptr, from, tag, ignore, context);
  });
}

// Rank 0 sends with `send`, rank 1 receives with `receive`; both get an open endpoint.
void sender_and_receiver(const node_options& options, const std::function<void(node&, rank&)>& send,
                         const std::function<void(node&, rank&)>& receive) {
  run({}, [&](rank& r) {
    node n(options);
    n.meet(r);
    (r.id() == 0 ? send : receive)(n, r);
    r.barrier();
  });
}

// TEST_MAX_SIZE, in bytes, is for who repeats this many times (hooks.sh).
std::size_t max_size() {
  const char* const said = std::getenv("TEST_MAX_SIZE");
  return said ? std::strtoull(said, nullptr, 10) : sizes.back();
}

using end_of_message = std::function<void(node&, rank&, const bytes&)>;

// The same for a message of each size, between endpoints that have said nothing before. The two
// processes are the same.
void with_every_size(std::uint64_t seed, const end_of_message& send,
                     const end_of_message& receive) {
  run({}, [&](rank& r) {
    for (const std::size_t size : sizes) {
      if (size > max_size()) break;
      SCOPED_TRACE(size);
      const bytes data = bytes_of(size + seed, size);
      node n(plain());
      n.meet(r);
      (r.id() == 0 ? send : receive)(n, r, data);
      r.barrier();
    }
  });
}

TEST(every_size, tagged_arrives_whole) {
  with_every_size(
      0,
      [](node& n, rank&, const bytes& data) {
        tsend(n, 1, data, 7, ctx(1));
        EXPECT_EQ(0, n.wait(ctx(1)).err);
      },
      [](node& n, rank&, const bytes& data) {
        bytes in(data.size());
        trecv(n, in, 7, 0, ctx(2));
        const completion c = n.wait(ctx(2));
        EXPECT_EQ(0, c.err);
        EXPECT_EQ(data.size(), c.len);
        EXPECT_EQ(7U, c.tag);
        EXPECT_EQ(FI_TAGGED | FI_RECV, c.flags & (FI_TAGGED | FI_MSG | FI_RECV | FI_SEND));
        expect_same(data, in, "tagged message");
      });
}

TEST(every_size, untagged_arrives_whole) {
  with_every_size(
      1,
      [](node& n, rank&, const bytes& data) {
        n.post(
            [&] { return fi_send(n.ep(), data.data(), data.size(), nullptr, n.peer(1), ctx(1)); });
        EXPECT_EQ(0, n.wait(ctx(1)).err);
      },
      [](node& n, rank&, const bytes& data) {
        bytes in(data.size());
        n.post(
            [&] { return fi_recv(n.ep(), in.data(), in.size(), nullptr, FI_ADDR_UNSPEC, ctx(2)); });
        const completion c = n.wait(ctx(2));
        EXPECT_EQ(data.size(), c.len);
        EXPECT_EQ(FI_MSG | FI_RECV, c.flags & (FI_TAGGED | FI_MSG | FI_RECV | FI_SEND));
        expect_same(data, in, "message");
      });
}

TEST(every_size, unexpected_message_is_kept) {
  with_every_size(
      2,
      [](node& n, rank& r, const bytes& data) {
        tsend(n, 1, data, 9, ctx(1));
        r.barrier();
        EXPECT_EQ(0, n.wait(ctx(1)).err);
      },
      [](node& n, rank& r, const bytes& data) {
        r.barrier();  // the sender has posted; this rank polls meanwhile
        EXPECT_FALSE(n.has_completion());
        bytes in(data.size());
        trecv(n, in, 9, 0, ctx(2));
        EXPECT_EQ(data.size(), n.wait(ctx(2)).len);
        expect_same(data, in, "unexpected message");
      });
}

TEST(messages, tag_is_compared_under_the_ignore_mask) {
  sender_and_receiver(
      plain(),
      [](node& n, rank&) {
        tsend(n, 1, bytes_of(1, 100), 0x1234, ctx(1));
        tsend(n, 1, bytes_of(2, 100), 0x1299, ctx(2));
        n.wait(ctx(1));
        n.wait(ctx(2));
      },
      [](node& n, rank&) {
        bytes exact(100);
        bytes masked(100);
        bytes never(100);
        trecv(n, never, 0x7700, 0xff, ctx(3));
        trecv(n, exact, 0x1299, 0, ctx(1));
        trecv(n, masked, 0x1200, 0xff, ctx(2));
        EXPECT_EQ(0x1299U, n.wait(ctx(1)).tag);
        EXPECT_EQ(0x1234U, n.wait(ctx(2)).tag);
        expect_same(bytes_of(2, 100), exact, "exact tag");
        expect_same(bytes_of(1, 100), masked, "masked tag");
        EXPECT_FALSE(n.has_completion());
        must(fi_cancel(&n.ep()->fid, ctx(3)), "fi_cancel");
        EXPECT_EQ(FI_ECANCELED, n.wait(ctx(3)).err);
      });
}

TEST(messages, wildcard_and_exact_receives_match_in_posting_order) {
  sender_and_receiver(
      plain(),
      [](node& n, rank& r) {
        r.barrier();
        for (std::uintptr_t i = 0; i < 3; ++i) tsend(n, 1, bytes_of(i, 8), 5, ctx(i + 1));
        for (std::uintptr_t i = 0; i < 3; ++i) n.wait(ctx(i + 1));
      },
      [](node& n, rank& r) {
        std::array<bytes, 3> in{bytes(8), bytes(8), bytes(8)};
        trecv(n, in[0], 5, 0, ctx(1));
        trecv(n, in[1], 0, ~0ULL, ctx(2));
        trecv(n, in[2], 5, 0, ctx(3));
        r.barrier();
        for (std::uintptr_t i = 0; i < 3; ++i) {
          n.wait(ctx(i + 1));
          expect_same(bytes_of(i, 8), in.at(i), "receive " + std::to_string(i));
        }
      });
}

// Sizes that travel differently must not overtake one another.
TEST(messages, stay_in_order_whatever_their_size) {
  constexpr std::size_t count = 300;
  const auto size_at = [](std::size_t i) { return i % 7 == 3 ? 200000 + i : (i * 37) % 5000; };
  sender_and_receiver(
      plain(),
      [&](node& n, rank&) {
        for (std::size_t i = 0; i < count; ++i) tsend(n, 1, bytes_of(i, size_at(i)), 1, ctx(i + 1));
        for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(0, n.wait(ctx(i + 1)).err);
      },
      [&](node& n, rank&) {
        for (std::size_t i = 0; i < count; ++i) {
          bytes in(300000);
          trecv(n, in, 1, 0, ctx(i + 1));
          ASSERT_EQ(size_at(i), n.wait(ctx(i + 1)).len);
          in.resize(size_at(i));
          expect_same(bytes_of(i, size_at(i)), in, "message " + std::to_string(i));
        }
      });
}

TEST(messages, longer_than_the_receive_is_a_truncation_error) {
  for (const std::size_t size : {std::size_t{100}, 300 * kib}) {
    sender_and_receiver(
        plain(),
        [&](node& n, rank&) {
          const bytes data = bytes_of(1, size);
          const bytes next = bytes_of(2, 10);
          tsend(n, 1, data, 1, ctx(1));
          tsend(n, 1, next, 1, ctx(2));
          n.wait(ctx(1));
          EXPECT_EQ(0, n.wait(ctx(2)).err);
        },
        [&](node& n, rank&) {
          bytes guarded(60, std::byte{0x5a});
          n.post([&] {
            return fi_trecv(n.ep(), guarded.data(), 40, nullptr, FI_ADDR_UNSPEC, 1, 0, ctx(1));
          });
          const completion c = n.wait(ctx(1));
          EXPECT_EQ(FI_ETRUNC, c.err);
          EXPECT_EQ(size - 40, c.olen);
          EXPECT_TRUE(std::all_of(guarded.begin() + 40, guarded.end(),
                                  [](std::byte b) { return b == std::byte{0x5a}; }));
          bytes in(10);
          trecv(n, in, 1, 0, ctx(2));
          EXPECT_EQ(10U, n.wait(ctx(2)).len);
          expect_same(bytes_of(2, 10), in, "the message after it");
        });
  }
}

TEST(messages, cancelled_receive_takes_nothing) {
  sender_and_receiver(
      plain(),
      [](node& n, rank& r) {
        r.barrier();
        tsend(n, 1, bytes_of(1, 50), 1, ctx(1));
        n.wait(ctx(1));
      },
      [](node& n, rank& r) {
        bytes first(50);
        bytes second(50);
        trecv(n, first, 1, 0, ctx(1));
        trecv(n, second, 1, 0, ctx(2));
        must(fi_cancel(&n.ep()->fid, ctx(1)), "fi_cancel");
        EXPECT_EQ(FI_ECANCELED, n.wait(ctx(1)).err);
        r.barrier();
        EXPECT_EQ(0, n.wait(ctx(2)).err);
        expect_same(bytes_of(1, 50), second, "the receive that stayed");
        expect_same(bytes(50), first, "the cancelled receive");
      });
}

TEST(messages, injected_buffers_may_change_at_once) {
  sender_and_receiver(
      plain(),
      [](node& n, rank& r) {
        const std::size_t size = std::min<std::size_t>(n.info()->tx_attr->inject_size, 64);
        for (std::uint64_t i = 0; i < 200; ++i) {
          bytes data = bytes_of(i, size);
          n.post([&] { return fi_tinject(n.ep(), data.data(), size, n.peer(1), i); });
          std::fill(data.begin(), data.end(), std::byte{0xee});
        }
        r.barrier();
        EXPECT_FALSE(n.has_completion());
      },
      [](node& n, rank& r) {
        const std::size_t size = std::min<std::size_t>(n.info()->tx_attr->inject_size, 64);
        for (std::uint64_t i = 0; i < 200; ++i) {
          bytes in(size);
          trecv(n, in, i, 0, ctx(1));
          n.wait(ctx(1));
          expect_same(bytes_of(i, size), in, "injected " + std::to_string(i));
        }
        r.barrier();
      });
}

TEST(messages, gather_and_scatter) {
  for (const std::size_t part : {std::size_t{5}, 3000 * std::size_t{10}, 400 * kib}) {
    sender_and_receiver(
        plain(),
        [&](node& n, rank&) {
          bytes a = bytes_of(1, part);
          bytes b = bytes_of(2, 2 * part);
          const std::array iov{iovec{a.data(), a.size()}, iovec{b.data(), b.size()}};
          n.post([&] {
            return fi_tsendv(n.ep(), iov.data(), nullptr, iov.size(), n.peer(1), 1, ctx(1));
          });
          EXPECT_EQ(0, n.wait(ctx(1)).err);
        },
        [&](node& n, rank&) {
          bytes c(2 * part);
          bytes d(part);
          const std::array iov{iovec{c.data(), c.size()}, iovec{d.data(), d.size()}};
          n.post([&] {
            return fi_trecvv(n.ep(), iov.data(), nullptr, iov.size(), FI_ADDR_UNSPEC, 1, 0, ctx(1));
          });
          EXPECT_EQ(3 * part, n.wait(ctx(1)).len);
          bytes whole = bytes_of(1, part);
          const bytes rest = bytes_of(2, 2 * part);
          whole.insert(whole.end(), rest.begin(), rest.end());
          c.insert(c.end(), d.begin(), d.end());
          expect_same(whole, c, "scattered message");
        });
  }
}

TEST(messages, remote_cq_data_travels_with_the_message) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{300}, 300 * kib}) {
    sender_and_receiver(
        plain(),
        [&](node& n, rank&) {
          const bytes data = bytes_of(1, size);
          n.post([&] {
            return fi_tsenddata(n.ep(), data.data(), size, nullptr, 0x1122334455667788, n.peer(1),
                                3, ctx(1));
          });
          n.post([&] {
            return fi_senddata(n.ep(), data.data(), size, nullptr, 0x99, n.peer(1), ctx(2));
          });
          n.wait(ctx(1));
          n.wait(ctx(2));
        },
        [&](node& n, rank&) {
          bytes tagged(size);
          bytes untagged(size);
          trecv(n, tagged, 3, 0, ctx(1));
          n.post([&] {
            return fi_recv(n.ep(), untagged.data(), size, nullptr, FI_ADDR_UNSPEC, ctx(2));
          });
          const completion first = n.wait(ctx(1));
          EXPECT_NE(0U, first.flags & FI_REMOTE_CQ_DATA);
          EXPECT_EQ(0x1122334455667788U, first.data);
          const completion second = n.wait(ctx(2));
          EXPECT_NE(0U, second.flags & FI_REMOTE_CQ_DATA);
          EXPECT_EQ(0x99U, second.data);
        });
  }
}

TEST(messages, msg_variants_complete_only_when_asked) {
  node_options options = plain();
  options.selective = true;
  sender_and_receiver(
      options,
      [](node& n, rank& r) {
        bytes data = bytes_of(1, 500);
        const iovec iov{data.data(), data.size()};
        fi_msg_tagged message{};
        message.msg_iov = &iov;
        message.iov_count = 1;
        message.addr = n.peer(1);
        message.tag = 4;
        message.context = ctx(1);
        n.post([&] { return fi_tsendmsg(n.ep(), &message, 0); });
        message.context = ctx(2);
        n.post([&] { return fi_tsendmsg(n.ep(), &message, FI_COMPLETION); });
        EXPECT_EQ(ctx(2), n.wait_any().context);
        r.barrier();
        EXPECT_FALSE(n.has_completion());
      },
      [](node& n, rank& r) {
        bytes in(500);
        const iovec iov{in.data(), in.size()};
        fi_msg_tagged message{};
        message.msg_iov = &iov;
        message.iov_count = 1;
        message.addr = FI_ADDR_UNSPEC;
        message.tag = 4;
        message.context = ctx(1);
        n.post([&] { return fi_trecvmsg(n.ep(), &message, FI_COMPLETION); });
        EXPECT_EQ(ctx(1), n.wait_any().context);
        message.context = ctx(2);
        n.post([&] { return fi_trecvmsg(n.ep(), &message, 0); });
        r.barrier();
        EXPECT_FALSE(n.has_completion());
        expect_same(bytes_of(1, 500), in, "second message");
      });
}

// Two senders, one tag: a directed receive takes only the one it names.
TEST(messages, directed_receive_waits_for_its_source) {
  run({.ranks = 3}, [](rank& r) {
    node_options options = plain();
    options.caps |= FI_DIRECTED_RECV;
    node n(options);
    n.meet(r);
    if (r.id() == 0) {
      bytes from_two(20);
      bytes from_one(20);
      trecv(n, from_two, 1, 0, ctx(2), n.peer(2));
      trecv(n, from_one, 1, 0, ctx(1), n.peer(1));
      r.barrier();
      n.wait(ctx(1));
      r.barrier();
      n.wait(ctx(2));
      expect_same(bytes_of(1, 20), from_one, "from rank 1");
      expect_same(bytes_of(2, 20), from_two, "from rank 2");
    } else {
      r.barrier();
      if (r.id() == 2) r.barrier();
      tsend(n, 0, bytes_of(static_cast<std::uint64_t>(r.id()), 20), 1, ctx(1));
      n.wait(ctx(1));
      if (r.id() == 1) r.barrier();
    }
    r.barrier();
  });
}

TEST(messages, an_endpoint_sends_to_itself) {
  run({.ranks = 1}, [](rank& r) {
    node n(plain());
    n.meet(r);
    for (const std::size_t size : {std::size_t{0}, std::size_t{64}, mib}) {
      const bytes data = bytes_of(size, size);
      bytes in(size);
      trecv(n, in, 1, 0, ctx(1));
      tsend(n, 0, data, 1, ctx(2));
      EXPECT_EQ(size, n.wait(ctx(1)).len);
      EXPECT_EQ(0, n.wait(ctx(2)).err);
      expect_same(data, in, "message to oneself");
    }
  });
}

class every_format : public testing::TestWithParam<std::tuple<fi_cq_format, fi_av_type>> {};

TEST_P(every_format, carries_what_it_promises) {
  const auto [format, av_type] = GetParam();
  node_options options = plain();
  options.cq_format = format;
  options.av_type = av_type;
  sender_and_receiver(
      options,
      [](node& n, rank&) {
        for (std::uintptr_t i = 1; i <= 20; ++i) tsend(n, 1, bytes_of(i, 10 * i), i, ctx(i));
        for (std::uintptr_t i = 1; i <= 20; ++i) n.wait(ctx(i));
      },
      [format = format](node& n, rank&) {
        for (std::uintptr_t i = 1; i <= 20; ++i) {
          bytes in(10 * i);
          trecv(n, in, i, 0, ctx(i));
          const completion c = n.wait(ctx(i));
          if (format >= FI_CQ_FORMAT_MSG) {
            EXPECT_EQ(10 * i, c.len);
          }
          if (format >= FI_CQ_FORMAT_TAGGED) {
            EXPECT_EQ(i, c.tag);
          }
          expect_same(bytes_of(i, 10 * i), in, "message");
        }
      });
}

INSTANTIATE_TEST_SUITE_P(formats, every_format,
                         testing::Combine(testing::Values(FI_CQ_FORMAT_CONTEXT, FI_CQ_FORMAT_MSG,
                                                          FI_CQ_FORMAT_DATA, FI_CQ_FORMAT_TAGGED),
                                          testing::Values(FI_AV_MAP, FI_AV_TABLE)));

// More messages than any queue holds, to a receiver that looks late: nothing is lost.
TEST(messages, flood_of_a_late_receiver_loses_nothing) {
  constexpr std::uint64_t count = 5000;
  sender_and_receiver(
      plain(),
      [](node& n, rank&) {
        std::uint64_t finished = 0;
        for (std::uint64_t i = 0; i < count; ++i) {
          tsend(n, 1, bytes_of(i, 256), i, nullptr);
          if (i - finished > 500) {
            n.wait(nullptr);
            ++finished;
          }
        }
        for (; finished < count; ++finished) n.wait(nullptr);
      },
      [](node& n, rank&) {
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        for (std::uint64_t i = 0; i < count; ++i) {
          const std::uint64_t tag = i % 2 == 0 ? i : count - (count % 2) - i;  // both ends inwards
          bytes in(256);
          trecv(n, in, tag, 0, ctx(1));
          n.wait(ctx(1));
          expect_same(bytes_of(tag, 256), in, "message " + std::to_string(tag));
        }
      });
}

// A GiB; where TSan keeps eight bytes for each, what fills an equal part of the machine's memory.
#ifdef __SANITIZE_THREAD__
constexpr std::size_t much = std::size_t{1} << 27;
#else
constexpr std::size_t much = std::size_t{1} << 30;
#endif

TEST(messages_slow, of_much_memory) {
  static constexpr std::size_t size = much;
  sender_and_receiver(
      plain(),
      [](node& n, rank&) {
        tsend(n, 1, bytes_of(1, size), 1, ctx(1));
        EXPECT_EQ(0, n.wait(ctx(1)).err);
      },
      [](node& n, rank&) {
        bytes in(size);
        trecv(n, in, 1, 0, ctx(1));
        EXPECT_EQ(size, n.wait(ctx(1)).len);
        expect_same(bytes_of(1, size), in, "much memory");
      });
}

}  // namespace
}  // namespace gaudi::test
