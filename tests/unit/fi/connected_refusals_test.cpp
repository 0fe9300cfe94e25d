// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Connected endpoints (FI_EP_MSG): what callers may leave out, and what they cannot mean.
#include <gtest/gtest.h>
#include <rdma/fi_eq.h>

#include <cstdlib>
#include <utility>

#include "opened_for_connections.hpp"

namespace gaudi::fi::test {
namespace {

TEST(hints_of_connected_endpoints, may_leave_attributes_out) {
  const auto whole = find(*connected_hints());
  ASSERT_TRUE(whole);
  const auto without = [&](auto fi_info::*attributes) {
    const auto hints = connected_hints();
    std::free(std::exchange((*hints).*attributes, nullptr));
    const auto found = find(*hints);
    ASSERT_TRUE(found);
    EXPECT_NE((*found).*attributes, nullptr);
    EXPECT_STREQ(found->domain_attr->name, whole->domain_attr->name);
  };
  without(&fi_info::tx_attr);
  without(&fi_info::rx_attr);
  without(&fi_info::fabric_attr);
}

TEST_F(opened_for_connections, opens_no_endpoint_without_information_or_a_place_for_it) {
  fid_ep* ep = nullptr;
  fid_pep* pep = nullptr;
  const core::unique_info bare(fi_dupinfo(info.get()));
  std::free(std::exchange(bare->ep_attr->auth_key, nullptr));
  std::free(std::exchange(bare->ep_attr, nullptr));
  for (fi_info* const from : {static_cast<fi_info*>(nullptr), bare.get()}) {
    EXPECT_EQ(fi_endpoint(domain.get(), from, &ep, nullptr), -FI_EINVAL);
    EXPECT_EQ(fi_passive_ep(fabric.get(), from, &pep, nullptr), -FI_EINVAL);
  }
  EXPECT_EQ(fi_endpoint(domain.get(), info.get(), nullptr, nullptr), -FI_EINVAL);
  EXPECT_EQ(fi_passive_ep(fabric.get(), info.get(), nullptr, nullptr), -FI_EINVAL);
  EXPECT_EQ(ep, nullptr);
  EXPECT_EQ(pep, nullptr);
}

TEST_F(opened_for_connections, binds_event_queues_alone_to_what_takes_connections) {
  fid_pep* opened_pep = nullptr;
  ASSERT_EQ(fi_passive_ep(fabric.get(), info.get(), &opened_pep, nullptr), 0);
  const unique_fid<fid_pep> listener(opened_pep);
  fi_cq_attr attr{};
  fid_cq* opened_cq = nullptr;
  ASSERT_EQ(fi_cq_open(domain.get(), &attr, &opened_cq, nullptr), 0);
  const unique_fid<fid_cq> cq(opened_cq);
  EXPECT_EQ(fi_pep_bind(listener.get(), &cq->fid, 0), -FI_EINVAL);
  EXPECT_EQ(fi_domain_bind(domain.get(), &cq->fid, 0), -FI_EINVAL);
}

TEST_F(opened_for_connections, has_the_extension_functions_under_their_name_without_flags) {
  void* ops = nullptr;
  EXPECT_EQ(fi_open_ops(&domain->fid, FI_GAUDI_DOMAIN_OPS, 1, &ops, nullptr), -FI_EBADFLAGS);
  EXPECT_EQ(ops, nullptr);
  EXPECT_NE(fi_open_ops(&domain->fid, "ops of nobody", 0, &ops, nullptr), 0);
  EXPECT_EQ(ops, nullptr);
  EXPECT_EQ(fi_open_ops(&domain->fid, FI_GAUDI_DOMAIN_OPS, 0, &ops, nullptr), 0);
  EXPECT_NE(ops, nullptr);
}

TEST_F(opened_for_connections, registers_nothing_that_it_is_not_told_of) {
  char byte = 0;
  const iovec part{&byte, 1};
  fid_mr* mr = nullptr;
  fi_mr_attr attr{};
  attr.mr_iov = &part;
  attr.iov_count = 1;
  attr.access = FI_SEND;
  EXPECT_EQ(fi_mr_regattr(domain.get(), nullptr, 0, &mr), -FI_EINVAL);
  EXPECT_EQ(fi_mr_regattr(domain.get(), &attr, 0, nullptr), -FI_EINVAL);
  EXPECT_EQ(mr, nullptr);
}

}  // namespace
}  // namespace gaudi::fi::test
