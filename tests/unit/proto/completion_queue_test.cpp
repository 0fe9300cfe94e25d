// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "proto/operation/completion_queue.hpp"

#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include "../base/scarce_memory.hpp"
#include "proto/operation/completion_spec.hpp"

namespace gaudi::proto {
namespace {

TEST(completion_queue, keeps_order_and_loses_nothing_beyond_its_size) {
  completion_queue queue(4);
  for (std::uint64_t i = 0; i < 1000; ++i) {
    queue.push({.data = 2 * i});
    queue.push({.data = 2 * i + 1});
    ASSERT_EQ(queue.front().data, i);
    queue.pop();
  }
  for (std::uint64_t i = 1000; i < 2000; ++i) {
    ASSERT_FALSE(queue.empty());
    ASSERT_EQ(queue.front().data, i);
    queue.pop();
  }
  EXPECT_TRUE(queue.empty());
}

// The message is there in any case; who sent it is told where there is memory for that.
TEST(completion_queue, tells_of_a_message_without_its_sender_where_memory_is_short) {
  constexpr std::size_t count = 100;
  const net_address sender{};
  completion_queue queue(count);
  std::size_t told = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const gaudi::test::scarce_memory none(0);
    queue.push({.unknown_source = &sender});
  }
  for (; !queue.empty(); queue.pop()) {
    const cq_entry& one = queue.front();
    ASSERT_EQ(one.error == FI_EADDRNOTAVAIL, one.unknown_source != nullptr);
    if (one.error == 0) continue;
    ++told;
    static_cast<void>(queue.take_unknown_source());
  }
  EXPECT_LT(told, count);
}

TEST(request, reports_success_only_where_asked_and_errors_always) {
  completion_queue queue(4);
  int context = 0;
  completion_spec silent{.queue = &queue, .context = &context, .flags = FI_SEND};
  silent.end({});
  EXPECT_TRUE(queue.empty());
  silent.end({.error = FI_EIO});
  ASSERT_FALSE(queue.empty());
  EXPECT_EQ(queue.front().error, FI_EIO);
  EXPECT_EQ(queue.front().context, &context);
  queue.pop();

  const completion_spec loud{
      .queue = &queue, .context = &context, .flags = FI_RECV, .report = true};
  loud.end({.flags = FI_REMOTE_CQ_DATA, .length = 3});
  ASSERT_FALSE(queue.empty());
  EXPECT_EQ(queue.front().flags, FI_RECV | FI_REMOTE_CQ_DATA);
  EXPECT_EQ(queue.front().length, 3U);
}

TEST(request, of_a_direction_without_a_queue_tells_nobody) {
  completion_spec nowhere;
  nowhere.report = true;
  nowhere.end({.error = FI_EIO});
}

}  // namespace
}  // namespace gaudi::proto
