// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// fork(2) by a process with traffic: its data stays right, and the child cannot spoil it.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "asleep.hpp"
#include "node.hpp"

namespace gaudi::test {
namespace {

using bytes = std::vector<std::byte>;

/// Runs `body` in a child; true when it gives true.
template <class Body>
bool in_child(Body body) {
#ifdef __SANITIZE_ADDRESS__
  let_others_fall_asleep();
#endif
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(body() ? 0 : 1);
  int status = -1;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void exchange(rank& r, node& n, std::size_t size) {
  const int other = 1 - r.id();
  const bytes out = bytes_of(static_cast<std::uint64_t>(r.id()), size);
  bytes in(size);
  n.post([&] { return fi_trecv(n.ep(), in.data(), size, nullptr, n.peer(other), 1, 0, ctx(1)); });
  n.post([&] { return fi_tsend(n.ep(), out.data(), size, nullptr, n.peer(other), 1, ctx(2)); });
  EXPECT_EQ(n.wait(ctx(1)).err, 0);
  EXPECT_EQ(n.wait(ctx(2)).err, 0);
  expect_same(bytes_of(static_cast<std::uint64_t>(other), size), in, "message");
}

class fork_with : public testing::TestWithParam<fi_progress> {};

TEST_P(fork_with, traffic_leaves_it_right) {
  run({}, [&](rank& r) {
    node n({.caps = FI_MSG | FI_TAGGED | FI_RMA, .mr_mode = 0, .progress = GetParam()});
    n.meet(r);
    memory m(n, 4096, false, 3);
    exchange(r, n, 100000);
    // Something is under way at the moment of the fork.
    const bytes out = bytes_of(5, 500000);
    bytes in(500000);
    const int other = 1 - r.id();
    n.post([&] {
      return fi_trecv(n.ep(), in.data(), in.size(), nullptr, n.peer(other), 2, 0, ctx(3));
    });
    n.post([&] {
      return fi_tsend(n.ep(), out.data(), out.size(), nullptr, n.peer(other), 2, ctx(4));
    });
    EXPECT_TRUE(in_child([&] {
      char byte = 0;
      fi_cq_tagged_entry entry{};
      fid_mr* mr = nullptr;
      fi_addr_t address = n.peer(other);
      std::size_t length = 0;
      return fi_av_insert(n.av(), &byte, 1, &address, 0, nullptr) == -FI_EOPBADSTATE &&
             fi_av_remove(n.av(), &address, 1, 0) == -FI_EOPBADSTATE &&
             fi_getname(&n.ep()->fid, &byte, &length) == -FI_EOPBADSTATE &&
             fi_close(&n.av()->fid) == 0 &&
             fi_tsend(n.ep(), &byte, 1, nullptr, n.peer(other), 1, nullptr) == -FI_EOPBADSTATE &&
             fi_trecv(n.ep(), &byte, 1, nullptr, n.peer(other), 1, 0, nullptr) == -FI_EOPBADSTATE &&
             fi_write(n.ep(), &byte, 1, nullptr, n.peer(other), 0, 3, nullptr) == -FI_EOPBADSTATE &&
             fi_cq_read(n.cq(), &entry, 1) == -FI_EOPBADSTATE &&
             fi_cq_sread(n.cq(), &entry, 1, nullptr, 10) == -FI_EOPBADSTATE &&
             fi_mr_reg(n.domain(), &byte, 1, FI_REMOTE_READ, 0, 9, 0, &mr, nullptr) ==
                 -FI_EOPBADSTATE &&
             fi_close(&n.ep()->fid) == 0 && fi_close(&n.domain()->fid) == 0;
    }));
    EXPECT_TRUE(in_child([] {
      ::execl("/bin/true", "true", static_cast<char*>(nullptr));
      return false;
    }));
    EXPECT_EQ(n.wait(ctx(3)).err, 0);
    EXPECT_EQ(n.wait(ctx(4)).err, 0);
    expect_same(out, in, "message under way");
    exchange(r, n, 100000);
    r.barrier();
  });
}

INSTANTIATE_TEST_SUITE_P(progress, fork_with, testing::Values(FI_PROGRESS_MANUAL, FI_PROGRESS_AUTO),
                         [](const auto& p) {
                           return p.param == FI_PROGRESS_AUTO ? "automatic" : "manual";
                         });

TEST(fork, child_can_open_its_own) {
  run({.ranks = 1}, [](rank& r) {
    node n({.mr_mode = 0});
    n.meet(r);
    EXPECT_TRUE(in_child([] {
      node own({.mr_mode = 0});
      const std::string name = own.name();
      fi_addr_t self = FI_ADDR_NOTAVAIL;
      if (fi_av_insert(own.av(), name.data(), 1, &self, 0, nullptr) != 1) return false;
      char in = 0;
      own.post([&] { return fi_trecv(own.ep(), &in, 1, nullptr, self, 1, 0, ctx(1)); });
      own.post([&] { return fi_tsend(own.ep(), "y", 1, nullptr, self, 1, ctx(2)); });
      return own.wait(ctx(1)).err == 0 && own.wait(ctx(2)).err == 0 && in == 'y';
    }));
  });
}

class device_at_a_fork : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_gaudi()) GTEST_SKIP() << "only gaudi carries Gaudi memory";
  }
  /// One rank on a machine with so many devices.
  static world with_devices(const char* count) {
    return {.ranks = 1, .environment = {{"HLSIM_DEVICES", count}}};
  }
};

bool fails(long ret) {
  return ret == -FI_EOPBADSTATE;
}

TEST_F(device_at_a_fork, is_the_parents_alone) {
  run(with_devices("1"), [](rank&) {
    node n({.device = true});
    memory m(n, 10'000, true);
    m.put(0, bytes_of(1, 10'000));
    fi_gaudi_ops& ops = n.ops();
    EXPECT_TRUE(in_child([&] {
      std::uint64_t address = 0, other = 0;
      fi_gaudi_dmabuf exported{};
      fi_gaudi_device_attr attr{};
      fi_gaudi_addr_attr where{};
      fi_gaudi_device_stats stats{};
      int number = 0;
      const auto device = reinterpret_cast<std::uint64_t>(m.at(0));
      const auto host = reinterpret_cast<std::uint64_t>(&address);
      return fails(ops.alloc(n.domain(), 4096, &address)) && fails(ops.free(n.domain(), device)) &&
             fails(ops.export_dmabuf(n.domain(), device, 4096, &exported)) &&
             fails(ops.query_device(n.domain(), &attr)) &&
             fails(ops.query_addr(n.domain(), device, 1, &where)) &&
             fails(ops.copy(n.domain(), device, host, 8, FI_GAUDI_HOST_TO_DEVICE)) &&
             fails(ops.copy_async(n.domain(), device, host, 8, FI_GAUDI_HOST_TO_DEVICE, &other)) &&
             fails(ops.copy_test(n.domain(), 1)) && fails(ops.copy_wait(n.domain(), 1, 0)) &&
             fails(ops.adopt_device(n.domain(), 0)) &&
             fails(ops.release_range(n.domain(), device)) &&
             fails(ops.device_stats(n.domain(), &stats)) &&
             fails(ops.device_count(n.domain(), &number)) &&
             fails(ops.select_device(n.domain(), 0)) &&
             fails(ops.pool_create(n.domain(), 4096, 0, &other)) &&
             fails(ops.pool_alloc(n.domain(), 1, 64, &other));
    }));
    expect_same(bytes_of(1, 10'000), m.get(0, 10'000), "the parent's memory");
  });
}

/// The application opens a device itself, with libhl-thunk.
int open_by_application(const char* bus_id) {
  void* const library = ::dlopen(std::getenv("FI_GAUDI_HLTHUNK"), RTLD_NOW);
  if (library == nullptr) throw std::runtime_error(::dlerror());
  constexpr int dont_care = 4;
  const auto open = reinterpret_cast<int (*)(int, const char*)>(::dlsym(library, "hlthunk_open"));
  return static_cast<int>(must(open(dont_care, bus_id), "hlthunk_open"));
}

/// In the child: what a domain of its own says to an allocation, and where that device is.
int allocate_in_own_domain(std::string& bus_id) {
  node own({.device = true});
  std::uint64_t address = 0;
  const int ret = own.ops().alloc(own.domain(), 4096, &address);
  if (ret != 0) return ret;
  fi_gaudi_device_attr attr{};
  must(own.ops().query_device(own.domain(), &attr), "query_device");
  bus_id = attr.pci_addr;
  const bytes in = bytes_of(9, 4096);
  bytes out(4096);
  const auto at = [](const void* p) { return reinterpret_cast<std::uint64_t>(p); };
  must(own.ops().copy(own.domain(), address, at(in.data()), 4096, FI_GAUDI_HOST_TO_DEVICE), "copy");
  must(own.ops().copy(own.domain(), at(out.data()), address, 4096, FI_GAUDI_DEVICE_TO_HOST),
       "copy");
  must(own.ops().free(own.domain(), address), "free");
  return in == out ? 0 : -FI_EIO;
}

TEST_F(device_at_a_fork, is_in_use_for_the_child) {
  run(with_devices("1"), [](rank&) {
    node n({.device = true});
    memory m(n, 4096, true);
    m.put(0, bytes_of(1, 4096));
    EXPECT_TRUE(in_child([] {
      std::string bus_id;
      return allocate_in_own_domain(bus_id) == -FI_EBUSY;
    }));
    expect_same(bytes_of(1, 4096), m.get(0, 4096), "the parent's memory");
  });
}

TEST_F(device_at_a_fork, leaves_the_child_another_one) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer lets the child of a process with threads start none";
#endif
  run(with_devices("2"), [](rank&) {
    node n({.device = true});
    memory m(n, 4096, true);
    m.put(0, bytes_of(1, 4096));
    fi_gaudi_device_attr parents{};
    must(n.ops().query_device(n.domain(), &parents), "query_device");
    EXPECT_TRUE(in_child([&] {
      std::string bus_id;
      return allocate_in_own_domain(bus_id) == 0 && bus_id != parents.pci_addr;
    }));
    expect_same(bytes_of(1, 4096), m.get(0, 4096), "the parent's memory");
  });
}

TEST_F(device_at_a_fork, of_the_applications_is_the_parents_too) {
  run(with_devices("1"), [](rank&) {
    const int fd = open_by_application("0000:19:00.0");
    node n({.device = true});
    memory m(n, 4096, true);
    m.put(0, bytes_of(1, 4096));
    EXPECT_TRUE(in_child([&] {
      std::string bus_id;
      node own({.device = true});
      return allocate_in_own_domain(bus_id) == -FI_EBUSY &&
             own.ops().adopt_device(own.domain(), fd) == -FI_EBUSY;
    }));
    expect_same(bytes_of(1, 4096), m.get(0, 4096), "the parent's memory");
  });
}

}  // namespace
}  // namespace gaudi::test
