// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What a peer of the real tcp core can reach.
#include "core/inner_domain.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include <array>
#include <span>

#include "core/get_info.hpp"
#include "core/loopback_connection.hpp"

namespace gaudi::core {
namespace {

class over_tcp : public testing::Test {
 protected:
  over_tcp() {
    sockaddr_in here{};
    here.sin_family = AF_INET;
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    query q;
    q.addr_format = FI_SOCKADDR_IN;
    q.src_addr = std::as_bytes(std::span(&here, 1));
    q.core = base::core_choice::tcp;
    auto found = get_info(q);
    EXPECT_TRUE(found);
    auto opened = inner_domain::open(std::move(*found));
    EXPECT_TRUE(opened);
    core_ = std::move(*opened);
  }

  /// Whether a connected peer can read what was registered for `access`.
  bool is_read(std::uint64_t access) {
    auto mr = core_->register_memory(bytes_.data(), sizeof bytes_, access);
    EXPECT_TRUE(mr);
    auto connected = loopback_connection::open(*core_);
    EXPECT_TRUE(connected);
    std::array<int, 4> got{};
    const auto ret = (*connected)
                         ->read(got.data(), nullptr, sizeof got,
                                reinterpret_cast<std::uint64_t>(bytes_.data()), mr->key());
    return ret && got == bytes_;
  }

  std::array<int, 4> bytes_{1, 2, 3, 4};
  std::unique_ptr<inner_domain> core_;
};

TEST_F(over_tcp, keys_do_not_count) {
  std::vector<inner_mr> regions;
  for (int i = 0; i < 8; ++i) {
    auto mr = core_->register_memory(bytes_.data(), sizeof bytes_, FI_REMOTE_READ);
    ASSERT_TRUE(mr);
    EXPECT_GT(mr->key(), UINT32_MAX);
    EXPECT_LT(mr->key(), std::uint64_t{1} << 63) << "that bit says that the core has no such key";
    for (const auto& r : regions)
      EXPECT_GT(std::max(mr->key(), r.key()) - std::min(mr->key(), r.key()), UINT32_MAX);
    regions.push_back(std::move(*mr));
  }
}

TEST_F(over_tcp, peers_read_what_is_for_them) {
  EXPECT_TRUE(is_read(FI_REMOTE_READ));
}

TEST_F(over_tcp, peers_do_not_read_what_is_for_the_core_alone) {
  EXPECT_FALSE(is_read(FI_SEND | FI_RECV | FI_READ | FI_WRITE));
  EXPECT_FALSE(is_read(FI_REMOTE_WRITE));
}

// The connection of a domain with itself is a peer's for the core, and peers may read neither.
TEST_F(over_tcp, a_copy_needs_no_right_of_peers) {
  std::array<int, 4> to{};
  const auto source = core_->register_memory(bytes_.data(), sizeof bytes_, FI_SEND);
  const auto target = core_->register_memory(to.data(), sizeof to, FI_RECV);
  ASSERT_TRUE(source && target);
  const auto connected = loopback_connection::open(*core_);
  ASSERT_TRUE(connected);
  const auto place = [](std::array<int, 4>& a, const inner_mr& mr) {
    return local_place{reinterpret_cast<std::byte*>(a.data()), mr.descriptor()};
  };
  EXPECT_TRUE((*connected)->copy(place(to, *target), place(bytes_, *source), sizeof to));
  EXPECT_EQ(to, bytes_);
  to = {};
  core_->info().ep_attr->max_msg_size = 5;
  EXPECT_TRUE((*connected)->copy(place(to, *target), place(bytes_, *source), sizeof to));
  EXPECT_EQ(to, bytes_) << "in several messages";
}

}  // namespace
}  // namespace gaudi::core
