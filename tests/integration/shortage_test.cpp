// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Long messages of device memory where the process may have no more memory to pass them through:
// both ends are told, and the log has one line about it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "captured_log.hpp"
#include "limits.hpp"
#include "node.hpp"

namespace gaudi::test {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

std::size_t lines_with(const std::string& word, const std::string& text) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(word, at)) != std::string::npos; ++at) ++count;
  return count;
}

// Connects.
void send_one_byte(rank& r, node& n, memory& own) {
  n.post([&] {
    return r.id() == 0 ? fi_tsend(n.ep(), own.at(0), 1, own.desc(), n.peer(1), 2, ctx(2))
                       : fi_trecv(n.ep(), own.at(0), 1, own.desc(), FI_ADDR_UNSPEC, 2, 0, ctx(2));
  });
  n.wait(ctx(2));
  r.barrier();
}

const world apart{.environment = {{"FI_GAUDI_IPC", "off"}, {"FI_LOG_LEVEL", "warn"}}};

// (the one who has no memory: 0 sends, 1 receives)
class shortage : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (!is_gaudi()) GTEST_SKIP() << "gaudi's own staging";
  }
};

TEST_P(shortage, of_staging_memory_ends_a_long_message_and_later_ones_arrive) {
  const int poor = GetParam();
  run(apart, [&](rank& r) {
    setenv("FI_GAUDI_DEVICE", std::to_string(r.id()).c_str(), 1);
    node n({.device = true});
    n.meet(r);
    constexpr std::size_t size = 64 * mib;
    memory own(n, size, true);
    own.put(0, bytes_of(1, size));
    const auto exchange = [&] {
      n.post([&] {
        return r.id() == 0
                   ? fi_tsend(n.ep(), own.at(0), size, own.desc(), n.peer(1), 1, ctx(1))
                   : fi_trecv(n.ep(), own.at(0), size, own.desc(), FI_ADDR_UNSPEC, 1, 0, ctx(1));
      });
      return n.wait(ctx(1)).err;
    };
    send_one_byte(r, n, own);
    {
      const captured_log log;
      std::optional<no_more_memory> limit;
      if (r.id() == poor) limit.emplace();
      EXPECT_EQ(FI_ENOMEM, exchange());
      EXPECT_EQ(r.id() == poor ? 1U : 0U, lines_with("no memory for", log.text())) << log.text();
    }
    r.barrier();
    EXPECT_EQ(0, exchange());
    expect_same(bytes_of(1, size), own.get(0, size), "message");
    r.barrier();
  });
}

// Host memory, for what leaves as it is and connects without a buffer.
TEST(shortage_at_the_start, of_buffers_is_an_error_of_the_call) {
  if (!is_gaudi()) GTEST_SKIP() << "gaudi's own buffers";
  run(apart, [](rank& r) {
    node n;
    n.meet(r);
    memory own(n, 4000, false);
    send_one_byte(r, n, own);
    if (r.id() == 0) {
      const captured_log log;
      const no_more_memory limit;
      long ret = -FI_EAGAIN;
      while (ret == -FI_EAGAIN) {
        ret = fi_tsend(n.ep(), own.at(0), 4000, own.desc(), n.peer(1), 1, ctx(1));
      }
      EXPECT_EQ(-FI_ENOMEM, ret);
      EXPECT_EQ(1U, lines_with("no memory for", log.text())) << log.text();
    }
    r.barrier();
  });
}

INSTANTIATE_TEST_SUITE_P(of, shortage, testing::Values(0, 1), [](const auto& test) {
  return test.param == 0 ? "the_sender" : "the_receiver";
});

}  // namespace
}  // namespace gaudi::test
