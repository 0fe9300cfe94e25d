// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// fi_getinfo(3) of the provider, on top of libfabric's real tcp provider.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include "core/get_info.hpp"
#include "fi/common/retired.hpp"
#include "fi/getinfo.hpp"
#include "fi/info/device_presence.hpp"
#include "fi/info/hmem.hpp"
#include "fi/info/info_offer.hpp"
#include "fi/rdm/rdm_info.hpp"

namespace {

using gaudi::core::unique_info;
namespace retired = gaudi::fi::retired;

constexpr std::uint32_t current = FI_VERSION(1, 17);

class infos : public testing::Test {
 protected:
  infos() : hints_(fi_allocinfo()) {
    gaudi::fi::set_device_probe([] { return false; });
    hints_->mode = ~0ULL;
    hints_->ep_attr->type = FI_EP_RDM;
  }
  ~infos() override { gaudi::fi::set_device_probe(nullptr); }

  static void with_device() {
    gaudi::fi::set_device_probe([] { return true; });
  }

  int get(const fi_info* hints, std::uint32_t version = current) {
    return get(nullptr, nullptr, 0, hints, version);
  }
  int get(const char* node, const char* service, std::uint64_t flags, const fi_info* hints,
          std::uint32_t version = current) {
    fi_info* found = nullptr;
    const int ret = gaudi::fi::getinfo(version, node, service, flags, hints, &found);
    found_.reset(found);
    return ret;
  }
  /// The registration mode that is reported for one that is offered; -1 when nothing is listed.
  int mr_mode(int offered, std::uint32_t version = current) {
    hints_->domain_attr->mr_mode = offered;
    return get(hints_.get(), version) ? -1 : found_->domain_attr->mr_mode;
  }

  unique_info hints_;
  unique_info found_;
};

constexpr int direct = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;

TEST_F(infos, list_every_interface_without_hints) {
  ASSERT_EQ(get(nullptr), 0);
  bool loopback = false;
  for (const fi_info* i = found_.get(); i; i = i->next) {
    EXPECT_EQ(i->fabric_attr->prov_name, nullptr);
    EXPECT_EQ(i->fabric_attr->api_version, current);
    EXPECT_EQ(i->caps & FI_HMEM, 0U);
    if (i->ep_attr->type == FI_EP_RDM) {
      EXPECT_EQ(i->tx_attr->caps & ~i->caps, 0U);
      EXPECT_EQ(i->rx_attr->caps & ~i->caps, 0U);
      EXPECT_EQ(i->domain_attr->mr_mode, direct);
    }
    EXPECT_NE(i->src_addr, nullptr);
    loopback = loopback || std::string(i->domain_attr->name) == "gaudi-lo";
  }
  EXPECT_TRUE(loopback);
}

TEST_F(infos, decline_to_carry_a_util_provider) {
  EXPECT_EQ(get(nullptr, nullptr, gaudi::core::only_core_providers, nullptr), -FI_ENODATA);
}

TEST_F(infos, tell_only_the_provider_when_asked_so) {
  ASSERT_EQ(get(nullptr, nullptr, FI_PROV_ATTR_ONLY, nullptr), 0);
  EXPECT_EQ(found_->next, nullptr);
}

TEST_F(infos, resolve_source_and_destination) {
  ASSERT_EQ(get("127.0.0.1", "5000", FI_SOURCE, hints_.get()), 0);
  EXPECT_EQ(ntohs(static_cast<sockaddr_in*>(found_->src_addr)->sin_port), 5000);
  EXPECT_EQ(found_->dest_addr, nullptr);
  ASSERT_EQ(get("127.0.0.1", "5000", 0, hints_.get()), 0);
  ASSERT_NE(found_->dest_addr, nullptr);
  EXPECT_EQ(ntohs(static_cast<sockaddr_in*>(found_->dest_addr)->sin_port), 5000);
  EXPECT_NE(found_->src_addr, nullptr);
}

TEST_F(infos, take_names_and_format) {
  hints_->domain_attr->name = ::strdup("gaudi-lo");
  hints_->addr_format = FI_SOCKADDR_IN;
  ASSERT_EQ(get(hints_.get()), 0);
  EXPECT_STREQ(found_->domain_attr->name, "gaudi-lo");
  EXPECT_EQ(found_->addr_format, FI_SOCKADDR_IN);
  EXPECT_EQ(found_->next, nullptr);
}

TEST_F(infos, have_no_unknown_domain_fabric_or_format) {
  for (const char* name : {"invalid_domain", "gaudi-invalid", "lo", "gaudi-"}) {
    std::free(hints_->domain_attr->name);
    hints_->domain_attr->name = ::strdup(name);
    EXPECT_EQ(get(hints_.get()), -FI_ENODATA) << name;
  }
  hints_.reset(fi_allocinfo());
  hints_->fabric_attr->name = ::strdup("no such fabric");
  EXPECT_EQ(get(hints_.get()), -FI_ENODATA);
  hints_.reset(fi_allocinfo());
  hints_->addr_format = FI_ADDR_STR;
  EXPECT_EQ(get(hints_.get()), -FI_ENODATA);
}

TEST_F(infos, name_devices_behind_the_domain_where_device_memory_may_be_used) {
  with_device();
  hints_->domain_attr->mr_mode = direct | FI_MR_HMEM;
  ASSERT_EQ(get(hints_.get()), 0);
  unsigned labelled = 0;
  for (const fi_info* i = found_.get(); i; i = i->next) {
    const std::string name = i->domain_attr->name;
    const bool hmem = (i->caps & FI_HMEM) != 0;
    EXPECT_EQ(name.find('@') != std::string::npos, hmem) << name;
    labelled += hmem;
  }
  ASSERT_GT(labelled, 0U);
}

// Libfabric drops what is called otherwise.
TEST_F(infos, are_called_by_the_domain_name_that_was_asked_for) {
  with_device();
  hints_->domain_attr->name = ::strdup("gaudi-lo");
  hints_->domain_attr->mr_mode = direct | FI_MR_HMEM;
  hints_->caps = FI_MSG | FI_RMA | FI_HMEM;
  ASSERT_EQ(get(hints_.get()), 0);
  for (const fi_info* i = found_.get(); i; i = i->next) {
    EXPECT_STREQ(i->domain_attr->name, "gaudi-lo");
    EXPECT_NE(i->caps & FI_HMEM, 0U);
  }
  // A name with a device in it has the entries with FI_HMEM only, whatever device it names.
  hints_->caps = 0;
  std::free(std::exchange(hints_->domain_attr->name, ::strdup("gaudi-lo@gaudi63")));
  ASSERT_EQ(get(hints_.get()), 0);
  for (const fi_info* i = found_.get(); i; i = i->next) {
    EXPECT_NE(i->caps & FI_HMEM, 0U);
    EXPECT_STREQ(i->domain_attr->name, "gaudi-lo@gaudi63");
  }
  const auto core = gaudi::fi::core_info_for(*found_, gaudi::base::params::get());
  ASSERT_TRUE(core);
  EXPECT_STREQ((*core)->domain_attr->name, "lo");
}

TEST_F(infos, lead_back_to_the_cores_info) {
  hints_->domain_attr->name = ::strdup("gaudi-lo");
  hints_->addr_format = FI_SOCKADDR_IN6;
  if (get(hints_.get()) != 0) GTEST_SKIP() << "no IPv6 on the loopback interface";
  const auto core = gaudi::fi::core_info_for(*found_, gaudi::base::params::get());
  ASSERT_TRUE(core);
  EXPECT_STREQ((*core)->domain_attr->name, "lo");
  EXPECT_EQ((*core)->addr_format, FI_SOCKADDR_IN6);
  EXPECT_EQ((*core)->ep_attr->type, FI_EP_MSG);
  EXPECT_EQ((*core)->next, nullptr);
  EXPECT_EQ((*core)->src_addrlen, found_->src_addrlen);
}

TEST_F(infos, report_the_primary_capabilities_that_were_asked) {
  hints_->caps = FI_TAGGED | FI_DIRECTED_RECV;
  ASSERT_EQ(get(hints_.get()), 0);
  EXPECT_EQ(found_->caps,
            FI_TAGGED | FI_DIRECTED_RECV | FI_SEND | FI_RECV | FI_LOCAL_COMM | FI_REMOTE_COMM);
  EXPECT_EQ(found_->tx_attr->caps, FI_TAGGED | FI_SEND);
  EXPECT_EQ(found_->rx_attr->caps, FI_TAGGED | FI_DIRECTED_RECV | FI_RECV);
}

TEST_F(infos, keep_directions_that_were_asked) {
  hints_->caps = FI_MSG | FI_RMA | FI_RECV | FI_WRITE | FI_SOURCE;
  ASSERT_EQ(get(hints_.get()), 0);
  EXPECT_EQ(found_->caps & ~(FI_LOCAL_COMM | FI_REMOTE_COMM), hints_->caps);
}

TEST_F(infos, do_not_offer_hmem_without_a_device) {
  hints_->caps = FI_MSG | FI_HMEM;
  hints_->domain_attr->mr_mode = direct | FI_MR_HMEM;
  EXPECT_EQ(get(hints_.get()), -FI_ENODATA);
}

TEST_F(infos, offer_hmem_with_a_device_and_its_mr_mode) {
  with_device();
  hints_->caps = FI_MSG | FI_HMEM;
  hints_->domain_attr->mr_mode = direct | FI_MR_HMEM | FI_MR_LOCAL;
  ASSERT_EQ(get(hints_.get()), 0);
  for (const fi_info* i = found_.get(); i; i = i->next) {
    EXPECT_TRUE(gaudi::fi::has_hmem(*i));
    EXPECT_EQ(i->domain_attr->mr_mode, direct | FI_MR_HMEM | FI_MR_LOCAL);
  }
  hints_->domain_attr->mr_mode = direct;
  EXPECT_EQ(get(hints_.get()), -FI_ENODATA);
  hints_->domain_attr->mr_mode = FI_MR_HMEM;
  ASSERT_EQ(get(hints_.get()), 0);
  EXPECT_EQ(found_->domain_attr->mr_mode, FI_MR_HMEM);
}

TEST_F(infos, list_hmem_behind_the_plain_entries_when_nothing_is_asked) {
  with_device();
  ASSERT_EQ(get(nullptr), 0);
  bool hmem = false;
  std::size_t plain = 0;
  std::size_t with_hmem = 0;
  for (const fi_info* i = found_.get(); i; i = i->next) {
    if (i->ep_attr->type != FI_EP_RDM) continue;
    EXPECT_GE(gaudi::fi::has_hmem(*i), hmem) << "a plain entry follows one with FI_HMEM";
    hmem = gaudi::fi::has_hmem(*i);
    ++(hmem ? with_hmem : plain);
    EXPECT_EQ(i->domain_attr->mr_mode, hmem ? direct | FI_MR_HMEM : direct);
  }
  EXPECT_EQ(plain, with_hmem);
  EXPECT_NE(plain, 0U);
}

TEST_F(infos, reduce_the_mr_mode_to_what_is_offered) {
  EXPECT_EQ(mr_mode(0), 0);
  EXPECT_EQ(mr_mode(FI_MR_LOCAL), 0);
  EXPECT_EQ(mr_mode(FI_MR_VIRT_ADDR | FI_MR_PROV_KEY), 0);
  EXPECT_EQ(mr_mode(direct | FI_MR_LOCAL | FI_MR_ENDPOINT), direct);
  EXPECT_EQ(mr_mode(retired::mr_basic), retired::mr_basic);
  EXPECT_EQ(mr_mode(retired::mr_scalable), retired::mr_scalable);
  EXPECT_EQ(mr_mode(retired::mr_basic | retired::mr_scalable), -1);
  EXPECT_EQ(mr_mode(retired::mr_basic | FI_MR_LOCAL), -1);
}

TEST_F(infos, speak_the_old_mr_modes_before_1_5) {
  EXPECT_EQ(mr_mode(retired::mr_unspec, FI_VERSION(1, 4)), retired::mr_basic);
  EXPECT_EQ(mr_mode(retired::mr_basic, FI_VERSION(1, 4)), retired::mr_basic);
  EXPECT_EQ(mr_mode(retired::mr_scalable, FI_VERSION(1, 4)), retired::mr_scalable);
  EXPECT_EQ(mr_mode(FI_MR_LOCAL, FI_VERSION(1, 4)), -1);
  ASSERT_EQ(get(nullptr, 0), 0);
  EXPECT_EQ(found_->domain_attr->mr_mode, retired::mr_basic);
}

TEST_F(infos, promise_the_order_of_rma_where_the_core_does_it_alone) {
  hints_->tx_attr->msg_order = FI_ORDER_RMA_WAW | FI_ORDER_RMA_RAW | FI_ORDER_SAW;
  EXPECT_EQ(mr_mode(direct), direct);
  EXPECT_EQ(hints_->tx_attr->msg_order & ~found_->tx_attr->msg_order, 0U);
  EXPECT_EQ(found_->tx_attr->msg_order & FI_ORDER_WAW, 0U) << "that is of atomics, too";
  EXPECT_NE(found_->ep_attr->max_order_waw_size, 0U);
  EXPECT_EQ(mr_mode(0), -1) << "keys of the application's are served by messages";
  hints_->tx_attr->msg_order = FI_ORDER_ATOMIC_WAW;
  EXPECT_EQ(mr_mode(0), 0);
  EXPECT_EQ(found_->ep_attr->max_order_waw_size, 0U);
}

TEST_F(infos, match_open_mpi) {
  hints_->caps = FI_TAGGED | FI_LOCAL_COMM | FI_REMOTE_COMM | FI_DIRECTED_RECV;
  hints_->mode = FI_CONTEXT | FI_CONTEXT2;
  hints_->ep_attr->type = FI_EP_RDM;
  hints_->tx_attr->op_flags = FI_COMPLETION;
  hints_->rx_attr->op_flags = FI_COMPLETION;
  hints_->tx_attr->msg_order = FI_ORDER_SAS;
  hints_->rx_attr->msg_order = FI_ORDER_SAS;
  hints_->domain_attr->threading = FI_THREAD_DOMAIN;
  hints_->domain_attr->resource_mgmt = FI_RM_ENABLED;
  hints_->domain_attr->av_type = FI_AV_MAP;
  hints_->domain_attr->cq_data_size = 4;
  ASSERT_EQ(get(nullptr, nullptr, 0, hints_.get(), FI_VERSION(1, 5)), 0);
  EXPECT_EQ(found_->mode, 0U);
  EXPECT_EQ(found_->domain_attr->threading, FI_THREAD_DOMAIN);
  EXPECT_EQ(found_->domain_attr->av_type, FI_AV_MAP);
  EXPECT_EQ(found_->tx_attr->op_flags, FI_COMPLETION);
}

struct refusal {
  const char* what;
  std::function<void(fi_info&)> ask;
};
void PrintTo(const refusal& r, std::ostream* out) {
  *out << r.what;
}

class refused : public infos, public testing::WithParamInterface<refusal> {};

TEST_P(refused, hints) {
  GetParam().ask(*hints_);
  EXPECT_EQ(get(hints_.get()), -FI_ENODATA);
}

INSTANTIATE_TEST_SUITE_P(
    unsupported, refused,
    testing::Values(
        refusal{"multicast", [](fi_info& h) { h.caps = FI_MULTICAST; }},
        refusal{"shared av", [](fi_info& h) { h.domain_attr->caps = FI_SHARED_AV; }},
        refusal{"source errors alone", [](fi_info& h) { h.caps = FI_MSG | FI_SOURCE_ERR; }},
        refusal{"dgram endpoint", [](fi_info& h) { h.ep_attr->type = FI_EP_DGRAM; }},
        refusal{"tx order", [](fi_info& h) { h.tx_attr->msg_order = FI_ORDER_SAS | FI_ORDER_RAW; }},
        refusal{"rx order", [](fi_info& h) { h.rx_attr->msg_order = FI_ORDER_WAW; }},
        refusal{"completion order", [](fi_info& h) { h.tx_attr->comp_order = 1; }},
        refusal{"inject size",
                [](fi_info& h) { h.tx_attr->inject_size = gaudi::fi::offer::inject_size + 1; }},
        refusal{"tx size", [](fi_info& h) { h.tx_attr->size = 1U << 20; }},
        refusal{"rx size", [](fi_info& h) { h.rx_attr->size = 1U << 20; }},
        refusal{"iov limit", [](fi_info& h) { h.tx_attr->iov_limit = 5; }},
        refusal{"rma iov limit", [](fi_info& h) { h.tx_attr->rma_iov_limit = 17; }},
        refusal{"message size", [](fi_info& h) { h.ep_attr->max_msg_size = SIZE_MAX; }},
        refusal{"raw size", [](fi_info& h) { h.ep_attr->max_order_raw_size = 1; }},
        refusal{"tx contexts", [](fi_info& h) { h.ep_attr->tx_ctx_cnt = 2; }},
        refusal{"protocol", [](fi_info& h) { h.ep_attr->protocol = FI_PROTO_RXM; }},
        refusal{"commit complete", [](fi_info& h) { h.tx_attr->op_flags = FI_COMMIT_COMPLETE; }},
        refusal{"cq data", [](fi_info& h) { h.domain_attr->cq_data_size = 9; }},
        refusal{"mr iov", [](fi_info& h) { h.domain_attr->mr_iov_limit = 2; }},
        refusal{"counters", [](fi_info& h) { h.domain_attr->cntr_cnt = 1U << 20; }}));

}  // namespace
