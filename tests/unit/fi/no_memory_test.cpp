// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// An allocation that fails is an error code, and leaves objects as they were.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#include <array>

#include "../base/scarce_memory.hpp"
#include "core/fid.hpp"
#include "fi/av.hpp"
#include "fi/eq.hpp"

namespace gaudi::fi {
namespace {

// Where a list of events grows differs from one length to the next.
TEST(no_memory, keeps_no_event_queue_from_telling_of_its_overrun) {
  for (std::size_t size = 1; size <= 32; ++size) {
    child_count parent;
    fi_eq_attr attr{};
    attr.size = size;
    attr.flags = FI_WRITE;
    attr.wait_obj = FI_WAIT_NONE;
    fid_eq* opened = nullptr;
    ASSERT_EQ(event_queue::open(parent, &attr, &opened, nullptr), 0);
    const core::unique_fid<fid_eq> eq(opened);
    fi_eq_entry entry{};
    for (std::size_t i = 0; i < size; ++i)
      ASSERT_EQ(fi_eq_write(eq.get(), FI_NOTIFY, &entry, sizeof entry, 0), ssize_t{sizeof entry});
    const fi_eq_err_entry one_too_many{.fid = nullptr,
                                       .context = nullptr,
                                       .data = 0,
                                       .err = FI_EADDRNOTAVAIL,
                                       .prov_errno = 0,
                                       .err_data = nullptr,
                                       .err_data_size = 0};
    event_queue::reserved_events one(1);
    int posted = 0;
    {
      const gaudi::test::scarce_memory none(0);
      posted = event_queue::of(eq.get()).post_error(one_too_many, one);
    }
    EXPECT_EQ(posted, -FI_EOVERRUN);
    std::uint32_t event = 0;
    for (std::size_t i = 0; i < size; ++i)
      EXPECT_GT(fi_eq_read(eq.get(), &event, &entry, sizeof entry, 0), 0);
    EXPECT_EQ(fi_eq_read(eq.get(), &event, &entry, sizeof entry, 0), -FI_EAVAIL) << size;
    fi_eq_err_entry told{};
    EXPECT_GT(fi_eq_readerr(eq.get(), &told, 0), 0);
    EXPECT_EQ(told.err, FI_EOVERRUN);
  }
}

// Whoever inserts asynchronously learns by events alone what became of it: all of them come, or
// nothing is inserted.
TEST(no_memory, keeps_no_event_of_an_insertion_back) {
  bool was_enough = false;
  for (long allocations = 0; !was_enough; ++allocations) {
    ASSERT_LT(allocations, 100);
    child_count fabric;
    child_count domain;
    base::domain_lock lock;
    fi_eq_attr queue{};
    queue.wait_obj = FI_WAIT_NONE;
    fid_eq* opened_queue = nullptr;
    ASSERT_EQ(event_queue::open(fabric, &queue, &opened_queue, nullptr), 0);
    const core::unique_fid<fid_eq> eq(opened_queue);
    fi_av_attr attr{};
    attr.flags = FI_EVENT;
    fid_av* opened = nullptr;
    ASSERT_EQ(av_open({domain, lock, FI_SOCKADDR_IN}, &attr, &opened, nullptr), 0);
    const core::unique_fid<fid_av> vector(opened);
    ASSERT_EQ(vector->fid.ops->bind(&vector->fid, &eq->fid, 0), 0);

    const std::array<sockaddr_in, 3> unusable{};
    int ret = 0;
    {
      const gaudi::test::scarce_memory some(allocations);
      ret = fi_av_insert(vector.get(), unusable.data(), unusable.size(), nullptr, 0, nullptr);
    }
    was_enough = ret == 0;
    std::uint32_t event = 0;
    fi_eq_entry entry{};
    fi_eq_err_entry error{};
    for (std::size_t i = 0; was_enough && i < unusable.size(); ++i) {
      EXPECT_EQ(fi_eq_read(eq.get(), &event, &entry, sizeof entry, 0), -FI_EAVAIL);
      EXPECT_GT(fi_eq_readerr(eq.get(), &error, 0), 0);
      EXPECT_EQ(error.data, i);
    }
    if (was_enough)
      EXPECT_GT(fi_eq_read(eq.get(), &event, &entry, sizeof entry, 0), 0);
    else
      EXPECT_EQ(ret, -FI_ENOMEM);
    EXPECT_EQ(fi_eq_read(eq.get(), &event, &entry, sizeof entry, 0), -FI_EAGAIN) << allocations;
  }
}

}  // namespace
}  // namespace gaudi::fi
