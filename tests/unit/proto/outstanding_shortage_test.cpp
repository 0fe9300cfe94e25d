// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What others see of an endpoint where the process's page has no record left.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "base/outstanding_page.hpp"
#include "peer_by_hand.hpp"

namespace gaudi::proto::test {
namespace {

namespace outstanding = base::outstanding;

std::vector<outstanding::record> all_records() {
  std::vector<outstanding::record> all(outstanding::record_count);
  const std::size_t size = all.size() * sizeof all[0];
  EXPECT_EQ(::pread(outstanding::page::instance().fd(), all.data(), size, outstanding::header_size),
            static_cast<ssize_t>(size));
  return all;
}

TEST(a_full_page_of_outstanding_operations, has_connections_counted_though_none_is_shown) {
  endpoint_by_itself v;
  simulated_endpoint other(v.net, v.there, small_settings());
  std::vector<outstanding::record_owner> taken;
  do {
    taken.emplace_back(outstanding::record_kind::connection);
  } while (taken.back());
  std::byte one{};
  ASSERT_EQ(v.send(v.meet(other), memory_of(&one, 1), 1, nullptr), 0);
  for (int i = 0; i < 3; ++i) v.progress();  // nothing of the network's moves meanwhile
  unsigned waiting = 0;
  for (const outstanding::record& r : all_records()) {
    EXPECT_FALSE(r.kind == outstanding::record_kind::connection && r.since != 0);
    const bool is_ours =
        r.kind == outstanding::record_kind::endpoint && r.since != 0 &&
        std::memcmp(r.address.data(), v.ep->name().raw(), sizeof(sockaddr_in)) == 0;
    if (is_ours) waiting += r.counts[outstanding::waiting_connections];
  }
  EXPECT_EQ(waiting, 1U);
}

}  // namespace
}  // namespace gaudi::proto::test
