// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/peer/address_vector.hpp"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include <map>
#include <new>
#include <random>
#include <string>

namespace {

using gaudi::proto::address_vector;
using gaudi::proto::net_address;

net_address v4(std::uint32_t host, std::uint16_t port) {
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_addr.s_addr = htonl(host);
  in.sin_port = htons(port);
  return {&in, sizeof(in)};
}

net_address v6(const char* text, std::uint16_t port, std::uint32_t scope = 0) {
  sockaddr_in6 in{};
  in.sin6_family = AF_INET6;
  in.sin6_port = htons(port);
  in.sin6_scope_id = scope;
  EXPECT_EQ(inet_pton(AF_INET6, text, &in.sin6_addr), 1);
  return {&in, sizeof(in)};
}

TEST(net_address, is_of_the_same_host_whatever_its_port) {
  EXPECT_TRUE(v6("fe80::1", 7).is_same_host(v6("fe80::1", 8)));
  EXPECT_FALSE(v6("fe80::1", 7).is_same_host(v6("fe80::2", 7)));
  EXPECT_TRUE(v4(1, 7).is_same_host(v4(1, 8)));
  EXPECT_FALSE(v4(1, 7).is_same_host(v4(2, 7)));
  EXPECT_FALSE(v4(1, 7).is_same_host(v6("::1", 7)));
}

TEST(net_address, is_empty_for_other_families_and_short_input) {
  sockaddr_storage other{};
  other.ss_family = AF_UNIX;
  sockaddr_in6 in6{};
  in6.sin6_family = AF_INET6;
  EXPECT_TRUE(net_address().empty());
  EXPECT_TRUE(net_address(nullptr, 16).empty());
  EXPECT_TRUE(net_address(&other, sizeof(other)).empty());
  EXPECT_TRUE(net_address(&in6, sizeof(sockaddr_in)).empty());
  EXPECT_EQ(net_address().length(), 0U);
  EXPECT_FALSE(net_address().is_destination());
}

TEST(net_address, compares_and_hashes_by_what_names_an_endpoint) {
  sockaddr_in padded{};
  padded.sin_family = AF_INET;
  padded.sin_addr.s_addr = htonl(0x0A000001);
  padded.sin_port = htons(7);
  padded.sin_zero[3] = 1;
  EXPECT_EQ(v4(0x0A000001, 7), net_address(&padded, sizeof(padded)));
  EXPECT_EQ(v4(0x0A000001, 7).hash(), net_address(&padded, sizeof(padded)).hash());
  EXPECT_NE(v4(0x0A000001, 7), v4(0x0A000001, 8));
  EXPECT_NE(v4(0x0A000001, 7), v4(0x0A000002, 7));
  EXPECT_NE(v6("::1", 7), v6("::2", 7));
  EXPECT_NE(v6("fe80::1", 7, 1), v6("fe80::1", 7, 2));
}

TEST(net_address, prints_as_libfabric_does) {
  EXPECT_STREQ(v4(0x01020304, 567).to_string().c_str(), "fi_sockaddr_in://1.2.3.4:567");
  EXPECT_STREQ(v6("2001:db8::1", 80).to_string().c_str(), "fi_sockaddr_in6://[2001:db8::1]:80");
}

TEST(net_address, knows_what_can_be_reached) {
  EXPECT_TRUE(v4(0x01020304, 1).is_destination());
  EXPECT_FALSE(v4(0x01020304, 0).is_destination());
  EXPECT_FALSE(v4(0, 1).is_destination());
  EXPECT_FALSE(v6("::", 1).is_destination());
  EXPECT_TRUE(v6("::1", 1).is_destination());
}

// The same number in another address means nothing, and peers there have their own.
TEST(net_address, has_a_scope_where_it_is_link_local) {
  EXPECT_EQ(v6("fe80::1", 7, 3).scope(), 3U);
  EXPECT_EQ(v6("2001:db8::1", 7, 3).scope(), 0U);
  EXPECT_EQ(v4(0xFE800001, 7).scope(), 0U);
}

TEST(net_address, advances_across_byte_borders) {
  EXPECT_EQ(v4(0x0A0000FF, 5).advanced(2), v4(0x0A000101, 5));
  EXPECT_EQ(v6("2001:db8::ffff", 5).advanced(1), v6("2001:db8::1:0", 5));
  EXPECT_EQ(v6("2001:db8::1", 5).advanced(0x1ff), v6("2001:db8::200", 5));
}

TEST(address_vector, gives_indices_in_order_of_insertion) {
  address_vector av;
  for (std::uint32_t i = 0; i < 1000; ++i) {
    const auto index = av.add(v4(i + 1, 7));
    ASSERT_TRUE(index);
    ASSERT_EQ(*index, i);
  }
  EXPECT_EQ(av.size(), 1000U);
  EXPECT_EQ(*av.find(999), v4(1000, 7));
  EXPECT_EQ(av.find(1000), nullptr);
  EXPECT_EQ(av.find(FI_ADDR_NOTAVAIL), nullptr);
  EXPECT_EQ(av.index_of(v4(1001, 7)), FI_ADDR_NOTAVAIL);
}

TEST(address_vector, reuses_the_lowest_unused_index) {
  address_vector av;
  for (std::uint32_t i = 0; i < 4; ++i) ASSERT_TRUE(av.add(v4(i + 1, 7)));
  EXPECT_TRUE(av.remove(2));
  EXPECT_TRUE(av.remove(1));
  EXPECT_EQ(*av.add(v4(100, 7)), 1U);
  EXPECT_EQ(*av.add(v4(101, 7)), 2U);
  EXPECT_EQ(*av.add(v4(102, 7)), 4U);
}

TEST(address_vector, holds_an_address_twice_and_resolves_to_the_lowest) {
  address_vector av;
  const auto twin = v4(9, 9);
  ASSERT_EQ(*av.add(v4(1, 1)), 0U);
  ASSERT_EQ(*av.add(twin), 1U);
  ASSERT_EQ(*av.add(twin), 2U);
  EXPECT_EQ(*av.find(1), twin);
  EXPECT_EQ(*av.find(2), twin);
  EXPECT_EQ(av.index_of(twin), 1U);
  EXPECT_TRUE(av.remove(1));
  EXPECT_EQ(av.index_of(twin), 2U);
  EXPECT_TRUE(av.remove(0));
  ASSERT_EQ(*av.add(twin), 0U);
  EXPECT_EQ(av.index_of(twin), 0U);
  EXPECT_TRUE(av.remove(0));
  EXPECT_TRUE(av.remove(2));
  EXPECT_EQ(av.index_of(twin), FI_ADDR_NOTAVAIL);
}

// Where each took a walk along all the others, this would not end.
TEST(address_vector, holds_an_address_as_often_as_it_is_inserted) {
  constexpr fi_addr_t count = 500'000;
  address_vector av;
  const auto same = v4(9, 9);
  for (fi_addr_t i = 0; i < count; ++i) ASSERT_EQ(*av.add(same), i);
  for (fi_addr_t i = count; i-- > 1;) ASSERT_TRUE(av.remove(i));
  EXPECT_EQ(av.index_of(same), 0U);
  EXPECT_TRUE(av.remove(0));
  EXPECT_EQ(av.index_of(same), FI_ADDR_NOTAVAIL);
}

TEST(address_vector, refuses_to_remove_what_is_not_there) {
  address_vector av;
  EXPECT_EQ(av.remove(0).code(), -FI_EINVAL);
  ASSERT_TRUE(av.add(v4(1, 1)));
  EXPECT_TRUE(av.remove(0));
  EXPECT_EQ(av.remove(0).code(), -FI_EINVAL);
  EXPECT_EQ(av.remove(FI_ADDR_NOTAVAIL).code(), -FI_EINVAL);
}

class mock_listener : public address_vector::listener {
 public:
  MOCK_METHOD(void, added, (fi_addr_t, const net_address&), (override));
  MOCK_METHOD(void, removed, (fi_addr_t, const net_address&), (override));
};

TEST(address_vector, tells_listeners_until_they_leave) {
  address_vector av;
  testing::StrictMock<mock_listener> listener;
  ASSERT_TRUE(av.add(v4(1, 1)));
  av.subscribe(listener);
  EXPECT_CALL(listener, added(1, v4(2, 2)));
  EXPECT_CALL(listener, removed(0, v4(1, 1)));
  ASSERT_TRUE(av.add(v4(2, 2)));
  ASSERT_TRUE(av.remove(0));
  av.unsubscribe(listener);
  ASSERT_TRUE(av.add(v4(3, 3)));
}

// Who has no memory for an address leaves the vector, and those that were told before, without it.
TEST(address_vector, takes_back_what_a_listener_has_no_memory_for) {
  address_vector av;
  ASSERT_EQ(*av.add(v4(1, 1)), 0U);
  ASSERT_EQ(*av.add(v4(2, 2)), 1U);
  ASSERT_EQ(*av.add(v4(1, 1)), 2U);
  ASSERT_TRUE(av.remove(1));
  testing::StrictMock<mock_listener> first;
  testing::StrictMock<mock_listener> second;
  av.subscribe(first);
  av.subscribe(second);
  for (const bool at_the_end : {false, true}) {
    const fi_addr_t index = at_the_end ? 3 : 1;
    const testing::InSequence in_order;
    EXPECT_CALL(first, added(index, v4(1, 1)));
    EXPECT_CALL(second, added(index, v4(1, 1))).WillOnce(testing::Throw(std::bad_alloc()));
    EXPECT_CALL(first, removed(index, v4(1, 1)));
    EXPECT_EQ(av.add(v4(1, 1)).code(), -FI_ENOMEM);
    EXPECT_EQ(av.size(), at_the_end ? 3U : 2U);
    EXPECT_EQ(av.find(index), nullptr);
    EXPECT_EQ(av.index_of(v4(1, 1)), 0U);
    EXPECT_CALL(first, added(index, v4(3, 3)));
    EXPECT_CALL(second, added(index, v4(3, 3)));
    EXPECT_EQ(*av.add(v4(3, 3)), index) << "its place is free again";
  }
  av.unsubscribe(first);
  av.unsubscribe(second);
  ASSERT_TRUE(av.remove(0));
  EXPECT_EQ(av.index_of(v4(1, 1)), 2U) << "its chain is whole";
}

/// Random changes against a plain map, with few distinct addresses so that duplicates are common.
TEST(address_vector, agrees_with_a_model) {
  address_vector av;
  std::map<fi_addr_t, net_address> model;
  std::mt19937 random(7);
  for (int step = 0; step < 20000; ++step) {
    if (random() % 2 == 0) {
      const auto address = random() % 2 ? v4(random() % 20 + 1, 5)
                                        : v6("::9", static_cast<std::uint16_t>(random() % 20 + 1));
      fi_addr_t lowest = 0;
      while (model.contains(lowest)) ++lowest;
      ASSERT_EQ(*av.add(address), lowest);
      model[lowest] = address;
    } else if (!model.empty()) {
      const auto victim = std::next(model.begin(), static_cast<long>(random() % model.size()));
      ASSERT_TRUE(av.remove(victim->first));
      model.erase(victim);
    }
    ASSERT_EQ(av.size(), model.size());
    if (model.empty()) continue;
    const auto probe = std::next(model.begin(), static_cast<long>(random() % model.size()));
    ASSERT_EQ(*av.find(probe->first), probe->second);
    const auto first = std::find_if(model.begin(), model.end(),
                                    [&](const auto& e) { return e.second == probe->second; });
    ASSERT_EQ(av.index_of(probe->second), first->first);
  }
}

TEST(address_vector, a_million_addresses_resolve) {
  constexpr std::uint32_t count = 1000000;
  address_vector av;
  av.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) ASSERT_TRUE(av.add(v4(0x0A000000 + i, 7)));
  for (std::uint32_t i = 0; i < count; i += 997) ASSERT_EQ(av.index_of(v4(0x0A000000 + i, 7)), i);
}

}  // namespace
