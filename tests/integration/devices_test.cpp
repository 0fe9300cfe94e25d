// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Eight Gaudis in one process. They hand out the same addresses, so a device that is taken for
// another shows as wrong bytes: everything has contents of its own, with canaries around it.
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "node.hpp"

namespace gaudi::test {
namespace {

using bytes = std::vector<std::byte>;

constexpr int devices = 8;
constexpr std::size_t guard = 64;

world eight_devices(bool share) {
  return {.ranks = 1,
          .environment = {{"HLSIM_DEVICES", "8"},
                          {"FI_GAUDI_DEVICE", "all"},
                          {"FI_GAUDI_IPC", share ? "auto" : "off"}}};
}

/// An endpoint and its memory on a device: what it sends, and a place for what comes from each.
class member {
 public:
  member(int number, std::size_t size) : number_(number), size_(size) {
    must(node_.ops().select_device(node_.domain(), number), "select_device");
    out_ = std::make_unique<memory>(node_, size, true);
    in_ = std::make_unique<memory>(node_, devices * place(), true);
  }

  node& own() { return node_; }
  memory& out() { return *out_; }
  memory& in() { return *in_; }
  /// Where in in() the bytes of another are.
  std::size_t from(int other) const { return static_cast<std::size_t>(other) * place() + guard; }

  void meet(member& other) {
    fi_addr_t address = FI_ADDR_NOTAVAIL;
    const std::string name = other.node_.name();
    ASSERT_EQ(1, fi_av_insert(node_.av(), name.data(), 1, &address, 0, nullptr));
    peers_.push_back(address);
  }
  fi_addr_t peer(int other) const { return peers_.at(static_cast<std::size_t>(other)); }

  bytes contents(unsigned round) const {
    return bytes_of(100 * round + static_cast<unsigned>(number_), size_);
  }
  bytes canary() const { return bytes_of(7777U + static_cast<unsigned>(number_), in_size()); }

  void fill(unsigned round) {
    out_->put(0, contents(round));
    in_->put(0, canary());
  }
  /// All that came, and nothing beside it.
  void check(unsigned round, std::vector<std::unique_ptr<member>>& all) {
    bytes expected = canary();
    for (int other = 0; other < devices; ++other) {
      const bytes came = all[static_cast<std::size_t>(other)]->contents(round);
      std::copy(came.begin(), came.end(),
                expected.begin() + static_cast<std::ptrdiff_t>(from(other)));
    }
    const std::string where = "device " + std::to_string(number_);
    expect_same(expected, in_->get(0, in_size()), where + ", received");
    expect_same(contents(round), out_->get(0, size_), where + ", sent");
  }

 private:
  std::size_t place() const { return size_ + 2 * guard; }
  std::size_t in_size() const { return devices * place(); }

  int number_;
  std::size_t size_;
  node node_{{.device = true}};
  std::unique_ptr<memory> out_, in_;
  std::vector<fi_addr_t> peers_;
};

/// All of them. Progress is manual, so whoever waits polls for each.
class everybody {
 public:
  explicit everybody(std::size_t size) {
    for (int number = 0; number < devices; ++number)
      all_.push_back(std::make_unique<member>(number, size));
    for (auto& one : all_) {
      for (auto& other : all_) one->meet(*other);
    }
  }

  // One that closes waits until the others have taken all that was sent to them, which they do not
  // while this thread closes: each in a thread of its own.
  ~everybody() {
    std::vector<std::thread> threads;
    for (auto& one : all_) threads.emplace_back([&one] { one.reset(); });
    for (auto& thread : threads) thread.join();
  }
  everybody(const everybody&) = delete;
  everybody& operator=(const everybody&) = delete;

  std::vector<std::unique_ptr<member>>& all() { return all_; }

  void poll() {
    for (auto& one : all_) one->own().poll();
  }

  template <class Call>
  void post(Call call) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    long ret = call();
    while (ret == -FI_EAGAIN && std::chrono::steady_clock::now() < end) {
      poll();
      ret = call();
    }
    must(ret, "posting an operation");
  }

  void wait(member& on, void* context) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    for (;;) {
      if (const auto done = on.own().take(context)) {
        EXPECT_EQ(0, done->err);
        return;
      }
      if (std::chrono::steady_clock::now() > end) throw std::runtime_error("nothing happened");
      poll();
    }
  }

  /// Fills, lets start(from, to, i, j) begin an operation between each two, and checks.
  template <class Start, class Finish>
  void exchange(unsigned round, Start start, Finish finish) {
    for (auto& one : all_) one->fill(round);
    for (int i = 0; i < devices; ++i) {
      for (int j = 0; j < devices; ++j) start(at(i), at(j), i, j);
    }
    for (int i = 0; i < devices; ++i) {
      for (int j = 0; j < devices; ++j) finish(at(i), at(j), i, j);
    }
    for (auto& one : all_) one->check(round, all_);
  }

 private:
  member& at(int number) { return *all_[static_cast<std::size_t>(number)]; }

  std::vector<std::unique_ptr<member>> all_;
};

// (peers share memory, bytes)
class every_pair_of_devices : public testing::TestWithParam<std::tuple<bool, std::size_t>> {
 protected:
  void SetUp() override {
    if (!is_gaudi()) GTEST_SKIP() << "only gaudi carries Gaudi memory";
  }
};

void* sent(int to) {
  return ctx(1 + static_cast<std::uintptr_t>(to));
}
void* came(int from) {
  return ctx(101 + static_cast<std::uintptr_t>(from));
}

TEST_P(every_pair_of_devices, carries_every_byte) {
  const auto [share, size_] = GetParam();
  run(eight_devices(share), [size = size_](rank&) {
    everybody here(size);
    for (auto& one : here.all()) {
      EXPECT_EQ(here.all()[0]->out().at(0), one->out().at(0)) << "simulated as the driver does it";
      fi_gaudi_addr_attr where{};
      const auto address = reinterpret_cast<std::uint64_t>(one->out().at(0));
      must(one->own().ops().query_addr(one->own().domain(), address, size, &where), "query_addr");
      EXPECT_EQ(&one - here.all().data(), where.device_index);
    }

    here.exchange(
        1,
        [&](member& from, member& to, int i, int j) {
          const auto tag = static_cast<std::uint64_t>(i);
          here.post([&] {
            return fi_trecv(to.own().ep(), to.in().at(to.from(i)), size, to.in().desc(),
                            FI_ADDR_UNSPEC, tag, 0, came(i));
          });
          here.post([&] {
            return fi_tsend(from.own().ep(), from.out().at(0), size, from.out().desc(),
                            from.peer(j), tag, sent(j));
          });
        },
        [&](member& from, member& to, int i, int j) {
          here.wait(from, sent(j));
          here.wait(to, came(i));
        });

    here.exchange(
        2,
        [&](member& from, member& to, int i, int j) {
          const iovec local{from.out().at(0), size};
          const fi_rma_iov remote{to.in().remote(to.from(i)), size, to.in().key()};
          void* desc = from.out().desc();
          const fi_msg_rma message{&local, &desc, 1, from.peer(j), &remote, 1, sent(j), 0};
          here.post([&] {
            return fi_writemsg(from.own().ep(), &message, FI_DELIVERY_COMPLETE | FI_COMPLETION);
          });
        },
        [&](member& from, member&, int, int j) { here.wait(from, sent(j)); });

    here.exchange(
        3,
        [&](member& from, member& to, int i, int j) {
          here.post([&] {
            return fi_read(to.own().ep(), to.in().at(to.from(i)), size, to.in().desc(), to.peer(i),
                           from.out().remote(0), from.out().key(), came(i));
          });
          static_cast<void>(j);
        },
        [&](member&, member& to, int i, int) { here.wait(to, came(i)); });

    if (!on_verbs()) return;
    for (auto& one : here.all())
      EXPECT_LT(0U, one->own().paths().zero_copy_bytes) << "the NIC tells them apart, too";
  });
}

INSTANTIATE_TEST_SUITE_P(ipc, every_pair_of_devices,
                         testing::Combine(testing::Bool(), testing::Values(100, 300001)));

class devices_in_one_process : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_gaudi()) GTEST_SKIP() << "only gaudi carries Gaudi memory";
  }
};

// One endpoint sends to itself from each device to each other.
TEST_F(devices_in_one_process, all_serve_one_endpoint) {
  run(eight_devices(true), [](rank& r) {
    constexpr std::size_t size = 70001;
    node n({.device = true});
    n.meet(r);
    const auto use = [&](int number) { n.ops().select_device(n.domain(), number); };
    std::vector<std::unique_ptr<memory>> from, to;
    for (int i = 0; i < devices; ++i) {
      use(i);
      from.push_back(std::make_unique<memory>(n, size, true));
      to.push_back(std::make_unique<memory>(n, size, true));
      from.back()->put(0, bytes_of(static_cast<unsigned>(i), size));
    }
    for (int i = 0; i < devices; ++i) {
      memory& source = *from[static_cast<std::size_t>(i)];
      for (int j = 0; j < devices; ++j) {
        memory& sink = *to[static_cast<std::size_t>(j)];
        use(j);
        sink.put(0, bytes_of(999, size));
        n.post([&] {
          return fi_trecv(n.ep(), sink.at(0), size, sink.desc(), FI_ADDR_UNSPEC, 1, 0, ctx(2));
        });
        n.post([&] {
          return fi_tsend(n.ep(), source.at(0), size, source.desc(), n.peer(0), 1, ctx(1));
        });
        EXPECT_EQ(0, n.wait(ctx(1)).err);
        EXPECT_EQ(0, n.wait(ctx(2)).err);
        expect_same(bytes_of(static_cast<unsigned>(i), size), sink.get(0, size), "message");
      }
    }
    // Within a device by its engine, though all of them have those addresses.
    EXPECT_EQ(on_verbs() ? 0 : devices * size, n.paths().engine_bytes);
    for (int i = 0; i < devices; ++i) {
      use(i);
      from[static_cast<std::size_t>(i)].reset();
      to[static_cast<std::size_t>(i)].reset();
    }
  });
}

world with_warnings(world w) {
  w.environment.emplace_back("FI_LOG_LEVEL", "warn");
  return w;
}

/// What `work` writes to stderr.
template <class Work>
std::string warnings_of(Work work) {
  testing::internal::CaptureStderr();
  work();
  return testing::internal::GetCapturedStderr();
}

std::size_t count_in(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST_F(devices_in_one_process, an_address_of_two_is_refused_without_a_descriptor) {
  run(with_warnings(eight_devices(true)), [](rank& r) {
    node n({.device = true});
    n.meet(r);
    memory first(n, 4096, true);
    const auto send_bare = [&] {
      return fi_tsend(n.ep(), first.at(0), 4096, nullptr, n.peer(0), 1, ctx(1));
    };
    n.post(send_bare);
    n.post(
        [&] { return fi_trecv(n.ep(), first.at(0), 4096, nullptr, FI_ADDR_UNSPEC, 1, 0, ctx(2)); });
    EXPECT_EQ(0, n.wait(ctx(1)).err);
    EXPECT_EQ(0, n.wait(ctx(2)).err);

    must(n.ops().select_device(n.domain(), 5), "select_device");
    std::uint64_t address = 0;
    must(n.ops().alloc(n.domain(), 4096, &address), "alloc");
    ASSERT_EQ(first.at(0), reinterpret_cast<void*>(address));
    const std::string told = warnings_of([&] { EXPECT_EQ(-FI_EINVAL, send_bare()); });
    EXPECT_EQ(1U, count_in(told, "is an address on several of the open Gaudis")) << told;
    EXPECT_EQ(1U, count_in(told, "fi_mr_attr.device.synapseai")) << told;
    must(n.ops().free(n.domain(), address), "free");
    must(n.ops().select_device(n.domain(), 0), "select_device");
  });
}

TEST_F(devices_in_one_process, one_that_is_taken_is_named_and_the_others_work) {
  world two{.environment = {{"HLSIM_DEVICES", "3"}}};
  run(with_warnings(two), [](rank& r) {
    setenv("FI_GAUDI_DEVICE", r.id() == 0 ? "1" : "2,module:1,0", 1);
    if (r.id() == 0) {
      node n({.device = true});
      const memory own(n, 4096, true);
      r.barrier();
      r.barrier();
      return;
    }
    r.barrier();
    node n({.device = true});
    std::uint64_t address = 0;
    must(n.ops().select_device(n.domain(), 1), "select_device");
    const std::string told =
        warnings_of([&] { EXPECT_EQ(-FI_EBUSY, n.ops().alloc(n.domain(), 4096, &address)); });
    EXPECT_EQ(1U, count_in(told, "module 1 is in use by another process")) << told;
    for (const int number : {0, 2}) {
      must(n.ops().select_device(n.domain(), number), "select_device");
      memory own(n, 4096, true);
      own.put(0, bytes_of(3, 4096));
      expect_same(bytes_of(3, 4096), own.get(0, 4096), "device memory");
    }
    r.barrier();
  });
}

}  // namespace
}  // namespace gaudi::test
