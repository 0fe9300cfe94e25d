// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What a pool saves its users, with a NIC that takes dma-bufs in name only.
#include "fi/common/memory_pool.hpp"

#include <rdma/fi_errno.h>

#include <atomic>
#include <initializer_list>

#include "../device/fake_driver.hpp"
#include "../reg/fake_nic.hpp"
#include "fi/common/device_region.hpp"

namespace gaudi::fi {
namespace {

constexpr std::uint64_t length = 1 << 20;

class a_pool : public testing::Test {
 protected:
  a_pool() {
    gaudi::test::fake_nic::knows_dmabufs = true;
    on_ = *device::device::open(driver_.thunk(), device::device_spec{});
  }
  ~a_pool() override {
    on_.reset();
    gaudi::test::fake_nic::knows_dmabufs = false;
  }
  std::unique_ptr<memory_pool> create(std::uint64_t access) {
    auto made = memory_pool::create(context_, dmabufs_, on_, length, access);
    EXPECT_TRUE(made);
    return made ? *std::move(made) : nullptr;
  }
  // As fi_mr_regattr does.
  std::unique_ptr<reg::region> cover(std::uint64_t addr, std::uint64_t access) {
    auto r = std::make_unique<reg::region>();
    r->address = addr;
    r->length = 100;
    r->access = access;
    EXPECT_EQ(attach_device(context_, dmabufs_, *r, *on_), 0);
    return r;
  }

  const base::params params_;
  device::device_registry devices_;
  const provider_context context_{params_, devices_};
  gaudi::test::fake_driver driver_;
  gaudi::test::fake_nic nic_;
  std::shared_ptr<device::device> on_;
  reg::dmabuf_registrar dmabufs_{nic_.core(), base::dmabuf_choice::automatic, {}};  // keeps nothing
};

TEST_F(a_pool, spares_regions_the_export_and_the_registration) {
  for (const std::uint64_t access : std::initializer_list<std::uint64_t>{
           FI_SEND, FI_SEND | FI_RECV | FI_REMOTE_READ, FI_REMOTE_READ | FI_REMOTE_WRITE}) {
    const auto pool = create(access);
    const unsigned asked = nic_.asked();
    const auto exports = on_->counted().exports.value();
    EXPECT_GT(asked, 0U);
    for (int i = 0; i < 3; ++i) {
      const auto piece = *pool->take(5000);
      const auto r = cover(piece + 7, access);
      EXPECT_TRUE(r->transfers);
      EXPECT_EQ(pool->give_back(piece), 0);
    }
    EXPECT_EQ(nic_.asked(), asked);
    EXPECT_EQ(on_->counted().exports.value(), exports);
    EXPECT_EQ(pool->release(dmabufs_), 0);
    EXPECT_EQ(nic_.live(), 0U);
  }
}

TEST_F(a_pool, stays_whole_while_a_region_covers_it) {
  const auto pool = create(FI_RECV);
  const auto piece = *pool->take(4096);
  auto r = cover(piece, FI_RECV);
  EXPECT_EQ(pool->give_back(piece), 0);
  EXPECT_EQ(pool->release(dmabufs_), -FI_EBUSY);
  r.reset();
  const unsigned asked = nic_.asked();
  EXPECT_TRUE(cover(*pool->take(4096), FI_RECV)->transfers);
  EXPECT_EQ(nic_.asked(), asked) << "it is registered as before";
  EXPECT_EQ(pool->give_back(piece), 0);
  EXPECT_EQ(pool->release(dmabufs_), 0);
  EXPECT_EQ(nic_.live(), 0U);
}

TEST_F(a_pool, is_staged_where_the_nic_refuses_it) {
  nic_.refuse = [] { return -FI_EOPNOTSUPP; };
  const auto pool = create(FI_SEND);
  const auto piece = *pool->take(4096);
  EXPECT_FALSE(cover(piece, FI_SEND)->transfers);
  EXPECT_EQ(pool->give_back(piece), 0);
  EXPECT_EQ(pool->release(dmabufs_), 0);
}

TEST_F(a_pool, that_cannot_be_registered_leaves_nothing_behind) {
  reg::dmabuf_registrar strict(nic_.core(), base::dmabuf_choice::on, {});
  nic_.refuse = [] { return -FI_EACCES; };
  EXPECT_EQ(memory_pool::create(context_, strict, on_, length, FI_SEND).code(), -FI_EACCES);
  EXPECT_FALSE(on_->find(gaudi::test::fake_driver::first_va, 1));
}

}  // namespace
}  // namespace gaudi::fi
