// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/rdm/poll_set.hpp"

#include <array>
#include <string>

#include "opened.hpp"

// The headers of libfabric 2.x call poll sets deprecated; applications of 1.x use them.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace gaudi::fi {
namespace {

struct poll_sets : testing::Test {
  test::opened o;
  test::endpoint_set a{o};
  test::endpoint_set b{o};
  core::unique_fid<fid_poll> set = open_set();

  core::unique_fid<fid_poll> open_set() const {
    fi_poll_attr attr{};
    fid_poll* opened = nullptr;
    EXPECT_EQ(fi_poll_open(o.domain.get(), &attr, &opened), 0);
    return core::unique_fid<fid_poll>(opened);
  }
  core::unique_fid<fid_cntr> open_counter(void* context) const {
    fi_cntr_attr attr{};
    fid_cntr* opened = nullptr;
    EXPECT_EQ(fi_cntr_open(o.domain.get(), &attr, &opened, context), 0);
    return core::unique_fid<fid_cntr>(opened);
  }
  int poll(void** contexts, int count) const { return fi_poll(set.get(), contexts, count); }
};

TEST_F(poll_sets, tell_of_queues_that_have_entries) {
  a.cq->fid.context = &a;
  b.cq->fid.context = &b;
  ASSERT_EQ(fi_poll_add(set.get(), &a.cq->fid, 0), 0);
  ASSERT_EQ(fi_poll_add(set.get(), &b.cq->fid, 0), 0);
  std::array<void*, 4> told{};
  EXPECT_EQ(poll(told.data(), 4), 0);
  const fi_addr_t to = a.meet(b);
  char in = 0;
  char out = 'x';
  ASSERT_EQ(fi_trecv(b.ep.get(), &in, 1, nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr), 0);
  ASSERT_EQ(test::retry(a.cq.get(),
                        [&] { return fi_tsend(a.ep.get(), &out, 1, nullptr, to, 1, nullptr); }),
            0);
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (poll(told.data(), 4) < 2 && std::chrono::steady_clock::now() < give_up) {
  }
  EXPECT_EQ(in, 'x');
  EXPECT_EQ(told[0], &a);
  EXPECT_EQ(told[1], &b);
  EXPECT_EQ(poll(told.data(), 1), 1) << "no more than there is room for";
  fi_cq_tagged_entry entry{};
  EXPECT_EQ(fi_cq_read(a.cq.get(), &entry, 1), 1);
  EXPECT_EQ(poll(told.data(), 4), 1);
  EXPECT_EQ(told[0], &b);
}

TEST_F(poll_sets, tell_once_of_a_counter_that_changed) {
  int context = 0;
  const auto counter = open_counter(&context);
  ASSERT_EQ(fi_cntr_add(counter.get(), 1), 0);
  ASSERT_EQ(fi_poll_add(set.get(), &counter->fid, 0), 0);
  void* told = nullptr;
  EXPECT_EQ(poll(&told, 1), 0) << "nothing since it was added";
  ASSERT_EQ(fi_cntr_add(counter.get(), 1), 0);
  EXPECT_EQ(poll(&told, 1), 1);
  EXPECT_EQ(told, &context);
  EXPECT_EQ(poll(&told, 1), 0);
  ASSERT_EQ(fi_cntr_adderr(counter.get(), 1), 0);
  EXPECT_EQ(poll(&told, 1), 1);
  set.reset();  // it holds the counter open
}

TEST_F(poll_sets, keep_their_members_open) {
  auto queue = o.open_cq(FI_CQ_FORMAT_CONTEXT);
  auto counter = open_counter(nullptr);
  ASSERT_EQ(fi_poll_add(set.get(), &queue->fid, 0), 0);
  ASSERT_EQ(fi_poll_add(set.get(), &counter->fid, 0), 0);
  EXPECT_EQ(fi_close(&queue->fid), -FI_EBUSY);
  EXPECT_EQ(fi_close(&counter->fid), -FI_EBUSY);
  EXPECT_EQ(fi_poll_del(set.get(), &queue->fid, 0), 0);
  EXPECT_EQ(fi_close(&queue.release()->fid), 0);
  set.reset();
  EXPECT_EQ(fi_close(&counter.release()->fid), 0);
}

TEST_F(poll_sets, refuse_what_they_cannot_poll) {
  const test::opened other;
  const auto foreign = other.open_cq(FI_CQ_FORMAT_CONTEXT);
  EXPECT_EQ(fi_poll_add(set.get(), &foreign->fid, 0), -FI_EINVAL);
  EXPECT_EQ(fi_poll_add(set.get(), &a.ep->fid, 0), -FI_EINVAL);
  EXPECT_EQ(fi_poll_del(set.get(), &a.cq->fid, 0), -FI_EINVAL);
  EXPECT_EQ(fi_poll_add(set.get(), &a.cq->fid, 1), -FI_EBADFLAGS);
  ASSERT_EQ(fi_poll_add(set.get(), &a.cq->fid, 0), 0);
  EXPECT_EQ(fi_poll_add(set.get(), &a.cq->fid, 0), -FI_EINVAL) << "a member already";
  EXPECT_EQ(poll(nullptr, 1), -FI_EINVAL);
}

}  // namespace
}  // namespace gaudi::fi
