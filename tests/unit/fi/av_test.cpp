// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "core/fid.hpp"
#include "fi/rdm/av_ops.hpp"

namespace {

using gaudi::core::unique_fid;
using gaudi::fi::av;
using gaudi::fi::child_count;
using testing::ElementsAre;

sockaddr_in v4(const char* text, std::uint16_t port) {
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_port = htons(port);
  EXPECT_EQ(inet_pton(AF_INET, text, &in.sin_addr), 1);
  return in;
}

sockaddr_in6 v6(const char* text, std::uint16_t port) {
  sockaddr_in6 in{};
  in.sin6_family = AF_INET6;
  in.sin6_port = htons(port);
  EXPECT_EQ(inet_pton(AF_INET6, text, &in.sin6_addr), 1);
  return in;
}

class address_vectors : public testing::Test {
 protected:
  unique_fid<fid_av> open(std::uint64_t flags = 0, std::uint32_t format = FI_SOCKADDR_IN) {
    fi_av_attr attr{};
    attr.flags = flags;
    fid_av* opened = nullptr;
    EXPECT_EQ(gaudi::fi::av_open({domain_child_count_, lock_, format}, &attr, &opened, nullptr), 0);
    EXPECT_EQ(attr.type, FI_AV_TABLE);
    return unique_fid<fid_av>(opened);
  }

  unique_fid<fid_eq> open_eq() {
    fi_eq_attr attr{};
    fid_eq* eq = nullptr;
    EXPECT_EQ(gaudi::fi::event_queue::open(fabric_child_count_, &attr, &eq, nullptr), 0);
    return unique_fid<fid_eq>(eq);
  }

  static std::string name(fid_av* a, fi_addr_t index) {
    sockaddr_storage addr{};
    std::size_t length = sizeof(addr);
    if (fi_av_lookup(a, index, &addr, &length)) return "nothing";
    std::array<char, 64> text{};
    length = text.size();
    return fi_av_straddr(a, &addr, text.data(), &length);
  }

  child_count fabric_child_count_;
  child_count domain_child_count_;
  gaudi::base::domain_lock lock_;
};

TEST_F(address_vectors, insert_look_up_and_remove) {
  const auto a = open();
  const std::array addrs{v4("10.0.0.1", 1), v4("10.0.0.2", 2), v4("10.0.0.1", 1)};
  std::array<fi_addr_t, 3> indices{9, 9, 9};
  EXPECT_EQ(fi_av_insert(a.get(), addrs.data(), addrs.size(), indices.data(), 0, nullptr), 3);
  EXPECT_THAT(indices, ElementsAre(0, 1, 2));
  EXPECT_EQ(name(a.get(), 1), "fi_sockaddr_in://10.0.0.2:2");
  EXPECT_EQ(name(a.get(), 2), "fi_sockaddr_in://10.0.0.1:1");
  EXPECT_EQ(fi_av_remove(a.get(), indices.data(), 2, 0), 0);
  EXPECT_EQ(name(a.get(), 1), "nothing");
  EXPECT_EQ(name(a.get(), 2), "fi_sockaddr_in://10.0.0.1:1");
  EXPECT_EQ(fi_av_remove(a.get(), indices.data(), 1, 0), -FI_EINVAL);
}

TEST_F(address_vectors, take_a_null_result_array) {
  const auto a = open();
  const auto addr = v4("10.0.0.1", 1);
  EXPECT_EQ(fi_av_insert(a.get(), &addr, 1, nullptr, 0, nullptr), 1);
  EXPECT_EQ(fi_av_insert(a.get(), nullptr, 0, nullptr, 0, nullptr), 0);
  EXPECT_EQ(name(a.get(), 0), "fi_sockaddr_in://10.0.0.1:1");
}

TEST_F(address_vectors, leave_out_bad_addresses_and_say_which) {
  const auto a = open();
  const std::array addrs{sockaddr_in{}, v4("10.0.0.2", 2), v4("10.0.0.3", 0), v4("0.0.0.0", 4)};
  std::array<fi_addr_t, 4> indices{};
  std::array<int, 4> errors{-1, -1, -1, -1};
  EXPECT_EQ(
      fi_av_insert(a.get(), addrs.data(), addrs.size(), indices.data(), FI_SYNC_ERR, errors.data()),
      1);
  EXPECT_THAT(indices, ElementsAre(FI_ADDR_NOTAVAIL, 0, FI_ADDR_NOTAVAIL, FI_ADDR_NOTAVAIL));
  EXPECT_THAT(errors, ElementsAre(FI_EADDRNOTAVAIL, 0, FI_EADDRNOTAVAIL, FI_EADDRNOTAVAIL));
}

TEST_F(address_vectors, step_by_the_domains_format) {
  const auto a = open(0, FI_SOCKADDR_IN6);
  sockaddr_in6 wrong_family = v6("::3", 3);
  wrong_family.sin6_family = AF_INET;
  const std::array addrs{v6("::1", 1), wrong_family, v6("::2", 2)};
  std::array<fi_addr_t, 3> indices{};
  EXPECT_EQ(fi_av_insert(a.get(), addrs.data(), addrs.size(), indices.data(), 0, nullptr), 2);
  EXPECT_THAT(indices, ElementsAre(0, FI_ADDR_NOTAVAIL, 1));
  EXPECT_EQ(name(a.get(), 1), "fi_sockaddr_in6://[::2]:2");
}

TEST_F(address_vectors, step_by_each_family_for_the_general_format) {
  const auto a = open(0, FI_SOCKADDR);
  std::array<std::byte, sizeof(sockaddr_in6) + sizeof(sockaddr_in)> packed{};
  const auto first = v6("::1", 1);
  const auto second = v4("10.0.0.2", 2);
  std::memcpy(packed.data(), &first, sizeof(first));
  std::memcpy(packed.data() + sizeof(first), &second, sizeof(second));
  EXPECT_EQ(fi_av_insert(a.get(), packed.data(), 2, nullptr, 0, nullptr), 2);
  EXPECT_EQ(name(a.get(), 0), "fi_sockaddr_in6://[::1]:1");
  EXPECT_EQ(name(a.get(), 1), "fi_sockaddr_in://10.0.0.2:2");
}

TEST_F(address_vectors, look_up_truncates_and_tells_the_length) {
  const auto a = open();
  const auto addr = v4("10.0.0.1", 1);
  ASSERT_EQ(fi_av_insert(a.get(), &addr, 1, nullptr, 0, nullptr), 1);
  std::array<std::byte, 4> small{};
  std::size_t length = 2;
  EXPECT_EQ(fi_av_lookup(a.get(), 0, small.data(), &length), 0);
  EXPECT_EQ(length, sizeof(sockaddr_in));
  EXPECT_EQ(small[2], std::byte{0});
  EXPECT_EQ(fi_av_lookup(a.get(), FI_ADDR_NOTAVAIL, small.data(), &length), -FI_EINVAL);
}

TEST_F(address_vectors, straddr_always_terminates) {
  const auto a = open();
  const auto addr = v4("10.0.0.1", 1);
  const std::string whole = "fi_sockaddr_in://10.0.0.1:1";
  std::array<char, 6> text{'x', 'x', 'x', 'x', 'x', 'x'};
  std::size_t length = 5;
  EXPECT_EQ(fi_av_straddr(a.get(), &addr, text.data(), &length), text.data());
  EXPECT_EQ(std::string(text.data()), whole.substr(0, 4));
  EXPECT_EQ(text[5], 'x');
  EXPECT_EQ(length, whole.size() + 1);
  length = 0;
  fi_av_straddr(a.get(), &addr, text.data(), &length);
  EXPECT_EQ(std::string(text.data()), whole.substr(0, 4));
}

TEST_F(address_vectors, resolve_names) {
  const auto a = open();
  fi_addr_t index = 5;
  EXPECT_EQ(fi_av_insertsvc(a.get(), "127.0.0.1", "4711", &index, 0, nullptr), 1);
  EXPECT_EQ(index, 0U);
  EXPECT_EQ(name(a.get(), 0), "fi_sockaddr_in://127.0.0.1:4711");
  EXPECT_EQ(fi_av_insertsvc(a.get(), "::1", "4711", &index, 0, nullptr), 0);
  EXPECT_EQ(index, FI_ADDR_NOTAVAIL);
  EXPECT_EQ(fi_av_insertsvc(a.get(), nullptr, "4711", &index, 0, nullptr), -FI_EINVAL);
}

TEST_F(address_vectors, count_nodes_and_services) {
  const auto a = open();
  std::array<fi_addr_t, 4> indices{};
  EXPECT_EQ(fi_av_insertsym(a.get(), "10.1.1.255", 2, "5000", 2, indices.data(), 0, nullptr), 4);
  EXPECT_EQ(name(a.get(), 0), "fi_sockaddr_in://10.1.1.255:5000");
  EXPECT_EQ(name(a.get(), 1), "fi_sockaddr_in://10.1.1.255:5001");
  EXPECT_EQ(name(a.get(), 2), "fi_sockaddr_in://10.1.2.0:5000");
  EXPECT_EQ(name(a.get(), 3), "fi_sockaddr_in://10.1.2.0:5001");
  EXPECT_EQ(fi_av_insertsym(a.get(), "10.1.1.1", 1, "http", 1, indices.data(), 0, nullptr),
            -FI_EINVAL);
  EXPECT_EQ(fi_av_insertsym(a.get(), "10.1.1.1", 1, "65535", 2, indices.data(), 0, nullptr),
            -FI_EINVAL);
  EXPECT_EQ(fi_av_insertsym(a.get(), "localhost", 2, "5000", 1, indices.data(), 0, nullptr),
            -FI_EINVAL);
  EXPECT_EQ(fi_av_insertsym(a.get(), "localhost", 1, "5000", 1, indices.data(), 0, nullptr), 1);
}

TEST_F(address_vectors, asynchronous_insertion_reports_through_the_event_queue) {
  auto eq = open_eq();
  auto a = open(FI_EVENT);
  const std::array addrs{v4("10.0.0.1", 1), sockaddr_in{}, v4("10.0.0.3", 3)};
  std::array<fi_addr_t, 3> indices{};
  EXPECT_EQ(fi_av_insert(a.get(), addrs.data(), 3, indices.data(), 0, this), -FI_ENOEQ);
  ASSERT_EQ(a->fid.ops->bind(&a->fid, &eq->fid, 0), 0);
  EXPECT_EQ(fi_av_insert(a.get(), addrs.data(), 3, indices.data(), 0, this), 0);

  std::uint32_t event = 0;
  fi_eq_entry entry{};
  EXPECT_EQ(fi_eq_read(eq.get(), &event, &entry, sizeof(entry), 0), -FI_EAVAIL);
  fi_eq_err_entry error{};
  ASSERT_GT(fi_eq_readerr(eq.get(), &error, 0), 0);
  EXPECT_EQ(error.fid, &a->fid);
  EXPECT_EQ(error.context, this);
  EXPECT_EQ(error.data, 1U);
  EXPECT_EQ(error.err, FI_EADDRNOTAVAIL);
  ASSERT_GT(fi_eq_read(eq.get(), &event, &entry, sizeof(entry), 0), 0);
  EXPECT_EQ(event, std::uint32_t{FI_AV_COMPLETE});
  EXPECT_EQ(entry.fid, &a->fid);
  EXPECT_EQ(entry.context, this);
  EXPECT_EQ(entry.data, 2U);
  EXPECT_THAT(indices, ElementsAre(0, FI_ADDR_NOTAVAIL, 1));

  EXPECT_EQ(fi_close(&eq->fid), -FI_EBUSY);
  a.reset();
  EXPECT_EQ(fi_close(&eq.release()->fid), 0);
}

TEST_F(address_vectors, refuse_what_is_not_offered) {
  fid_av* opened = nullptr;
  fi_av_attr attr{};
  attr.name = "shared";
  EXPECT_EQ(
      gaudi::fi::av_open({domain_child_count_, lock_, FI_SOCKADDR_IN}, &attr, &opened, nullptr),
      -FI_ENOSYS);
  attr = {};
  attr.rx_ctx_bits = 1;
  EXPECT_EQ(
      gaudi::fi::av_open({domain_child_count_, lock_, FI_SOCKADDR_IN}, &attr, &opened, nullptr),
      -FI_ENOSYS);
  EXPECT_FALSE(domain_child_count_.any());

  const auto a = open();
  const auto addr = v4("10.0.0.1", 1);
  EXPECT_EQ(fi_av_insert(a.get(), &addr, 1, nullptr, FI_SYNC_ERR, nullptr), -FI_EINVAL);
  EXPECT_EQ(fi_av_insert(a.get(), &addr, 1, nullptr, FI_DIRECTED_RECV << 1, nullptr),
            -FI_EBADFLAGS);
  fid_av_set* set = nullptr;
  fi_av_set_attr set_attr{};
  EXPECT_EQ(a->ops->av_set(a.get(), &set_attr, &set, nullptr), -FI_ENOSYS);
}

TEST_F(address_vectors, stay_open_for_their_endpoints) {
  auto a = open();
  EXPECT_TRUE(domain_child_count_.any());
  {
    const child_count::ref endpoint(av::of(a.get()).bound());
    EXPECT_EQ(fi_close(&a->fid), -FI_EBUSY);
  }
  EXPECT_EQ(fi_close(&a.release()->fid), 0);
  EXPECT_FALSE(domain_child_count_.any());
}

}  // namespace
