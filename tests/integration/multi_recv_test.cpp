// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Buffers that take many messages (FI_MULTI_RECV, fi_msg(3)).
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "node.hpp"

namespace gaudi::test {
namespace {

using bytes = std::vector<std::byte>;

constexpr std::uint64_t caps = FI_MSG | FI_MULTI_RECV;

// Empty, eager, both sides of the eager limit, and long enough for a rendezvous.
const std::vector<std::size_t> lengths{1, 0,      100, 4096,  16384, 16385,
                                       7, 300000, 64,  65536, 1,     12345};

void set_least(node& n, std::size_t least) {
  must(fi_setopt(&n.ep()->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof least),
       "fi_setopt");
}

void post_many(node& n, void* buffer, std::size_t size, void* desc, void* context) {
  iovec range{buffer, size};
  fi_msg message{};
  message.msg_iov = &range;
  message.desc = &desc;
  message.iov_count = 1;
  message.addr = FI_ADDR_UNSPEC;
  message.context = context;
  must(fi_recvmsg(n.ep(), &message, FI_MULTI_RECV | FI_COMPLETION), "fi_recvmsg");
}

void send_all(node& n, int to, std::size_t count) {
  std::deque<bytes> kept;
  for (std::size_t i = 0; i < count; ++i) {
    const bytes& data = kept.emplace_back(bytes_of(i, lengths[i % lengths.size()]));
    n.post(
        [&] { return fi_send(n.ep(), data.data(), data.size(), nullptr, n.peer(to), ctx(i + 1)); });
  }
  for (std::size_t i = 0; i < count; ++i) n.wait(ctx(i + 1));
}

// Receives messages into two buffers in turn. They take their places in the order of sending,
// whatever the order in which they end: a long one may be the last although all of the next
// buffer's are there.
class two_buffers {
 public:
  explicit two_buffers(node& n) : n_(n) {
    set_least(n_, least);
    for (std::size_t b : {0, 1}) post(b);
  }

  void receive(std::size_t count) {
    for (std::size_t ended = 0; ended < count; ++ended) {
      const completion c = n_.wait_any();
      ASSERT_EQ(c.err, 0);
      EXPECT_EQ(c.flags & (FI_RECV | FI_MSG), FI_RECV | FI_MSG);
      one& in = buffers_.at(reinterpret_cast<std::uintptr_t>(c.context));
      in.places.emplace_back(static_cast<std::byte*>(c.buf), c.len);
      in.released = c.flags & FI_MULTI_RECV;
      while (buffers_[current_].released) ASSERT_NO_FATAL_FAILURE(take_back());
    }
    ASSERT_NO_FATAL_FAILURE(verify(buffers_[current_]));
    EXPECT_EQ(verified_, count);
  }

 private:
  static constexpr std::size_t size = 1 << 20;
  static constexpr std::size_t least = 300000;
  struct one {
    bytes memory = bytes(size);
    std::byte* next = memory.data();
    bool released = false;
    std::vector<std::pair<std::byte*, std::size_t>> places;
  };

  void post(std::size_t b) { post_many(n_, buffers_[b].memory.data(), size, nullptr, ctx(b)); }

  void verify(one& in) {
    std::sort(in.places.begin(), in.places.end());
    for (const auto& [at, length] : in.places) {
      const std::size_t wanted = lengths[verified_ % lengths.size()];
      ASSERT_EQ(length, wanted) << "message " << verified_;
      ASSERT_EQ(at, in.next) << "no gap, no overlap";
      expect_same(bytes_of(verified_, wanted), bytes(at, at + length), "message");
      in.next = at + length;
      ++verified_;
    }
    in.places.clear();
  }

  // The buffer posted first is filled first.
  void take_back() {
    one& full = buffers_[current_];
    ASSERT_NO_FATAL_FAILURE(verify(full));
    EXPECT_LT(full.memory.data() + size - full.next, static_cast<std::ptrdiff_t>(least));
    full.next = full.memory.data();
    full.released = false;
    post(current_);
    current_ = 1 - current_;
  }

  node& n_;
  std::array<one, 2> buffers_;
  std::size_t current_ = 0, verified_ = 0;
};

TEST(multi_recv, fills_buffer_after_buffer_in_order) {
  run({}, [](rank& r) {
    node n({.caps = caps, .mr_mode = 0});
    n.meet(r);
    constexpr std::size_t count = 60;
    if (r.id() == 0) {
      send_all(n, 1, count);
    } else {
      two_buffers(n).receive(count);
    }
    r.barrier();
  });
}

TEST(multi_recv, takes_what_had_come_before_it_was_posted) {
  run({}, [](rank& r) {
    node n({.caps = caps, .mr_mode = 0});
    n.meet(r);
    const std::vector<std::size_t> sizes{10, 200, 3000};
    if (r.id() == 0) {
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        const bytes data = bytes_of(i, sizes[i]);
        n.post([&] {
          return fi_send(n.ep(), data.data(), data.size(), nullptr, n.peer(1), ctx(i + 1));
        });
        n.wait(ctx(i + 1));
      }
      r.barrier();
    } else {
      r.barrier();
      n.has_completion();  // lets them arrive
      set_least(n, 100);
      bytes buffer(3250);
      post_many(n, buffer.data(), buffer.size(), nullptr, ctx(9));
      std::byte* at = buffer.data();
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        const completion c = n.wait_any();
        EXPECT_EQ(c.buf, at);
        EXPECT_EQ(c.len, sizes[i]);
        EXPECT_EQ(c.flags & FI_MULTI_RECV, i == 2 ? FI_MULTI_RECV : 0U) << "message " << i;
        expect_same(bytes_of(i, sizes[i]), bytes(at, at + c.len), "message");
        at += c.len;
      }
    }
    r.barrier();
  });
}

TEST(multi_recv, a_message_too_long_for_what_is_left_is_cut_and_ends_the_buffer) {
  run({}, [](rank& r) {
    node n({.caps = caps, .mr_mode = 0});
    n.meet(r);
    if (r.id() == 0) {
      for (const std::size_t size : {600, 600}) {
        const bytes data = bytes_of(size, size);
        n.post(
            [&] { return fi_send(n.ep(), data.data(), data.size(), nullptr, n.peer(1), ctx(1)); });
        n.wait(ctx(1));
      }
    } else {
      set_least(n, 1);
      bytes buffer(1000);
      post_many(n, buffer.data(), buffer.size(), nullptr, ctx(1));
      EXPECT_EQ(n.wait_any().len, 600U);
      const completion cut = n.wait_any();
      EXPECT_EQ(cut.err, FI_ETRUNC);
      EXPECT_EQ(cut.len, 400U);
      EXPECT_EQ(cut.olen, 200U);
      EXPECT_TRUE(cut.flags & FI_MULTI_RECV);
    }
    r.barrier();
  });
}

TEST(multi_recv, cancel_gives_the_buffer_back) {
  run({.ranks = 1}, [](rank& r) {
    node n({.caps = caps, .mr_mode = 0});
    n.meet(r);
    bytes buffer(100000);
    post_many(n, buffer.data(), buffer.size(), nullptr, ctx(5));
    EXPECT_EQ(fi_cancel(&n.ep()->fid, ctx(5)), 0);
    const completion c = n.wait_any();
    EXPECT_EQ(c.context, ctx(5));
    EXPECT_EQ(c.err, FI_ECANCELED);
    EXPECT_TRUE(c.flags & FI_MULTI_RECV);
    EXPECT_EQ(fi_cancel(&n.ep()->fid, ctx(5)), -FI_ENOENT);
  });
}

TEST(multi_recv, messages_land_in_device_memory) {
  run({}, [](rank& r) {
    node n({.caps = caps, .device = true});
    n.meet(r);
    const std::vector<std::size_t> sizes{1, 333, 5000, 200001, 64};
    if (r.id() == 0) {
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        const bytes data = bytes_of(i, sizes[i]);
        n.post([&] {
          return fi_send(n.ep(), data.data(), data.size(), nullptr, n.peer(1), ctx(i + 1));
        });
        n.wait(ctx(i + 1));
      }
    } else {
      set_least(n, 1);
      memory m(n, 205399, true);
      post_many(n, m.at(0), 205399, m.desc(), ctx(7));
      std::size_t ended = 0;
      bool released = false;
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        const completion c = n.wait_any();
        ASSERT_EQ(c.err, 0);
        ended += c.len;
        released = c.flags & FI_MULTI_RECV;
      }
      EXPECT_TRUE(released);
      EXPECT_EQ(ended, 205399U);
      std::size_t at = 0;
      for (std::size_t i = 0; i < sizes.size(); at += sizes[i++])
        expect_same(bytes_of(i, sizes[i]), m.get(at, sizes[i]), "message in device memory");
    }
    r.barrier();
  });
}

TEST(multi_recv, options) {
  run({.ranks = 1}, [](rank& r) {
    node n({.caps = caps, .mr_mode = 0});
    n.meet(r);
    std::size_t value = 0, length = sizeof value;
    set_least(n, 777);
    EXPECT_EQ(fi_getopt(&n.ep()->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, &length), 0);
    EXPECT_EQ(value, 777U);
    EXPECT_EQ(length, sizeof value);
    length = 1;
    EXPECT_EQ(fi_getopt(&n.ep()->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, &length),
              -FI_ETOOSMALL);
    EXPECT_EQ(length, sizeof value);
    EXPECT_EQ(fi_setopt(&n.ep()->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, 1),
              -FI_EINVAL);
    EXPECT_EQ(fi_setopt(&n.ep()->fid, FI_OPT_ENDPOINT, 12345, &value, sizeof value),
              -FI_ENOPROTOOPT);
  });
}

}  // namespace
}  // namespace gaudi::test
