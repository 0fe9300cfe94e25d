// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What the NIC's connection with itself asks of the core. The connection is tcp's; its reads are
// taken by the test, which completes them when it likes.
#include "core/loopback_connection.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/get_info.hpp"

namespace gaudi::core {
namespace {

/// A clock by which each look takes a while.
struct look_by_look final : base::clock::source {
  base::clock::time_point now() noexcept override { return time += each; }
  base::clock::time_point time{};
  std::chrono::nanoseconds each{0};
};

/// One read that the core was asked for.
struct asked_read {
  std::uint64_t to;
  std::size_t length;
  std::uint64_t address;
};

/// The reads, and how long they take: so many looks at the completion queue.
struct {
  std::vector<asked_read> asked;
  std::size_t completed = 0;
  unsigned looks_each = 0;
  unsigned looks = 0;
} reads;

ssize_t take_read(fid_ep*, void* to, std::size_t length, void*, fi_addr_t, std::uint64_t address,
                  std::uint64_t, void*) {
  reads.asked.push_back({reinterpret_cast<std::uint64_t>(to), length, address});
  reads.looks = 0;
  return 0;
}

ssize_t complete_read(fid_cq*, void*, std::size_t) {
  if (reads.completed == reads.asked.size() || ++reads.looks <= reads.looks_each) return -FI_EAGAIN;
  ++reads.completed;
  return 1;
}

class loopback_reads : public testing::Test {
 protected:
  loopback_reads() {
    reads = {};
    endpoint_ = nullptr;
    sockaddr_in here{};
    here.sin_family = AF_INET;
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    query q;
    q.addr_format = FI_SOCKADDR_IN;
    q.src_addr = std::as_bytes(std::span(&here, 1));
    q.core = base::core_choice::tcp;
    core_ = *inner_domain::open(*get_info(q));
    fid_domain& d = *core_->domain();
    real() = d.ops;
    ops_ = *d.ops;
    ops_.endpoint = open_endpoint;
    ops_.cq_open = open_queue;
    d.ops = &ops_;
    loop_ = *loopback_connection::open(*core_, base::clock(clock_));
    rma_.size = sizeof rma_;
    rma_.read = take_read;
    queue_ops_.read = complete_read;
    // Not before: the core's own operations make the connection.
    endpoint_->rma = &rma_;
    queue_->ops = &queue_ops_;
  }
  ~loopback_reads() override {
    loop_.reset();
    core_->domain()->ops = real();
  }

  static fi_ops_domain*& real() {
    static fi_ops_domain* ops;
    return ops;
  }
  /// The first is the one that reads.
  static int open_endpoint(fid_domain* d, fi_info* info, fid_ep** out, void* context) {
    const int ret = real()->endpoint(d, info, out, context);
    if (ret == 0 && !endpoint_) endpoint_ = *out;
    return ret;
  }
  static int open_queue(fid_domain* d, fi_cq_attr* attr, fid_cq** out, void* context) {
    const int ret = real()->cq_open(d, attr, out, context);
    if (ret != 0) return ret;
    queue_ = *out;
    queue_ops_ = *queue_->ops;
    return 0;
  }

  int read(std::size_t length) {
    return loop_->read(reinterpret_cast<void*>(0x1000), nullptr, length, 0x10'0000, 1).code();
  }

  static inline fid_ep* endpoint_ = nullptr;
  static inline fid_cq* queue_ = nullptr;
  static inline fi_ops_cq queue_ops_{};
  fi_ops_rma rma_{};
  fi_ops_domain ops_{};
  look_by_look clock_;
  std::unique_ptr<inner_domain> core_;
  std::unique_ptr<loopback_connection> loop_;
};

TEST_F(loopback_reads, are_no_longer_than_the_core_takes_at_a_time) {
  core_->info().ep_attr->max_msg_size = 1000;
  EXPECT_EQ(read(2500), 0);
  ASSERT_EQ(reads.asked.size(), 3U);
  std::size_t done = 0;
  for (const asked_read& one : reads.asked) {
    EXPECT_LE(one.length, 1000U);
    EXPECT_EQ(one.to, 0x1000 + done);
    EXPECT_EQ(one.address, 0x10'0000 + done);
    done += one.length;
  }
  EXPECT_EQ(done, 2500U);
  EXPECT_EQ(read(1000), 0);
  EXPECT_EQ(reads.asked.size(), 4U);
}

TEST_F(loopback_reads, are_no_longer_than_a_gibibyte_whatever_the_core_says) {
  core_->info().ep_attr->max_msg_size = SIZE_MAX;
  constexpr std::size_t gib = std::size_t{1} << 30;
  EXPECT_EQ(read(5 * gib + 1), 0);
  ASSERT_EQ(reads.asked.size(), 6U);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(reads.asked[i].length, gib);
  EXPECT_EQ(reads.asked[5].length, 1U);
}

// The first looks cost no time.
TEST_F(loopback_reads, have_more_time_the_longer_they_are) {
  constexpr std::size_t mib = std::size_t{1} << 20;
  clock_.each = std::chrono::milliseconds(10);
  reads.looks_each = 64 + 200;
  EXPECT_EQ(read(1000 * mib), 0);
  EXPECT_EQ(read(1), -FI_ETIMEDOUT);
}

// With it the NIC may have been, where it is software on this machine.
TEST_F(loopback_reads, have_not_had_the_time_in_which_the_thread_was_stopped) {
  clock_.each = std::chrono::hours(1);
  reads.looks_each = 64 + 90;
  EXPECT_EQ(read(1), 0);
  reads.looks_each = 64 + 110;
  EXPECT_EQ(read(1), -FI_ETIMEDOUT) << "it has looked often enough";
}

}  // namespace
}  // namespace gaudi::core
