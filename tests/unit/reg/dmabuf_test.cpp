// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// What becomes of dma-bufs without a NIC that takes them; tests/vm has one that does.
#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include <cerrno>
#include <cstring>

#include "../device/fake_driver.hpp"
#include "core/get_info.hpp"
#include "reg/dmabuf_registrar.hpp"
#include "reg/registration_failure.hpp"

namespace gaudi::reg {
namespace {

using base::dmabuf_choice;

TEST(registration_failure, names_a_cause_and_a_remedy_for_each_error) {
  for (const int code : {FI_ENOSYS, FI_EOPNOTSUPP, EPERM, EREMOTEIO, EINVAL, EMFILE, ENOMEM, EIO}) {
    const registration_failure why = diagnose(-code);
    EXPECT_GT(std::strlen(why.reason), 10U) << code;
    EXPECT_GT(std::strlen(why.remedy), 10U) << code;
  }
  EXPECT_NE(nullptr, std::strstr(diagnose(-FI_ENOSYS).remedy, "ib_umem_dmabuf_get"));
  EXPECT_NE(nullptr, std::strstr(diagnose_no_export(-FI_EOPNOTSUPP).remedy, "6.1"));
}

TEST(registration_failure, gives_up_only_where_asking_again_cannot_help) {
  for (const int code : {FI_ENOSYS, FI_EOPNOTSUPP, EPERM, EREMOTEIO})
    EXPECT_TRUE(diagnose(-code).final) << code;
  for (const int code : {EINVAL, EMFILE, ENFILE, ENOMEM, EIO})
    EXPECT_FALSE(diagnose(-code).final) << code;
  EXPECT_TRUE(diagnose_no_export(-FI_EOPNOTSUPP).final);
  EXPECT_TRUE(diagnose_old_libfabric().final);
  for (const bool there_is_one : {false, true}) {
    EXPECT_TRUE(diagnose_no_nic(there_is_one).final);
    EXPECT_EQ(diagnose_no_nic(there_is_one).cause, failure_cause::other);
  }
  EXPECT_NE(nullptr, std::strstr(diagnose_no_nic(true).remedy, "FI_GAUDI_DMABUF"));
  EXPECT_NE(nullptr, std::strstr(diagnose_no_nic(false).remedy, "verbs"));
  EXPECT_EQ(diagnose_no_export(-EMFILE).cause, failure_cause::descriptors);
  EXPECT_FALSE(diagnose_no_export(-EIO).final);
  EXPECT_FALSE(diagnose_imported(-FI_EINVAL).final) << "one range says nothing of others";
  EXPECT_TRUE(diagnose_imported(-FI_EOPNOTSUPP).final);
}

class registrar_over_tcp : public testing::Test {
 protected:
  registrar_over_tcp() {
    auto info = core::get_info({.core = base::core_choice::tcp});
    if (info) core_ = *core::inner_domain::open(std::move(*info));
    device_ = *device::device::open(driver_.thunk(), device::device_spec{});
    address_ = *device_->allocate(8192);
  }

  device::location where() { return *device_->find(address_, 1); }

  test::fake_driver driver_;
  std::unique_ptr<core::inner_domain> core_;
  std::shared_ptr<device::device> device_;
  std::uint64_t address_ = 0;
};

TEST_F(registrar_over_tcp, stages_without_exporting_anything) {
  EXPECT_CALL(driver_.library,
              export_dmabuf(testing::_, testing::_, testing::_, testing::_, testing::_))
      .Times(0);
  for (const auto choice : {dmabuf_choice::automatic, dmabuf_choice::off}) {
    dmabuf_registrar registrar(*core_, choice, {});
    const auto got = registrar.obtain(*device_, where(), 1, FI_REMOTE_READ);
    ASSERT_TRUE(got);
    EXPECT_FALSE(*got);
  }
}

TEST_F(registrar_over_tcp, fails_where_staging_is_forbidden) {
  dmabuf_registrar registrar(*core_, dmabuf_choice::on, {});
  EXPECT_EQ(registrar.obtain(*device_, where(), 1, 0).code(), -FI_EOPNOTSUPP);
}

TEST_F(registrar_over_tcp, refuses_nothing_where_no_nic_was_asked) {
  dmabuf_registrar registrar(*core_, dmabuf_choice::automatic, {});
  ASSERT_TRUE(registrar.obtain(*device_, where(), 1, 0));
  EXPECT_EQ(registrar.refusals(), 0U);
  EXPECT_EQ(registrar.cached().misses, 0U);
}

}  // namespace
}  // namespace gaudi::reg
