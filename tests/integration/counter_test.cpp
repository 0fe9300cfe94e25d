// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Counters (fi_cntr(3)), those of targets with FI_RMA_EVENT among them.
#include <gtest/gtest.h>

#include "node.hpp"

namespace gaudi::test {
namespace {

using bytes = std::vector<std::byte>;

constexpr int patience = 20000;  // ms

// FI_SEND, FI_RECV, FI_READ, FI_WRITE, each by a counter of its own.
node_options counting() {
  return {.selective = true, .counters = {FI_SEND, FI_RECV, FI_READ, FI_WRITE}};
}

TEST(counter, counts_each_kind_of_operation) {
  run({}, [](rank& r) {
    node n(counting());
    n.meet(r);
    const int other = 1 - r.id();
    const std::vector<std::size_t> sizes{0, 8, 4000, 70000};
    memory m(n, 1 << 20, false);
    const std::string at =
        r.all_gather(std::to_string(m.remote(0)))[static_cast<std::size_t>(other)];
    const std::string key = r.all_gather(std::to_string(m.key()))[static_cast<std::size_t>(other)];
    const std::uint64_t address = std::stoull(at), remote_key = std::stoull(key);
    bytes out(70000), in(70000);
    std::uint64_t count = 0;
    for (const std::size_t size : sizes) {
      ++count;
      n.post(
          [&] { return fi_recv(n.ep(), in.data(), in.size(), nullptr, FI_ADDR_UNSPEC, nullptr); });
      n.post([&] { return fi_send(n.ep(), out.data(), size, nullptr, n.peer(other), nullptr); });
      EXPECT_EQ(fi_cntr_wait(n.counter(0), count, patience), 0);
      EXPECT_EQ(fi_cntr_wait(n.counter(1), count, patience), 0);
      n.post([&] {
        return fi_write(n.ep(), out.data(), size, nullptr, n.peer(other), address, remote_key,
                        nullptr);
      });
      EXPECT_EQ(fi_cntr_wait(n.counter(3), count, patience), 0);
      n.post([&] {
        return fi_read(n.ep(), in.data(), size, nullptr, n.peer(other), address, remote_key,
                       nullptr);
      });
      EXPECT_EQ(fi_cntr_wait(n.counter(2), count, patience), 0);
    }
    n.post([&] { return fi_inject(n.ep(), out.data(), 8, n.peer(other)); });
    n.post([&] { return fi_recv(n.ep(), in.data(), in.size(), nullptr, FI_ADDR_UNSPEC, nullptr); });
    EXPECT_EQ(fi_cntr_wait(n.counter(0), count + 1, patience), 0) << "injected sends count";
    EXPECT_EQ(fi_cntr_wait(n.counter(1), count + 1, patience), 0);
    r.barrier();
    for (const std::size_t i : {0, 1, 2, 3}) {
      EXPECT_EQ(fi_cntr_read(n.counter(i)), i < 2 ? count + 1 : count);
      EXPECT_EQ(fi_cntr_readerr(n.counter(i)), 0U);
    }
    EXPECT_FALSE(n.has_completion()) << "selective completion asked for none";
  });
}

TEST(counter, alone_is_enough_for_an_endpoint) {
  run({}, [](rank& r) {
    node n({.caps = FI_MSG,
            .mr_mode = 0,
            .wait = FI_WAIT_FD,
            .counters = {FI_SEND, FI_RECV},
            .queue = false});
    n.meet(r);
    const int other = 1 - r.id();
    char out = 'x', in = 0;
    n.post([&] { return fi_recv(n.ep(), &in, 1, nullptr, FI_ADDR_UNSPEC, nullptr); });
    n.post([&] { return fi_send(n.ep(), &out, 1, nullptr, n.peer(other), nullptr); });
    EXPECT_EQ(fi_cntr_wait(n.counter(1), 1, patience), 0);
    EXPECT_EQ(in, 'x');
    EXPECT_EQ(fi_cntr_wait(n.counter(0), 1, patience), 0);
    r.barrier();
  });
}

TEST(counter, failures_count_apart_and_end_a_wait) {
  run({}, [](rank& r) {
    node n(counting());
    n.meet(r);
    bytes data(100), small(10);
    if (r.id() == 0) {
      n.post(
          [&] { return fi_send(n.ep(), data.data(), data.size(), nullptr, n.peer(1), nullptr); });
      EXPECT_EQ(fi_cntr_wait(n.counter(0), 1, patience), 0);
    } else {
      n.post([&] {
        return fi_recv(n.ep(), small.data(), small.size(), nullptr, FI_ADDR_UNSPEC, ctx(4));
      });
      EXPECT_EQ(fi_cntr_wait(n.counter(1), 1, patience), -FI_EAVAIL);
      EXPECT_EQ(fi_cntr_read(n.counter(1)), 0U);
      EXPECT_EQ(fi_cntr_readerr(n.counter(1)), 1U);
      EXPECT_EQ(n.wait(ctx(4)).err, FI_ETRUNC) << "errors are always reported";
    }
    r.barrier();
  });
}

TEST(counter, values_of_the_application) {
  run({.ranks = 1}, [](rank& r) {
    node n(counting());
    n.meet(r);
    fid_cntr* c = n.counter(0);
    EXPECT_EQ(fi_cntr_wait(c, 1, 20), -FI_ETIMEDOUT);
    EXPECT_EQ(fi_cntr_add(c, 5), 0);
    EXPECT_EQ(fi_cntr_wait(c, 5, 0), 0);
    EXPECT_EQ(fi_cntr_set(c, 3), 0);
    EXPECT_EQ(fi_cntr_read(c), 3U);
    EXPECT_EQ(fi_cntr_adderr(c, 2), 0);
    EXPECT_EQ(fi_cntr_readerr(c), 2U);
    EXPECT_EQ(fi_cntr_seterr(c, 0), 0);
    EXPECT_EQ(fi_cntr_readerr(c), 0U);
    EXPECT_EQ(fi_close(&c->fid), -FI_EBUSY) << "an endpoint counts with it";
  });
}

class target_counter : public testing::TestWithParam<bool> {};

// The target sees the data when its counter says so.
TEST_P(target_counter, tells_of_what_peers_read_and_wrote) {
  const bool device = GetParam();
  run({}, [&](rank& r) {
    node n({.caps = FI_MSG | FI_RMA | FI_RMA_EVENT,
            .counters = {FI_REMOTE_WRITE, FI_REMOTE_READ},
            .device = device});
    EXPECT_TRUE(n.info()->caps & FI_RMA_EVENT);
    n.meet(r);
    const int other = 1 - r.id();
    const std::vector<std::size_t> sizes{1, 500, 9000, 300000};
    memory m(n, 1 << 20, device, 1), local(n, 1 << 20, device, 2);
    const auto there = [&](std::uint64_t mine) {
      return std::stoull(r.all_gather(std::to_string(mine))[static_cast<std::size_t>(other)]);
    };
    const std::uint64_t address = there(m.remote(0)), key = there(m.key());
    std::uint64_t count = 0;
    for (const std::size_t size : sizes) {
      ++count;
      const bytes data = bytes_of(size, size);
      if (r.id() == 0) {
        local.put(0, data);
        n.post([&] {
          return fi_write(n.ep(), local.at(0), size, local.desc(), n.peer(1), address, key, ctx(1));
        });
        EXPECT_EQ(n.wait(ctx(1)).err, 0);
      } else {
        EXPECT_EQ(fi_cntr_wait(n.counter(0), count, patience), 0);
        expect_same(data, m.get(0, size), "written memory");
      }
      r.barrier();
      if (r.id() == 0) {
        n.post([&] {
          return fi_read(n.ep(), local.at(0), size, local.desc(), n.peer(1), address, key, ctx(2));
        });
        EXPECT_EQ(n.wait(ctx(2)).err, 0);
        expect_same(data, local.get(0, size), "read memory");
      } else {
        EXPECT_EQ(fi_cntr_wait(n.counter(1), count, patience), 0);
      }
      r.barrier();
    }
    EXPECT_EQ(fi_cntr_read(n.counter(0)), r.id() == 0 ? 0 : count);
  });
}

// Each of two regions has a counter of its own, and counts what peers do there.
TEST_P(target_counter, of_a_region_tells_of_that_region) {
  const bool device = GetParam();
  run({}, [&](rank& r) {
    node n({.caps = FI_MSG | FI_RMA | FI_RMA_EVENT, .device = device});
    n.meet(r);
    fi_cntr_attr attr{};
    attr.events = FI_CNTR_EVENTS_COMP;
    const auto open = [&] {
      fid_cntr* counter = nullptr;
      must(fi_cntr_open(n.domain(), &attr, &counter, nullptr), "fi_cntr_open");
      return fid_ptr<fid_cntr>(counter);
    };
    const auto written = open(), read = open(), other_written = open();
    {
      memory m(n, 4096, device, 1), other(n, 4096, device, 2);
      EXPECT_EQ(fi_mr_bind(m.mr(), &written->fid, 0), -FI_EBADFLAGS);
      EXPECT_EQ(fi_mr_bind(m.mr(), &written->fid, FI_REMOTE_WRITE | FI_SEND), -FI_EBADFLAGS);
      EXPECT_EQ(fi_mr_bind(m.mr(), &written->fid, FI_REMOTE_WRITE), 0);
      EXPECT_EQ(fi_mr_bind(m.mr(), &read->fid, FI_REMOTE_READ), 0);
      EXPECT_EQ(fi_mr_bind(other.mr(), &other_written->fid, FI_REMOTE_WRITE), 0);
      EXPECT_EQ(fi_close(&written->fid), -FI_EBUSY) << "a region counts with it";
      const auto there = [&](std::uint64_t mine) {
        return std::stoull(
            r.all_gather(std::to_string(mine))[static_cast<std::size_t>(1 - r.id())]);
      };
      const std::uint64_t address = there(m.remote(0)), key = there(m.key());
      if (r.id() == 0) {
        for (int i = 0; i < 3; ++i) {
          n.post([&] {
            return fi_write(n.ep(), other.at(0), 8, other.desc(), n.peer(1), address, key, ctx(1));
          });
          EXPECT_EQ(n.wait(ctx(1)).err, 0);
        }
        n.post([&] {
          return fi_read(n.ep(), other.at(0), 8, other.desc(), n.peer(1), address, key, ctx(2));
        });
        EXPECT_EQ(n.wait(ctx(2)).err, 0);
      } else {
        while (fi_cntr_read(written.get()) < 3 || fi_cntr_read(read.get()) < 1) n.poll();
      }
      r.barrier();
      EXPECT_EQ(fi_cntr_read(written.get()), r.id() == 0 ? 0U : 3U);
      EXPECT_EQ(fi_cntr_read(read.get()), r.id() == 0 ? 0U : 1U);
      EXPECT_EQ(fi_cntr_read(other_written.get()), 0U);
    }
  });
}

// The call would be without effect.
TEST(counter, of_a_region_needs_rma_events) {
  run({.ranks = 1}, [](rank&) {
    node n({.counters = {FI_RECV}});
    memory m(n, 4096, false, 1);
    EXPECT_EQ(fi_mr_bind(m.mr(), &n.counter(0)->fid, FI_REMOTE_WRITE), -FI_ENOSYS);
  });
}

INSTANTIATE_TEST_SUITE_P(memories, target_counter, testing::Bool(),
                         [](const auto& p) { return p.param ? "device" : "host"; });

TEST(counter, of_targets_needs_rma_events) {
  run({.ranks = 1}, [](rank&) {
    const info_ptr hints(fi_allocinfo());
    hints->ep_attr->type = FI_EP_RDM;
    hints->fabric_attr->prov_name = strdup(provider().c_str());
    fi_info* found = nullptr;
    must(fi_getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, hints.get(), &found), "fi_getinfo");
    for (const fi_info* i = found; i; i = i->next)
      EXPECT_FALSE(i->caps & FI_RMA_EVENT) << i->fabric_attr->prov_name;
    fi_freeinfo(found);
    EXPECT_THROW(node({.counters = {FI_REMOTE_WRITE}}), std::runtime_error);
    EXPECT_NO_THROW(node({.counters = {FI_RECV | FI_REMOTE_WRITE}}));
  });
}

}  // namespace
}  // namespace gaudi::test
