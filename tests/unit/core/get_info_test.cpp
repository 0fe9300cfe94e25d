// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// These run on libfabric's real tcp provider, which every machine has.
#include "core/get_info.hpp"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace {

using gaudi::core::get_info;
using gaudi::core::query;

TEST(get_info, lists_msg_endpoints_of_tcp_only) {
  const auto found = get_info(query{.core = gaudi::base::core_choice::tcp});
  ASSERT_TRUE(found);
  for (const fi_info* info = found->get(); info; info = info->next) {
    EXPECT_STREQ(info->fabric_attr->prov_name, "tcp");
    EXPECT_EQ(info->ep_attr->type, FI_EP_MSG);
    EXPECT_EQ(info->caps & (FI_MSG | FI_RMA), FI_MSG | FI_RMA);
    EXPECT_EQ(info->domain_attr->threading, FI_THREAD_DOMAIN);
  }
}

TEST(get_info, automatic_falls_back_to_tcp_where_verbs_has_nothing) {
  // Whether or not this machine has an RDMA device, a loopback address is not one of its.
  const auto found = get_info(
      query{.node = "127.0.0.1", .service = "5000", .flags = FI_SOURCE, .rdma_present = true});
  ASSERT_TRUE(found);
  EXPECT_STREQ((*found)->fabric_attr->prov_name, "tcp");
}

TEST(get_info, passes_node_and_service_as_source) {
  const auto found = get_info(query{.node = "127.0.0.1",
                                    .service = "5000",
                                    .flags = FI_SOURCE,
                                    .core = gaudi::base::core_choice::tcp});
  ASSERT_TRUE(found);
  ASSERT_EQ((*found)->src_addrlen, sizeof(sockaddr_in));
  const auto* src = static_cast<const sockaddr_in*>((*found)->src_addr);
  EXPECT_EQ(ntohl(src->sin_addr.s_addr), INADDR_LOOPBACK);
  EXPECT_EQ(ntohs(src->sin_port), 5000);
}

TEST(get_info, honours_domain_and_format) {
  const auto found = get_info(query{
      .addr_format = FI_SOCKADDR_IN, .domain_name = "lo", .core = gaudi::base::core_choice::tcp});
  ASSERT_TRUE(found);
  EXPECT_STREQ((*found)->domain_attr->name, "lo");
  EXPECT_EQ((*found)->addr_format, FI_SOCKADDR_IN);
  EXPECT_EQ((*found)->next, nullptr);
}

TEST(get_info, lists_only_the_nics_that_the_user_chose) {
  const std::vector<std::string> chosen{"no_such_nic", "lo"};
  const auto found = get_info(query{.nics = chosen, .core = gaudi::base::core_choice::tcp});
  ASSERT_TRUE(found);
  for (const fi_info* info = found->get(); info; info = info->next)
    EXPECT_STREQ(info->domain_attr->name, "lo");
  const std::vector<std::string> missing{"no_such_nic"};
  EXPECT_EQ(get_info(query{.nics = missing, .core = gaudi::base::core_choice::tcp}).code(),
            -FI_ENODATA);
}

TEST(get_info, an_unknown_domain_has_no_entry) {
  EXPECT_EQ(get_info(query{.domain_name = "no_such_domain", .core = gaudi::base::core_choice::tcp})
                .code(),
            -FI_ENODATA);
}

TEST(get_info, leaves_gaudis_own_ports_out) {
  const auto entry = [](const char* name) {
    gaudi::core::unique_info info(fi_allocinfo());
    info->domain_attr->name = ::strdup(name);
    return info;
  };
  auto list = entry("hbl_0");
  list->next = entry("mlx5_0").release();
  list->next->next = entry("hlib_1").release();
  const auto left = gaudi::core::without_gaudi_ports(std::move(list));
  ASSERT_TRUE(left);
  EXPECT_STREQ(left->domain_attr->name, "mlx5_0");
  EXPECT_EQ(left->next, nullptr);
  EXPECT_FALSE(gaudi::core::without_gaudi_ports(entry("hbl_1")));
}

TEST(get_info, is_not_nested_outside) {
  EXPECT_FALSE(gaudi::core::inside_get_info());
  static_cast<void>(get_info(query{.core = gaudi::base::core_choice::tcp}));
  EXPECT_FALSE(gaudi::core::inside_get_info());
}

}  // namespace
