// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <array>
#include <cerrno>
#include <string_view>
#include <vector>

#include "opened.hpp"

namespace gaudi::fi::test {
namespace {

constexpr std::uint64_t both_ways = FI_TRANSMIT | FI_RECV;

std::vector<unique_fid<fid_cntr>> open_counters(const opened& o, fi_wait_obj kind, int count) {
  std::vector<unique_fid<fid_cntr>> all;
  for (int i = 0; i < count; ++i) {
    fi_cntr_attr attr{};
    attr.wait_obj = kind;
    fid_cntr* counter = nullptr;
    EXPECT_EQ(fi_cntr_open(o.domain.get(), &attr, &counter, nullptr), 0);
    all.emplace_back(counter);
  }
  return all;
}

// As of an OpenSHMEM with a context for each thread. The kernel takes no more sockets into sets of
// sets of sets where there are too many of them above.
TEST(wait_objects, may_be_as_many_as_there_are_threads) {
  const opened o;
  const auto counters = open_counters(o, FI_WAIT_UNSPEC, 128);
  std::vector<endpoint_set> ends;
  for (int i = 0; i < 8; ++i) ends.emplace_back(o, both_ways, FI_WAIT_UNSPEC);
  const endpoint_set& from = ends.front();
  const endpoint_set& to = ends.back();
  const fi_addr_t address = from.meet(to);
  constexpr std::string_view text = "hello";
  std::array<char, 8> place{};
  ASSERT_EQ(
      fi_trecv(to.ep.get(), place.data(), place.size(), nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr), 0);
  ASSERT_EQ(retry(from.cq.get(),
                  [&] { return fi_tinject(from.ep.get(), text.data(), text.size(), address, 1); }),
            0);
  fi_cq_tagged_entry entry{};
  constexpr int for_ever = -1;
  ASSERT_EQ(fi_cq_sread(to.cq.get(), &entry, 1, nullptr, for_ever), 1);
  EXPECT_EQ(std::string_view(place.data(), entry.len), text);
}

// Each has a descriptor for the application, a set that holds the domain's.
TEST(wait_objects, say_when_there_are_too_many_with_descriptors) {
  const opened o;
  auto counters = open_counters(o, FI_WAIT_FD, 200);
  const endpoint_set end(o, both_ways, FI_WAIT_UNSPEC, -EINVAL);
  EXPECT_EQ(fi_enable(end.ep.get()), -EINVAL);
  counters.clear();
  EXPECT_EQ(fi_enable(end.ep.get()), 0);
}

}  // namespace
}  // namespace gaudi::fi::test
