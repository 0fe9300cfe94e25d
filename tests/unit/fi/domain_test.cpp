// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/rdm/domain.hpp"

#include "opened.hpp"

namespace gaudi::fi {
namespace {

TEST(domains, stay_open_while_something_is_open_below) {
  test::opened o;
  EXPECT_EQ(fi_close(&o.fabric->fid), -FI_EBUSY);
  auto cq = o.open_cq(FI_CQ_FORMAT_CONTEXT);
  EXPECT_EQ(fi_close(&o.domain->fid), -FI_EBUSY);
  cq.reset();
  auto av = o.open_av();
  EXPECT_EQ(fi_close(&o.domain->fid), -FI_EBUSY);
  av.reset();
  auto ep = o.open_ep();
  EXPECT_EQ(fi_close(&o.domain->fid), -FI_EBUSY);
  ep.reset();
  EXPECT_EQ(fi_close(&o.domain.release()->fid), 0);
  EXPECT_EQ(fi_close(&o.fabric.release()->fid), 0);
}

TEST(domains, know_one_set_of_extensions) {
  const test::opened o;
  void* ops = nullptr;
  EXPECT_EQ(fi_open_ops(&o.domain->fid, "some_other_ops", 0, &ops, nullptr), -FI_ENOSYS);
  EXPECT_EQ(fi_open_ops(&o.domain->fid, FI_GAUDI_DOMAIN_OPS, 1, &ops, nullptr), -FI_EBADFLAGS);
  EXPECT_EQ(ops, nullptr);
  EXPECT_EQ(fi_open_ops(&o.domain->fid, FI_GAUDI_DOMAIN_OPS, 0, &ops, nullptr), 0);
  EXPECT_NE(ops, nullptr);
}

TEST(domains, answer_what_they_do_not_offer) {
  const test::opened o;
  fid_cntr* counter = nullptr;
  fi_cntr_attr attr{};
  attr.wait_obj = FI_WAIT_MUTEX_COND;
  EXPECT_EQ(fi_cntr_open(o.domain.get(), &attr, &counter, nullptr), -FI_ENOSYS);
}

TEST(domains, take_event_queues_only) {
  const test::opened o;
  fi_eq_attr attr{};
  fid_eq* eq = nullptr;
  ASSERT_EQ(fi_eq_open(o.fabric.get(), &attr, &eq, nullptr), 0);
  const test::unique_fid<fid_eq> owner(eq);
  EXPECT_EQ(fi_domain_bind(o.domain.get(), &eq->fid, 0), 0);
  const auto cq = o.open_cq(FI_CQ_FORMAT_CONTEXT);
  EXPECT_EQ(fi_domain_bind(o.domain.get(), &cq->fid, 0), -FI_EINVAL);
}

TEST(domains, follow_the_application_s_registration_mode) {
  const test::opened direct;
  EXPECT_TRUE(domain::of(direct.domain.get()).virtual_address());
  EXPECT_TRUE(domain::of(direct.domain.get()).provider_keys());
  const test::opened scalable(0);
  EXPECT_FALSE(domain::of(scalable.domain.get()).virtual_address());
  EXPECT_FALSE(domain::of(scalable.domain.get()).provider_keys());
}

TEST(domains, need_an_info_of_ours) {
  const test::opened o;
  fid_domain* none = nullptr;
  EXPECT_EQ(fi_domain(o.fabric.get(), nullptr, &none, nullptr), -FI_EINVAL);
}

}  // namespace
}  // namespace gaudi::fi
