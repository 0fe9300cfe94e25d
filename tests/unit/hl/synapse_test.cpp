// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "hl/synapse.hpp"

#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include "mock_synapse.hpp"

namespace gaudi::hl {
namespace {

using testing::_;
using testing::DoAll;
using testing::Return;
using testing::SetArgPointee;
using testing::StrEq;

class synapse_test : public testing::Test {
 protected:
  test::mock_synapse library;
  const synapse syn{test::mock_synapse::table()};
  void* const some = this;
};

TEST_F(synapse_test, finds_nothing_where_the_process_has_not_loaded_it) {
  EXPECT_EQ(synapse::find().code(), -FI_ENOSYS);
  EXPECT_EQ(synapse::find().code(), -FI_ENOSYS);
}

TEST_F(synapse_test, has_no_device_until_one_is_acquired) {
  EXPECT_CALL(library, device_get_info(_, _))
      .WillOnce(Return(28))
      .WillOnce(Return(26))
      .WillOnce(Return(0))  // without a descriptor
      .WillOnce([](std::uint32_t, syn_device_info* info) {
        info->fd = 7;
        return 0;
      });
  for (int i = 0; i < 3; ++i) EXPECT_EQ(syn.device_fd().code(), -FI_ENODEV) << i;
  EXPECT_EQ(*syn.device_fd(), 7);
}

TEST_F(synapse_test, asks_scal_for_the_pool) {
  int scal = 0;
  int pool = 0;
  EXPECT_CALL(library, scal_get_handle_from_fd(7, _))
      .WillRepeatedly(DoAll(SetArgPointee<1>(&scal), Return(0)));
  EXPECT_CALL(library, scal_get_pool_handle_by_name(&scal, StrEq("global_hbm"), _))
      .WillRepeatedly(DoAll(SetArgPointee<2>(&pool), Return(0)));
  EXPECT_CALL(library, scal_pool_get_info(&pool, _))
      .WillOnce([](void*, scal_pool_info* info) {
        *info = {.device_base = 0x3000, .total = 0x10000, .free = 0x800, .allocated_base = 0x1000};
        return 0;
      })
      .WillOnce(Return(-1));
  const auto found = syn.global_pool(7);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->base, 0x3000U);
  EXPECT_EQ(found->len, 0x10000U);
  EXPECT_EQ(found->map_base, 0x1000U);
  EXPECT_EQ(found->free, 0x800U);
  EXPECT_EQ(syn.global_pool(7).code(), -FI_ENODEV);
}

TEST_F(synapse_test, a_descriptor_that_scal_does_not_know_has_no_pool) {
  EXPECT_CALL(library, scal_get_handle_from_fd(8, _)).WillOnce(Return(-1));
  EXPECT_EQ(syn.global_pool(8).code(), -FI_ENODEV);
}

TEST_F(synapse_test, passes_copies_on_in_synapses_order) {
  EXPECT_CALL(library, copy_async(some, 0x2000, 10, 0x1000, syn_direction::device_to_host))
      .WillOnce(Return(0));
  EXPECT_TRUE(syn.copy(some, 0x1000, 0x2000, 10, syn_direction::device_to_host));
}

TEST_F(synapse_test, tells_busy_from_done_and_from_failed) {
  EXPECT_CALL(library, event_query(some))
      .WillOnce(Return(22))
      .WillOnce(Return(0))
      .WillOnce(Return(17));
  EXPECT_EQ(*syn.query(some), cs_status::busy);
  EXPECT_EQ(*syn.query(some), cs_status::completed);
  EXPECT_EQ(syn.query(some).code(), -FI_EIO);
}

TEST_F(synapse_test, gives_libfabrics_codes) {
  const std::pair<int, int> known[] = {{1, -FI_EINVAL},  {3, -FI_ENOMEM},     {4, -FI_ENOMEM},
                                       {8, -FI_ENODEV},  {17, -FI_EIO},       {18, -FI_EOPNOTSUPP},
                                       {23, -FI_ENOMEM}, {26, -FI_EOTHER},    {28, -FI_ENODEV},
                                       {34, -FI_EFAULT}, {42, -FI_ETIMEDOUT}, {99, -FI_EOTHER}};
  for (const auto& [status, code] : known) {
    EXPECT_CALL(library, host_map(_, 4096, some)).WillOnce(Return(status));
    EXPECT_EQ(syn.map_host(some, 4096).code(), code) << status;
  }
  EXPECT_CALL(library, stream_create(_, _, _)).WillOnce(Return(23));
  EXPECT_EQ(syn.make_stream().code(), -FI_ENOMEM);
}

}  // namespace
}  // namespace gaudi::hl
