// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/wire/hello.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace gaudi::proto {
namespace {

net_address address_v4(const char* text, std::uint16_t port) {
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_port = htons(port);
  inet_pton(AF_INET, text, &in.sin_addr);
  return {&in, sizeof in};
}

net_address address_v6(const char* text, std::uint16_t port) {
  sockaddr_in6 in{};
  in.sin6_family = AF_INET6;
  in.sin6_port = htons(port);
  inet_pton(AF_INET6, text, &in.sin6_addr);
  return {&in, sizeof in};
}

hello valid() {
  hello h{};
  h.magic = wire::magic;
  h.version = wire::version;
  h.connection = 7;
  h.eager_limit = 16384;
  h.instance = 42;
  set_address(h, address_v4("192.0.2.1", 5000));
  return h;
}

TEST(hello, comes_back_as_it_was_sent) {
  const hello sent = valid();
  hello got{};
  ASSERT_EQ(check_hello(&sent, sizeof sent, got), wire::reject_reason::none);
  EXPECT_EQ(std::memcmp(&sent, &got, sizeof sent), 0);
}

TEST(hello, names_both_kinds_of_address) {
  for (const auto& name : {address_v4("192.0.2.1", 5000), address_v6("2001:db8::1", 6000)}) {
    hello h{};
    set_address(h, name);
    EXPECT_EQ(address_of(h), name);
  }
  hello h{};
  h.family = AF_UNIX;
  EXPECT_TRUE(address_of(h).empty());
}

TEST(hello, every_shorter_one_is_refused) {
  const hello sent = valid();
  for (std::size_t length = 0; length < sizeof sent; ++length) {
    hello got{};
    EXPECT_EQ(check_hello(&sent, length, got), wire::reject_reason::malformed)
        << length << " bytes";
  }
}

TEST(hello, another_version_is_told_apart_from_garbage_however_long_it_is) {
  hello sent = valid();
  sent.version = wire::version + 1;
  hello got{};
  EXPECT_EQ(check_hello(&sent, sizeof sent, got), wire::reject_reason::wrong_version);
  EXPECT_EQ(got.version, wire::version + 1);
  // A later version may be shorter or longer; magic and version stay where they are.
  EXPECT_EQ(check_hello(&sent, 6, got), wire::reject_reason::wrong_version);
  sent.magic ^= 1;
  EXPECT_EQ(check_hello(&sent, sizeof sent, got), wire::reject_reason::malformed);
}

TEST(hello, a_peer_whose_buffers_are_too_small_is_refused) {
  hello sent = valid();
  sent.eager_limit = wire::min_message - 1;
  hello got{};
  EXPECT_EQ(check_hello(&sent, sizeof sent, got), wire::reject_reason::malformed);
}

TEST(hello, random_bytes_are_never_accepted) {
  std::mt19937 random(1);
  std::array<unsigned char, 64> bytes{};
  for (int i = 0; i < 100000; ++i) {
    for (auto& b : bytes) b = static_cast<unsigned char>(random());
    hello got{};
    ASSERT_NE(check_hello(bytes.data(), random() % bytes.size(), got), wire::reject_reason::none);
  }
}

}  // namespace
}  // namespace gaudi::proto
