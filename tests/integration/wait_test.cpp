// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Wait objects (fi_cq_sread, FI_WAIT_FD with fi_trywait) and FI_PROGRESS_AUTO.
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "asleep.hpp"
#include "node.hpp"

namespace gaudi::test {
namespace {

using bytes = std::vector<std::byte>;
using std::chrono::milliseconds;
using clock_type = std::chrono::steady_clock;

// Empty, injected, eager, rendezvous.
const std::vector<std::size_t> sizes{0, 8, 5000, 100000};

node_options waiting(std::uint64_t caps = FI_MSG | FI_TAGGED) {
  return {.caps = caps, .mr_mode = 0, .wait = FI_WAIT_FD};
}

/// Of all ranks.
std::vector<pid_t> pids(rank& r) {
  std::vector<pid_t> found;
  for (const std::string& pid : r.all_gather(std::to_string(getpid())))
    found.push_back(std::stoi(pid));
  return found;
}

/// One completion by fi_cq_sread.
fi_cq_tagged_entry sread(node& n, int timeout = 20000) {
  fi_cq_tagged_entry entry{};
  must(fi_cq_sread(n.cq(), &entry, 1, nullptr, timeout), "fi_cq_sread");
  return entry;
}

/// One completion by poll(2) on the wait object, as fi_poll(3) has it.
fi_cq_tagged_entry read_by_fd(node& n) {
  int fd = -1;
  must(fi_control(&n.cq()->fid, FI_GETWAIT, &fd), "FI_GETWAIT");
  for (;;) {
    fi_cq_tagged_entry entry{};
    const ssize_t ret = fi_cq_read(n.cq(), &entry, 1);
    if (ret == 1) return entry;
    if (ret != -FI_EAGAIN) must(ret, "fi_cq_read");
    fid* fids[] = {&n.cq()->fid};
    const int may_wait = fi_trywait(n.fabric(), fids, 1);
    if (may_wait == -FI_EAGAIN) continue;
    must(may_wait, "fi_trywait");
    pollfd readable{.fd = fd, .events = POLLIN, .revents = 0};
    if (::poll(&readable, 1, 20000) == 0) throw std::runtime_error("a wake-up was lost");
  }
}

template <class Receive>
void ping_pong(rank& r, node& n, int rounds, Receive receive) {
  const int other = 1 - r.id();
  for (int i = 0; i < rounds; ++i) {
    const std::size_t size = sizes[static_cast<std::size_t>(i) % sizes.size()];
    const bytes data = bytes_of(static_cast<std::uint64_t>(i), size);
    bytes in(size);
    const auto send = [&] {
      n.post(
          [&] { return fi_tsend(n.ep(), data.data(), size, nullptr, n.peer(other), 1, ctx(1)); });
    };
    n.post([&] { return fi_trecv(n.ep(), in.data(), size, nullptr, n.peer(other), 1, 0, ctx(2)); });
    if (r.id() == 0) send();
    bool sent = r.id() == 1, received = false, answered = r.id() == 0;
    while (!sent || !received || !answered) {
      const fi_cq_tagged_entry entry = receive(n);
      if (entry.op_context == ctx(1)) {
        (r.id() == 0 ? sent : answered) = true;
      } else {
        received = true;
        expect_same(data, in, "message");
        if (r.id() == 1) send();
      }
    }
  }
}

TEST(wait, sread_sleeps_until_a_message_comes) {
  run({}, [](rank& r) {
    node n(waiting());
    n.meet(r);
    ping_pong(r, n, 4, [](node& m) { return sread(m); });  // connects
    char byte = 0;
    const std::vector<pid_t> processes = pids(r);
    if (r.id() == 0) {
      EXPECT_TRUE(all_fall_asleep({processes[1]})) << "fi_cq_sread spins";
      n.post([&] { return fi_tsend(n.ep(), &byte, 1, nullptr, n.peer(1), 5, ctx(1)); });
      n.wait(ctx(1));
    } else {
      n.post([&] { return fi_trecv(n.ep(), &byte, 1, nullptr, n.peer(0), 5, 0, ctx(2)); });
      EXPECT_EQ(sread(n).op_context, ctx(2));
    }
    r.barrier();
  });
}

TEST(wait, sread_times_out) {
  run({.ranks = 1}, [](rank& r) {
    node n(waiting());
    n.meet(r);
    fi_cq_tagged_entry entry{};
    for (const int timeout : {0, 30}) {
      const auto start = clock_type::now();
      EXPECT_EQ(fi_cq_sread(n.cq(), &entry, 1, nullptr, timeout), -FI_EAGAIN);
      EXPECT_GE(clock_type::now() - start, milliseconds(timeout));
    }
  });
}

TEST(wait, signal_ends_sread_of_another_thread) {
  run({.ranks = 1}, [](rank& r) {
    node n(waiting());
    n.meet(r);
    std::atomic<bool> done{false};
    std::thread waits([&] {
      fi_cq_tagged_entry entry{};
      EXPECT_EQ(fi_cq_sread(n.cq(), &entry, 1, nullptr, -1), -FI_EAGAIN);
      done = true;
    });
    std::this_thread::sleep_for(milliseconds(50));
    EXPECT_FALSE(done);
    EXPECT_EQ(fi_cq_signal(n.cq()), 0);
    waits.join();
  });
}

TEST(wait, ping_pong_by_sread) {
  run({}, [](rank& r) {
    node n(waiting());
    n.meet(r);
    ping_pong(r, n, 200, [](node& m) { return sread(m); });
    r.barrier();
  });
}

TEST(wait, ping_pong_by_file_descriptor_loses_no_wake_up) {
  run({}, [](rank& r) {
    node n(waiting());
    n.meet(r);
    ping_pong(r, n, 400, read_by_fd);
    r.barrier();
  });
}

TEST(wait, device_memory_by_sread) {
  run({}, [](rank& r) {
    node_options options = waiting();
    options.device = true;
    node n(options);
    n.meet(r);
    memory m(n, 3 << 20, true);
    const bytes data = bytes_of(3, 3 << 20);
    if (r.id() == 0) {
      m.put(0, data);
      n.post(
          [&] { return fi_tsend(n.ep(), m.at(0), data.size(), m.desc(), n.peer(1), 1, ctx(1)); });
      EXPECT_EQ(sread(n).op_context, ctx(1));
    } else {
      n.post([&] {
        return fi_trecv(n.ep(), m.at(0), data.size(), m.desc(), n.peer(0), 1, 0, ctx(2));
      });
      EXPECT_EQ(sread(n).op_context, ctx(2));
      expect_same(data, m.get(0, data.size()), "device memory");
    }
    r.barrier();
  });
}

TEST(wait, progress_by_another_thread_wakes_the_sleeper) {
  run({}, [](rank& r) {
    node_options options = waiting();
    options.counters = {FI_RECV};
    node n(options);
    n.meet(r);
    ping_pong(r, n, 4, [](node& m) { return sread(m); });
    const std::uint64_t before = fi_cntr_read(n.counter(0));
    char byte = 0;
    n.post([&] { return fi_trecv(n.ep(), &byte, 1, nullptr, n.peer(1 - r.id()), 6, 0, ctx(3)); });
    std::atomic<bool> stop{false};
    std::thread polls([&] {
      while (!stop) n.poll();
    });
    if (r.id() == 0) std::this_thread::sleep_for(milliseconds(100));
    while (fi_tinject(n.ep(), &byte, 1, n.peer(1 - r.id()), 6) == -FI_EAGAIN) {
    }
    EXPECT_EQ(fi_cntr_wait(n.counter(0), before + 1, 20000), 0);
    stop = true;
    polls.join();
    r.barrier();
  });
}

TEST(wait, objects_that_are_offered_and_not) {
  run({.ranks = 1}, [](rank&) {
    const auto open = [](node& n, fi_wait_obj wait, int& fd) {
      fi_cq_attr attr{};
      attr.wait_obj = wait;
      fid_cq* cq = nullptr;
      const int ret = fi_cq_open(n.domain(), &attr, &cq, nullptr);
      if (ret) return ret;
      const fid_ptr<fid_cq> queue(cq);
      return fi_control(&cq->fid, FI_GETWAIT, &fd);
    };
    node n({.mr_mode = 0});
    int fd = -1;
    EXPECT_EQ(open(n, FI_WAIT_FD, fd), 0);
    EXPECT_GE(fd, 0);
    EXPECT_EQ(open(n, FI_WAIT_NONE, fd), -FI_ENODATA);
    EXPECT_EQ(open(n, FI_WAIT_UNSPEC, fd), -FI_ENODATA);
    EXPECT_EQ(open(n, FI_WAIT_MUTEX_COND, fd), -FI_ENOSYS);
  });
}

// The target's own threads never enter the library, so what completes there was progressed by ours.
TEST(auto_progress, serves_peers_without_the_application) {
  run({}, [](rank& r) {
    node n({.caps = FI_MSG | FI_TAGGED | FI_RMA, .mr_mode = 0, .progress = FI_PROGRESS_AUTO});
    EXPECT_EQ(n.info()->domain_attr->data_progress, FI_PROGRESS_AUTO);
    EXPECT_EQ(n.info()->domain_attr->control_progress, FI_PROGRESS_AUTO);
    n.meet(r);
    constexpr std::size_t size = 1 << 20;
    memory m(n, size, false, 77);
    bytes in(size);
    const bytes data = bytes_of(9, size);
    if (r.id() == 1)
      n.post([&] { return fi_trecv(n.ep(), in.data(), size, nullptr, n.peer(0), 1, 0, ctx(1)); });
    r.barrier();
    if (r.id() == 0) {
      memory source(n, size, false, 78);
      source.put(0, data);
      n.post([&] {
        return fi_write(n.ep(), source.at(0), size, source.desc(), n.peer(1), 0, 77, ctx(2));
      });
      EXPECT_EQ(n.wait(ctx(2)).err, 0);
      n.post([&] { return fi_tsend(n.ep(), data.data(), size, nullptr, n.peer(1), 1, ctx(3)); });
      EXPECT_EQ(n.wait(ctx(3)).err, 0);
    }
    r.barrier();  // rank 1 only blocks here
    if (r.id() == 1) {
      EXPECT_EQ(n.wait(ctx(1)).err, 0);
      expect_same(data, m.get(0, size), "written memory");
      expect_same(data, in, "received message");
    }
    r.barrier();
  });
}

TEST(auto_progress, costs_nothing_while_nothing_happens) {
  run({}, [](rank& r) {
    node n({.mr_mode = 0, .progress = FI_PROGRESS_AUTO});
    n.meet(r);
    ping_pong(r, n, 20, [](node& m) {
      const completion c = m.wait_any();
      return fi_cq_tagged_entry{
          .op_context = c.context, .flags = 0, .len = 0, .buf = nullptr, .data = 0, .tag = 0};
    });
    const std::vector<pid_t> processes = pids(r);
    if (r.id() == 0) {
      EXPECT_TRUE(all_fall_asleep(processes)) << "a progress thread does not sleep";
    }
    r.barrier();  // where rank 1 sleeps
  });
}

TEST(auto_progress, device_copies_go_on_without_the_application) {
  run({}, [](rank& r) {
    node n({.caps = FI_TAGGED, .progress = FI_PROGRESS_AUTO, .device = true});
    n.meet(r);
    constexpr std::size_t size = 5 << 20;
    memory m(n, size, true);
    const bytes data = bytes_of(4, size);
    if (r.id() == 0) m.put(0, data);
    const auto post = [&] {
      return r.id() == 0 ? fi_tsend(n.ep(), m.at(0), size, m.desc(), n.peer(1), 1, ctx(1))
                         : fi_trecv(n.ep(), m.at(0), size, m.desc(), n.peer(0), 1, 0, ctx(1));
    };
    n.post(post);
    // Nobody polls; both sides look only when nothing goes on any more.
    const std::vector<pid_t> processes = pids(r);
    if (r.id() == 0) {
      EXPECT_TRUE(all_fall_asleep(processes));
    }
    r.barrier();
    fi_cq_tagged_entry entry{};
    EXPECT_EQ(fi_cq_read(n.cq(), &entry, 1), 1);
    if (r.id() == 1) expect_same(data, m.get(0, size), "device memory");
    r.barrier();
  });
}

}  // namespace
}  // namespace gaudi::test
