// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <array>
#include <cerrno>
#include <string_view>
#include <vector>

#include "opened.hpp"

namespace gaudi::fi::test {
namespace {

/// An endpoint on whose queue threads may sleep; not enabled.
struct waitable_end {
  explicit waitable_end(const opened& o) : av(o.open_av()), ep(o.open_ep()) {
    fi_cq_attr attr{};
    attr.format = FI_CQ_FORMAT_TAGGED;
    attr.wait_obj = FI_WAIT_UNSPEC;
    fid_cq* opened_queue = nullptr;
    EXPECT_EQ(fi_cq_open(o.domain.get(), &attr, &opened_queue, nullptr), 0);
    cq.reset(opened_queue);
    EXPECT_EQ(fi_ep_bind(ep.get(), &cq->fid, FI_TRANSMIT | FI_RECV), 0);
    EXPECT_EQ(fi_ep_bind(ep.get(), &av->fid, 0), 0);
  }
  fi_addr_t meet(const waitable_end& other) const {
    std::array<std::byte, 64> name{};
    std::size_t length = name.size();
    EXPECT_EQ(fi_getname(&other.ep->fid, name.data(), &length), 0);
    fi_addr_t address = FI_ADDR_NOTAVAIL;
    EXPECT_EQ(fi_av_insert(av.get(), name.data(), 1, &address, 0, nullptr), 1);
    return address;
  }

  unique_fid<fid_cq> cq;
  unique_fid<fid_av> av;
  unique_fid<fid_ep> ep;
};

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
  std::vector<waitable_end> ends;
  ends.reserve(8);
  for (int i = 0; i < 8; ++i) {
    ends.emplace_back(o);
    EXPECT_EQ(fi_enable(ends.back().ep.get()), 0);
  }
  const waitable_end& from = ends.front();
  const waitable_end& to = ends.back();
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
  const waitable_end end(o);
  if (fi_enable(end.ep.get()) == 0) GTEST_SKIP() << "this kernel takes more";
  EXPECT_EQ(fi_enable(end.ep.get()), -EINVAL);
  counters.clear();
  EXPECT_EQ(fi_enable(end.ep.get()), 0);
}

}  // namespace
}  // namespace gaudi::fi::test
