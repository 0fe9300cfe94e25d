// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Connected endpoints (FI_EP_MSG): contents of messages and one-sided operations of all sizes. In
// device memory only where the core takes dma-bufs (verbs, in the virtual machine): nothing is
// staged for them.
#include <gtest/gtest.h>

#include <vector>

#include "connected_pair.hpp"

namespace gaudi::test {
namespace {

constexpr std::size_t sizes[] = {1, 8, 63, 64, 512, 4096, 65537, 1 << 20};
constexpr std::size_t room = (1 << 20) + 8192;

class connected : public testing::TestWithParam<bool> {
 protected:
  static bool device() { return GetParam(); }
};

TEST_P(connected, carries_messages) {
  run({.ranks = 1}, [device = device()](rank&) {
    connected_pair pair(device);
    pair_memory from(pair, room);
    pair_memory to(pair, room);
    for (const std::size_t size : sizes) {
      from.put(3, bytes_of(size, size));
      pair.post([&] {
        return fi_recv(pair.receiver.ep.get(), to.at(4097), size, to.desc(), 0, nullptr);
      });
      pair.post(
          [&] { return fi_send(pair.sender.ep.get(), from.at(3), size, from.desc(), 0, nullptr); });
      EXPECT_EQ(size, pair.wait(pair.receiver).len);
      pair.wait(pair.sender);
      expect_same(bytes_of(size, size), to.get(4097, size), "message");
    }
  });
}

TEST_P(connected, writes_and_reads) {
  run({.ranks = 1}, [device = device()](rank&) {
    connected_pair pair(device);
    pair_memory own(pair, room);
    pair_memory other(pair, room);
    for (const std::size_t size : sizes) {
      own.put(5, bytes_of(size + 1, size));
      pair.post([&] {
        return fi_write(pair.sender.ep.get(), own.at(5), size, own.desc(), 0, other.remote(4099),
                        other.key(), nullptr);
      });
      pair.wait(pair.sender);
      pair.post([&] {
        return fi_read(pair.sender.ep.get(), own.at(8), size, own.desc(), 0, other.remote(4099),
                       other.key(), nullptr);
      });
      pair.wait(pair.sender);
      expect_same(bytes_of(size + 1, size), own.get(8, size), "read");
      // The write itself may end before the peer has it; a read behind it has seen it.
      expect_same(bytes_of(size + 1, size), other.get(4099, size), "written");
    }
  });
}

TEST_P(connected, refuses_a_key_that_is_none) {
  run({.ranks = 1}, [device = device()](rank&) {
    connected_pair pair(device);
    pair_memory own(pair, room);
    pair.post([&] {
      return fi_read(pair.sender.ep.get(), own.at(0), 1024, own.desc(), 0, own.remote(0),
                     own.key() + 12345, nullptr);
    });
    EXPECT_NE(0, pair.wait_for_error(pair.sender));
  });
}

std::vector<bool> memories() {
  if (on_verbs()) return {false, true};
  return {false};
}

INSTANTIATE_TEST_SUITE_P(memory, connected, testing::ValuesIn(memories()),
                         [](const auto& memory) { return memory.param ? "device" : "host"; });

}  // namespace
}  // namespace gaudi::test
