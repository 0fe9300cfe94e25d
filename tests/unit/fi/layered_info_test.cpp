// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// fi_getinfo(3) under the name that is a layer over the core's, "tcp;ofi_gaudi", as HCL asks it.
#include <gtest/gtest.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "fi/getinfo.hpp"
#include "fi/info/device_presence.hpp"
#include "fi/info/naming.hpp"
#include "fi/open_fabric.hpp"

namespace gaudi::fi {
namespace {

constexpr std::uint32_t hcl_version = FI_VERSION(1, 16);
constexpr int hcl_mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;

class layered_infos : public testing::Test {
 protected:
  layered_infos() : hints_(fi_allocinfo()) {
    set_device_probe([] { return true; });
    hints_->mode = FI_CONTEXT;
    hints_->caps = FI_MSG | FI_TAGGED;
    hints_->ep_attr->type = FI_EP_RDM;
    hints_->domain_attr->mr_mode = hcl_mr_mode;
  }
  ~layered_infos() override { set_device_probe(nullptr); }

  int get(bool layered = true) {
    fi_info* found = nullptr;
    const auto ask = layered ? getinfo_layered : getinfo;
    const int ret = ask(hcl_version, nullptr, nullptr, 0, hints_.get(), &found);
    found_.reset(found);
    return ret;
  }
  void ask_hmem() {
    hints_->caps |= FI_HMEM;
    hints_->domain_attr->mr_mode |= FI_MR_HMEM;
  }
  [[nodiscard]] bool lists(const std::string& domain) const {
    for (const fi_info* i = found_.get(); i; i = i->next) {
      if (domain == i->domain_attr->name) return true;
    }
    return false;
  }

  core::unique_info hints_;
  core::unique_info found_;
};

TEST_F(layered_infos, call_domains_as_the_core_does) {
  ASSERT_EQ(get(), 0);
  EXPECT_TRUE(lists("lo"));
  EXPECT_FALSE(lists("gaudi-lo"));
  ASSERT_EQ(get(false), 0);
  EXPECT_TRUE(lists("gaudi-lo"));
}

TEST_F(layered_infos, of_connected_endpoints_do_so_too) {
  hints_->ep_attr->type = FI_EP_MSG;
  hints_->caps = FI_MSG;
  ASSERT_EQ(get(), 0);
  EXPECT_TRUE(lists("lo"));
}

TEST_F(layered_infos, are_found_and_opened_by_the_cores_domain_name) {
  for (const fi_ep_type type : {FI_EP_RDM, FI_EP_MSG}) {
    hints_->ep_attr->type = type;
    hints_->caps = FI_MSG;
    std::free(std::exchange(hints_->domain_attr->name, ::strdup("lo")));
    ASSERT_EQ(get(), 0) << type;
    EXPECT_STREQ(found_->domain_attr->name, "lo");
    fid_fabric* fabric = nullptr;
    ASSERT_EQ(fabric_open(found_->fabric_attr, &fabric, nullptr), 0);
    fid_domain* domain = nullptr;
    ASSERT_EQ(fi_domain(fabric, found_.get(), &domain, nullptr), 0) << type;
    EXPECT_EQ(fi_close(&domain->fid), 0);
    EXPECT_EQ(fi_close(&fabric->fid), 0);
    std::free(std::exchange(hints_->domain_attr->name, ::strdup("gaudi-lo")));
    EXPECT_EQ(get(), -FI_ENODATA) << type;
  }
}

TEST_F(layered_infos, have_mr_local_for_those_who_offer_it) {
  ASSERT_EQ(get(), 0);
  EXPECT_EQ(found_->domain_attr->mr_mode, hcl_mr_mode);
  hints_->domain_attr->mr_mode &= ~FI_MR_LOCAL;
  ASSERT_EQ(get(), 0);
  EXPECT_EQ(found_->domain_attr->mr_mode, hcl_mr_mode & ~FI_MR_LOCAL);
}

// Open MPI and MPICH offer FI_MR_LOCAL as well, and would register every buffer.
TEST_F(layered_infos, alone_have_mr_local_for_host_memory) {
  ASSERT_EQ(get(false), 0);
  EXPECT_EQ(found_->domain_attr->mr_mode, hcl_mr_mode & ~FI_MR_LOCAL);
  ask_hmem();
  ASSERT_EQ(get(false), 0);
  EXPECT_EQ(found_->domain_attr->mr_mode, hcl_mr_mode | FI_MR_HMEM);
}

// FI_GAUDI_TCP_HMEM is off here; tests/integration/hcl has it on.
TEST_F(layered_infos, do_not_offer_hmem_over_tcp) {
  ask_hmem();
  EXPECT_EQ(get(), -FI_ENODATA);
  EXPECT_EQ(get(false), 0);
}

TEST_F(layered_infos, add_no_hmem_entries_over_tcp_for_those_who_leave_it_open) {
  setenv("FI_GAUDI_HLTHUNK", "any", 1);
  hints_->caps = 0;
  hints_->domain_attr->mr_mode |= FI_MR_HMEM;
  ASSERT_EQ(get(), 0);
  for (const fi_info* i = found_.get(); i; i = i->next) EXPECT_EQ(i->caps & FI_HMEM, 0U);
}

TEST(layered_name, is_the_cores_but_for_a_filter_that_lists_the_bare_name) {
  for (const char* filter : {static_cast<const char*>(nullptr), "", "tcp", "tcp;ofi_gaudi",
                             "^ofi_gaudi", "ofi_gaudi2,xofi_gaudi", "verbs;ofi_gaudi,tcp"})
    EXPECT_EQ(layered_name("tcp", filter), "tcp") << (filter ? filter : "(null)");
  for (const char* filter : {"ofi_gaudi", "OFI_Gaudi", "shm,ofi_gaudi", "ofi_gaudi,verbs"})
    EXPECT_EQ(layered_name("verbs", filter), "ofi_gaudi;verbs") << filter;
}

}  // namespace
}  // namespace gaudi::fi
