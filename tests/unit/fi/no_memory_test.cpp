// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// An allocation that fails is an error code, and leaves objects as they were.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#include <array>

#include "../base/scarce_memory.hpp"
#include "core/fid.hpp"
#include "fi/common/eq.hpp"
#include "fi/rdm/av_ops.hpp"
#include "proto/peer/address_vector.hpp"

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

// An address is there, or the vector is as it was: also where its place is one that was free.
TEST(no_memory, leaves_no_half_of_an_address) {
  const auto address = [](std::uint16_t port) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_addr.s_addr = htonl(0x0A000001);
    in.sin_port = htons(port);
    return proto::net_address(&in, sizeof in);
  };
  for (const bool in_the_middle : {false, true}) {
    bool was_enough = false;
    for (long allocations = 0; !was_enough; ++allocations) {
      ASSERT_LT(allocations, 20);
      proto::address_vector av;
      for (const std::uint16_t port : {1, 2, 3}) ASSERT_TRUE(av.add(address(port)));
      if (in_the_middle) {
        ASSERT_TRUE(av.remove(1));
      }
      const std::size_t before = av.size();
      int code = 0;
      {
        const gaudi::test::scarce_memory few(allocations);
        code = av.add(address(4)).code();
      }
      was_enough = code == 0;
      EXPECT_EQ(code, was_enough ? 0 : -FI_ENOMEM);
      EXPECT_EQ(av.size(), before + (was_enough ? 1 : 0));
      EXPECT_EQ(av.index_of(address(4)), was_enough ? (in_the_middle ? 1U : 3U) : FI_ADDR_NOTAVAIL);
      EXPECT_EQ(av.index_of(address(3)), 2U);
      const fi_addr_t next = in_the_middle ? (was_enough ? 3 : 1) : (was_enough ? 4 : 3);
      EXPECT_EQ(*av.add(address(5)), next);
    }
  }
}

}  // namespace
}  // namespace gaudi::fi
