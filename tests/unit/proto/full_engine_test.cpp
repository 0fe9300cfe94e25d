// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Transfers of device memory while somebody else has filled the device's copy engine: they wait,
// and lose nothing.
#include "device_under_load.hpp"

namespace gaudi::proto {
namespace {

using copy::direction;
using test::counting;
using test::memory_of;
using test::number;

class full_engine : public test::device_under_load {
 protected:
  void put(const std::vector<std::byte>& bytes) { copy(bytes.data(), bytes.size(), true); }
  std::vector<std::byte> get(std::size_t length) {
    std::vector<std::byte> bytes(length);
    copy(bytes.data(), length, false);
    return bytes;
  }
  void copy(const void* host, std::size_t length, bool to_device) {
    const auto at = reinterpret_cast<std::uint64_t>(host);
    const auto rc =
        copy::copy_sync(gaudi_, to_device ? region_.address : at, to_device ? at : region_.address,
                        length, to_device ? direction::host_to_device : direction::device_to_host);
    EXPECT_EQ(rc.code(), 0);
  }

  void receive_while_full(std::size_t length) {
    const fi_addr_t to = a_.meet(b_);
    test::pass(a_, to, b_, 10, 1);
    const auto sent = counting(length, 7);
    put(std::vector<std::byte>(length));
    fill();
    ASSERT_EQ(b_.receive(on_device(length), 2, number(2)), 0);
    auto bytes = sent;
    ASSERT_EQ(
        test::post({&a_, &b_},
                   [&] { return a_.send(to, memory_of(bytes.data(), length), 2, number(3)); }),
        0);
    nothing_ends();
    empty();
    EXPECT_EQ(test::wait(b_, {&a_, &b_}).error, 0);
    EXPECT_EQ(get(length), sent);
  }
};

TEST_F(full_engine, does_not_lose_a_short_message) {
  receive_while_full(3000);
  EXPECT_EQ(b_.paths.staged_ops, 1U);
  EXPECT_EQ(b_.paths.staged_bytes, 3000U);
}

TEST_F(full_engine, does_not_lose_a_long_message) {
  receive_while_full(long_message);
}

TEST_F(full_engine, delays_a_send) {
  const fi_addr_t to = a_.meet(b_);
  test::pass(a_, to, b_, 10, 1);
  const auto sent = counting(3000, 8);
  put(sent);
  fill();
  std::vector<std::byte> got(3000);
  ASSERT_EQ(b_.receive(memory_of(got.data(), got.size()), 2, number(2)), 0);
  ASSERT_EQ(test::post({&a_, &b_}, [&] { return a_.send(to, on_device(3000), 2, number(3)); }), 0);
  nothing_ends();
  empty();
  EXPECT_EQ(test::wait(b_, {&a_, &b_}).error, 0);
  EXPECT_EQ(got, sent);
}

// The buffer is the application's again at once.
TEST_F(full_engine, has_room_for_an_injected_message) {
  const fi_addr_t to = a_.meet(b_);
  test::pass(a_, to, b_, 10, 1);
  const auto sent = counting(100, 9);
  put(sent);
  fill();
  std::vector<std::byte> got(100);
  ASSERT_EQ(b_.receive(memory_of(got.data(), got.size()), 2, number(2)), 0);
  ASSERT_EQ(a_.ep->send(
                on_device(100),
                {.to = to, .tag = 2, .wire_flags = wire::tagged, .inject = true, .completion = {}}),
            0);
  EXPECT_EQ(test::wait(b_, {&a_, &b_}).error, 0);
  EXPECT_EQ(got, sent);
}

// What waits for room must not touch memory whose region is closed.
TEST_F(full_engine, keeps_a_region_until_its_copies_have_ended) {
  const fi_addr_t to = a_.meet(b_);
  test::pass(a_, to, b_, 10, 1);
  const auto sent = counting(3000, 10);
  fill();
  ASSERT_EQ(b_.receive(on_device(3000), 2, number(2)), 0);
  auto bytes = sent;
  ASSERT_EQ(test::post({&a_, &b_},
                       [&] { return a_.send(to, memory_of(bytes.data(), 3000), 2, number(3)); }),
            0);
  nothing_ends();
  b_.ep->quiesce_region(region_);
  const auto after = counting(3000, 11);
  put(after);
  empty();
  for (int i = 0; i < 1000; ++i) b_.ep->progress();
  EXPECT_EQ(get(3000), after);
}

}  // namespace
}  // namespace gaudi::proto
