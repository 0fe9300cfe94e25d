// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A device that is reset, hangs or vanishes under traffic: what is under way on it fails, at the
// ends that have to do with it; host memory and other devices notice nothing; and it is used again
// afterwards by the same process.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <ostream>
#include <string>
#include <thread>

#include "faults.hpp"
#include "lateness.hpp"
#include "passing.hpp"

namespace gaudi::test {
namespace {

using clock_type = std::chrono::steady_clock;

constexpr std::size_t mib = std::size_t{1} << 20;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int slowness = 10;
#else
constexpr int slowness = 1;
#endif
/// What is promised from the driver's notice on. The stand-in takes up to 10 ms to see the fault
/// file, which is all that the tests know the time of.
constexpr std::chrono::milliseconds promised{100 * slowness};

/// How many descriptors this process has of what the stand-in calls a device or an export.
std::ptrdiff_t device_descriptors() {
  std::ptrdiff_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    count +=
        std::filesystem::read_symlink(entry, gone).string().find("/device") != std::string::npos;
  }
  return count;
}

/// As long as the fault lasts, a device that is opened anew suffers it as well.
struct blow {
  const char* name;
  const char* fault;
  int error;  // of what was under way
  bool reopens;
};

std::ostream& operator<<(std::ostream& out, const blow& b) {
  return out << b.name;
}

class reset : public testing::TestWithParam<std::tuple<blow, bool>> {
 protected:
  void SetUp() override {
    if (!is_gaudi()) GTEST_SKIP() << "only gaudi carries Gaudi memory";
  }
};

std::string name_of(const testing::TestParamInfo<reset::ParamType>& info) {
  return std::string(std::get<0>(info.param).name) +
         (std::get<1>(info.param) ? "_of_the_senders" : "_of_the_receivers");
}

void exchange_host_memory(node& n, const rank& r, std::uint64_t tag) {
  constexpr std::size_t size = 300000;
  std::vector<std::byte> bytes = r.id() == 0 ? bytes_of(tag, size) : std::vector<std::byte>(size);
  if (r.id() == 0) {
    n.post([&] { return fi_tsend(n.ep(), bytes.data(), size, nullptr, n.peer(1), tag, ctx(tag)); });
  } else {
    n.post([&] {
      return fi_trecv(n.ep(), bytes.data(), size, nullptr, FI_ADDR_UNSPEC, tag, 0, ctx(tag));
    });
  }
  EXPECT_EQ(0, n.wait(ctx(tag)).err) << "host memory, tag " << tag;
  if (r.id() == 1) expect_same(bytes_of(tag, size), bytes, "host memory");
}

void exchange_device_memory(node& n, const rank& r, std::uint64_t tag) {
  constexpr std::size_t size = mib + 5;
  memory own(n, size, true);
  if (r.id() == 0) own.put(0, bytes_of(tag, size));
  EXPECT_EQ(0, pass(n, r, own, size, tag).err) << "device memory, tag " << tag;
  if (r.id() == 1) expect_same(bytes_of(tag, size), own.get(0, size), "device memory");
}

/// Waits for the operation; how long after `since`.
std::chrono::milliseconds expect_failure(node& n, void* context, int error,
                                         clock_type::time_point since) {
  const completion c = n.wait(context);
  EXPECT_EQ(c.err, error);
  return std::chrono::duration_cast<std::chrono::milliseconds>(clock_type::now() - since);
}

// The copies of rank 0's message, 64 MiB at 0.1 GB/s, take most of a second at either end.
TEST_P(reset, in_the_middle_of_a_message_ends_it_and_no_more) {
  const blow what = std::get<0>(GetParam());
  const bool of_sender = std::get<1>(GetParam());
  const int victim = of_sender ? 0 : 1;
  const std::vector<std::pair<std::string, std::string>> slow{
      {"HLSIM_H2D_GBPS", "0.1"}, {"HLSIM_D2H_GBPS", "0.1"}, {"FI_GAUDI_COPY_TIMEOUT", "1"}};
  run({.environment = slow}, [&](rank& r) {
    setenv("FI_GAUDI_DEVICE", std::to_string(r.id()).c_str(), 1);
    node n({.device = true});
    n.meet(r);
    exchange_device_memory(n, r, 1);
    constexpr std::size_t size = 64 * mib;
    const std::ptrdiff_t descriptors = device_descriptors();
    {
      memory own(n, size, true);
      memory waiting(n, 4096, true);
      n.post([&] {
        return fi_trecv(n.ep(), waiting.at(0), 4096, waiting.desc(), FI_ADDR_UNSPEC, 77, 0,
                        ctx(77));
      });
      r.barrier();
      if (r.id() == 0) {
        n.post([&] { return fi_tsend(n.ep(), own.at(0), size, own.desc(), n.peer(1), 2, ctx(2)); });
      } else {
        n.post([&] {
          return fi_trecv(n.ep(), own.at(0), size, own.desc(), FI_ADDR_UNSPEC, 2, 0, ctx(2));
        });
      }
      exchange_host_memory(n, r, 3);  // by then the long one has begun
      r.barrier();
      const lateness machine;
      const auto struck = clock_type::now();
      if (r.id() == victim) strike(std::to_string(victim) + ":" + what.fault);
      if (r.id() == victim) {
        const auto took = expect_failure(n, ctx(2), what.error, struck);
        if (std::string(what.fault) != "hang") {
          // The stand-in's thread, the provider's and this one, each of which may wait for a CPU
          // more than once.
          EXPECT_LT(took, promised + 6 * machine.worst());
        }
        EXPECT_EQ(what.error, n.wait(ctx(77)).err) << "a receive that nothing came for";
        EXPECT_LT(device_descriptors(), descriptors) << "the driver kills who keeps it open";
        std::uint64_t address = 0;
        EXPECT_EQ(-what.error, n.ops().alloc(n.domain(), 4096, &address));
        fid_ptr<fid_mr> mr;
        EXPECT_EQ(-what.error,
                  register_range(n.domain(), own.at(0), 4096, FI_HMEM_SYNAPSEAI, 9, mr));
        EXPECT_GT(0, fi_tsend(n.ep(), own.at(0), 64, own.desc(), n.peer(1 - victim), 5, ctx(5)));
      } else {
        EXPECT_NE(0, n.wait(ctx(2)).err);
        EXPECT_EQ(0, fi_cancel(&n.ep()->fid, ctx(77)));
        EXPECT_EQ(FI_ECANCELED, n.wait(ctx(77)).err);
        own.put(0, bytes_of(1, 4096));
        expect_same(bytes_of(1, 4096), own.get(0, 4096), "the other device");
      }
      exchange_host_memory(n, r, 4);
      r.barrier();
    }
    std::uint64_t address = 0;
    if (!what.reopens) {
      if (r.id() == victim) {
        EXPECT_EQ(-FI_ENODEV, n.ops().alloc(n.domain(), 4096, &address));
      }
      return r.barrier();
    }
    if (r.id() == victim) mend();
    r.barrier();
    exchange_device_memory(n, r, 6);
    exchange_host_memory(n, r, 7);
    EXPECT_EQ(descriptors, device_descriptors()) << "left of the device that was lost";
    r.barrier();
  });
}

// A fault strikes at what begins; of the copies that this one has before it, there are always some.
constexpr blow by_reset{"reset", "reset", FI_EIO, true};
constexpr blow by_hang{"hang", "hang", FI_EIO, true};
constexpr blow by_removal{"removal", "removal", FI_ENODEV, false};

INSTANTIATE_TEST_SUITE_P(by, reset,
                         testing::Combine(testing::Values(by_reset, by_hang, by_removal),
                                          testing::Bool()),
                         name_of);

class reset_idle : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_gaudi()) GTEST_SKIP() << "only gaudi carries Gaudi memory";
  }
};

// The sender's operation ends at once, the receiver's when it asks for the message.
TEST_F(reset_idle, ends_what_the_peer_has_not_answered) {
  run({}, [](rank& r) {
    setenv("FI_GAUDI_DEVICE", std::to_string(r.id()).c_str(), 1);
    node n({.device = true});
    n.meet(r);
    exchange_device_memory(n, r, 1);
    constexpr std::size_t size = mib;
    {
      memory own(n, size, true);
      if (r.id() == 0) {
        n.post([&] { return fi_tsend(n.ep(), own.at(0), size, own.desc(), n.peer(1), 2, ctx(2)); });
        exchange_host_memory(n, r, 3);
        strike("0:reset-after-ms=1");
        expect_failure(n, ctx(2), FI_EIO, clock_type::now());
        mend();
        r.barrier();
      } else {
        exchange_host_memory(n, r, 3);
        r.barrier();
        n.post([&] {
          return fi_trecv(n.ep(), own.at(0), size, own.desc(), FI_ADDR_UNSPEC, 2, 0, ctx(2));
        });
        EXPECT_EQ(FI_EIO, n.wait(ctx(2)).err);
      }
      r.barrier();
    }
    EXPECT_FALSE(n.has_completion());
    exchange_device_memory(n, r, 4);
    r.barrier();
  });
}

TEST_F(reset_idle, ends_a_read_that_waits_for_its_answer) {
  run({}, [](rank& r) {
    setenv("FI_GAUDI_DEVICE", std::to_string(r.id()).c_str(), 1);
    node n({.device = true});
    n.meet(r);
    memory remote(n, mib, false, 7);
    const std::array<std::uint64_t, 2> mine{remote.remote(0), remote.key()};
    const auto all = r.all_gather({reinterpret_cast<const char*>(mine.data()), sizeof mine});
    exchange_device_memory(n, r, 1);
    if (r.id() == 1) {
      // It answers nothing until the other device is lost.
      r.set_idle_work({});
      r.barrier();
      r.set_idle_work([&] { n.poll(); });
      r.barrier();
    } else {
      memory own(n, mib, true);
      std::array<std::uint64_t, 2> there{};
      std::memcpy(there.data(), all[1].data(), sizeof there);
      n.post([&] {
        return fi_read(n.ep(), own.at(0), mib, own.desc(), n.peer(1), there[0], there[1], ctx(2));
      });
      strike("0:reset-after-ms=1");
      expect_failure(n, ctx(2), FI_EIO, clock_type::now());
      mend();
      r.barrier();
      r.barrier();
    }
    EXPECT_FALSE(n.has_completion());
    exchange_device_memory(n, r, 4);
    r.barrier();
  });
}

// 30 times 20 ms after the reset the stand-in kills who still has the device open.
TEST_F(reset_idle, lets_go_before_the_driver_kills) {
  const std::string patience = std::to_string(0.02 * slowness);
  run({.ranks = 1, .environment = {{"HLSIM_KILL", patience}}}, [](rank& r) {
    node n({.device = true});
    n.meet(r);
    const memory own(n, 4096, true);
    fi_gaudi_dmabuf exported{};
    must(n.ops().export_dmabuf(n.domain(), own.remote(0), 4096, &exported), "export_dmabuf");
    ::close(exported.fd);
    n.post([&] {
      return fi_trecv(n.ep(), own.at(0), 4096, own.desc(), FI_ADDR_UNSPEC, 1, 0, ctx(1));
    });
    strike("reset-after-ms=1");
    EXPECT_EQ(FI_EIO, n.wait(ctx(1)).err);
    mend();
    std::this_thread::sleep_for(std::chrono::seconds(slowness));
  });
}

class reset_asleep : public testing::TestWithParam<fi_progress> {
 protected:
  void SetUp() override {
    if (!is_gaudi()) GTEST_SKIP() << "only gaudi carries Gaudi memory";
  }
};

TEST_P(reset_asleep, wakes_who_waits_for_what_cannot_come) {
  run({.ranks = 1}, [](rank& r) {
    node n({.wait = FI_WAIT_FD, .progress = GetParam(), .device = true});
    n.meet(r);
    memory own(n, 4096, true);
    n.post([&] {
      return fi_trecv(n.ep(), own.at(0), 4096, own.desc(), FI_ADDR_UNSPEC, 1, 0, ctx(1));
    });
    strike("reset-after-ms=20");
    fi_cq_tagged_entry entry{};
    constexpr int a_minute_ms = 60000;
    EXPECT_EQ(-FI_EAVAIL, fi_cq_sread(n.cq(), &entry, 1, nullptr, a_minute_ms));
    EXPECT_EQ(FI_EIO, n.wait(ctx(1)).err);
  });
}

INSTANTIATE_TEST_SUITE_P(progress, reset_asleep,
                         testing::Values(FI_PROGRESS_MANUAL, FI_PROGRESS_AUTO),
                         [](const auto& which) {
                           return which.param == FI_PROGRESS_AUTO ? "automatic" : "manual";
                         });

}  // namespace
}  // namespace gaudi::test
