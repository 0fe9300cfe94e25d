// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// FI_SOURCE_ERR: messages of senders that the address vector does not know.
#include <array>
#include <cstring>

#include "opened.hpp"

namespace gaudi::fi::test {
namespace {

constexpr std::uint64_t caps = FI_MSG | FI_TAGGED | FI_SOURCE;

struct source_error : testing::Test {
  explicit source_error(std::uint64_t more = FI_SOURCE_ERR)
      : o(direct_mode, FI_VERSION(1, 17), caps | more), sender(o), receiver(o) {
    address = sender.meet(receiver);
    EXPECT_EQ(fi_trecv(receiver.ep.get(), place.data(), place.size(), nullptr, FI_ADDR_UNSPEC, 1, 0,
                       &place),
              0);
    send();
  }
  void send() {
    EXPECT_EQ(
        retry(sender.cq.get(), [&] { return fi_tinject(sender.ep.get(), "who?", 4, address, 1); }),
        0);
  }
  ssize_t read(fi_addr_t& source) {
    fi_cq_tagged_entry entry{};
    return retry(sender.cq.get(),
                 [&] { return fi_cq_readfrom(receiver.cq.get(), &entry, 1, &source); });
  }
  std::array<std::byte, 64> name_of(const endpoint_set& e, std::size_t& length) {
    std::array<std::byte, 64> name{};
    length = name.size();
    EXPECT_EQ(fi_getname(&e.ep->fid, name.data(), &length), 0);
    return name;
  }

  opened o;
  endpoint_set sender;
  endpoint_set receiver;
  fi_addr_t address = FI_ADDR_NOTAVAIL;
  std::array<char, 16> place{};
};

TEST_F(source_error, names_the_stranger) {
  fi_addr_t source = 0;
  ASSERT_EQ(read(source), -FI_EAVAIL);
  fi_cq_err_entry error{};
  ASSERT_EQ(fi_cq_readerr(receiver.cq.get(), &error, 0), 1);
  EXPECT_EQ(error.err, FI_EADDRNOTAVAIL);
  EXPECT_EQ(error.op_context, &place);
  EXPECT_EQ(error.len, 4U);
  EXPECT_EQ(std::memcmp(place.data(), "who?", 4), 0) << "the message is there all the same";
  std::size_t length = 0;
  const auto name = name_of(sender, length);
  ASSERT_EQ(error.err_data_size, length);
  EXPECT_EQ(std::memcmp(error.err_data, name.data(), length), 0);

  // Made known, it is a stranger no more.
  fi_addr_t known = FI_ADDR_NOTAVAIL;
  ASSERT_EQ(fi_av_insert(receiver.av.get(), error.err_data, 1, &known, 0, nullptr), 1);
  ASSERT_EQ(fi_trecv(receiver.ep.get(), place.data(), 16, nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr),
            0);
  send();
  ASSERT_EQ(read(source), 1);
  EXPECT_EQ(source, known);
}

TEST_F(source_error, name_goes_to_the_caller_s_buffer) {
  fi_addr_t source = 0;
  ASSERT_EQ(read(source), -FI_EAVAIL);
  std::array<std::byte, 64> buffer{};
  fi_cq_err_entry error{};
  error.err_data = buffer.data();
  error.err_data_size = buffer.size();
  ASSERT_EQ(fi_cq_readerr(receiver.cq.get(), &error, 0), 1);
  std::size_t length = 0;
  const auto name = name_of(sender, length);
  EXPECT_EQ(error.err_data_size, length);
  EXPECT_EQ(error.err_data, buffer.data());
  EXPECT_EQ(std::memcmp(buffer.data(), name.data(), length), 0);
}

struct source_only : source_error {
  source_only() : source_error(0) {}
};

TEST_F(source_only, reports_no_address) {
  fi_addr_t source = 0;
  ASSERT_EQ(read(source), 1);
  EXPECT_EQ(source, FI_ADDR_NOTAVAIL);
}

}  // namespace
}  // namespace gaudi::fi::test
