// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/params.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include <map>
#include <string>

namespace {

using gaudi::base::core_choice;
using gaudi::base::params;

gaudi::base::result<params> parse(const std::map<std::string, std::string>& texts) {
  return params::parse([&](const char* name) -> const char* {
    const auto it = texts.find(name);
    return it == texts.end() ? nullptr : it->second.c_str();
  });
}

TEST(params, defaults_are_those_of_the_table) {
  const auto p = parse({});
  ASSERT_TRUE(p);
  EXPECT_EQ(p->core, core_choice::automatic);
  EXPECT_EQ(p->hlthunk, "");
  EXPECT_EQ(p->dmabuf, gaudi::base::dmabuf_choice::automatic);
  EXPECT_EQ(p->rndv, gaudi::base::rendezvous_choice::automatic);
  EXPECT_EQ(p->flush, gaudi::base::flush_choice::automatic);
  EXPECT_EQ(p->eager_size, 0U);
  EXPECT_EQ(p->staging_chunk, 512U * 1024);
  EXPECT_EQ(p->staging_depth, 8U);
  EXPECT_EQ(p->rx_buffers, 256U);
  EXPECT_EQ(p->unexpected_limit, 64U << 20);
  EXPECT_EQ(p->device_timeout, std::chrono::seconds(15));
  EXPECT_EQ(p->mr_cache.max_count, 1024U);
  EXPECT_EQ(p->mr_cache.max_size, 256ULL << 30);
  EXPECT_FALSE(p->mr_cache.imported);
  EXPECT_EQ(p->mr_cache.window, 4ULL << 30);
  EXPECT_FALSE(p->tcp_hmem);
  EXPECT_TRUE(p->counters);
}

TEST(params, every_entry_of_the_table_is_complete) {
  for (const auto& spec : gaudi::base::param_table) {
    ASSERT_NE(spec.name, nullptr);
    EXPECT_NE(std::string(spec.help), "") << spec.name;
    EXPECT_EQ(std::string(spec.help).find('\n'), std::string::npos) << spec.name;
    EXPECT_LE(spec.min, spec.max) << spec.name;
  }
}

TEST(params, texts_are_taken_as_they_are) {
  const auto p = parse({{"core", "tcp"}, {"hlthunk", "/x/y.so"}, {"device", "module:3"}});
  ASSERT_TRUE(p);
  EXPECT_EQ(p->core, core_choice::tcp);
  EXPECT_EQ(p->hlthunk, "/x/y.so");
  EXPECT_EQ(p->device, "module:3");
}

TEST(params, names_are_separated_by_commas) {
  EXPECT_THAT(parse({})->nics, testing::IsEmpty());
  EXPECT_THAT(parse({{"nic", "mlx5_0"}})->nics, testing::ElementsAre("mlx5_0"));
  EXPECT_THAT(parse({{"nic", "mlx5_1,mlx5_0"}})->nics, testing::ElementsAre("mlx5_1", "mlx5_0"));
}

TEST(params, rails_are_a_number_or_names_or_all) {
  EXPECT_EQ(parse({})->rails.count, 1U);
  EXPECT_EQ(parse({{"rails", "3"}})->rails.count, 3U);
  EXPECT_THAT(parse({{"rails", "3"}})->rails.interfaces, testing::IsEmpty());
  EXPECT_FALSE(parse({{"rails", "3"}})->rails.is_automatic);
  EXPECT_TRUE(parse({{"rails", "auto"}})->rails.is_automatic);
  EXPECT_THAT(parse({{"rails", "auto"}})->rails.interfaces, testing::IsEmpty());
  EXPECT_EQ(parse({{"rails", "eth0,eth1"}})->rails.count, 2U);
  EXPECT_THAT(parse({{"rails", "eth0,eth1"}})->rails.interfaces,
              testing::ElementsAre("eth0", "eth1"));
  for (const char* bad : {"0", "9", "", "eth0,", "a,b,c,d,e,f,g,h,i"})
    EXPECT_FALSE(parse({{"rails", bad}})) << bad;
}

TEST(params, numbers_take_suffixes) {
  const auto p = parse({{"eager_size", "8K"}, {"staging_chunk", "2m"}, {"unexpected_limit", "1G"}});
  ASSERT_TRUE(p);
  EXPECT_EQ(p->eager_size, 8192U);
  EXPECT_EQ(p->staging_chunk, 2U << 20);
  EXPECT_EQ(p->unexpected_limit, 1U << 30);
}

TEST(params, messages_are_eager_further_over_a_stream) {
  const auto p = parse({{"eager_size", "auto"}});
  ASSERT_TRUE(p);
  EXPECT_EQ(p->eager_size_over(true), 16384U);
  EXPECT_EQ(p->eager_size_over(false), 65536U);
  EXPECT_EQ(p->max_by_ring(), 32768U);
  const auto given = parse({{"eager_size", "4K"}});
  ASSERT_TRUE(given);
  EXPECT_EQ(given->eager_size_over(true), 4096U);
  EXPECT_EQ(given->eager_size_over(false), 4096U);
  EXPECT_GE(given->max_by_ring(), 4096U) << "what the user gives counts there as well";
}

class bad_params : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(bad_params, are_refused) {
  const auto [name, text] = GetParam();
  EXPECT_EQ(parse({{name, text}}).code(), -FI_EINVAL);
}

INSTANTIATE_TEST_SUITE_P(
    texts, bad_params,
    testing::Values(std::pair("core", "TCP"), std::pair("nic", "a,,b"), std::pair("nic", "a,"),
                    std::pair("nic", "a, b"), std::pair("nic", ","), std::pair("core", ""),
                    std::pair("dmabuf", "yes"), std::pair("rndv", "Read"), std::pair("flush", "on"),
                    std::pair("eager_size", ""), std::pair("eager_size", "12x"),
                    std::pair("eager_size", "-1"), std::pair("eager_size", "63"),
                    std::pair("eager_size", "2M"), std::pair("eager_size", "1 K"),
                    std::pair("eager_size", "off"), std::pair("eager_size", "0"),
                    std::pair("unexpected_limit", "99999999999999999999"),
                    std::pair("unexpected_limit", "18014398509481984K"),
                    std::pair("staging_depth", "0x10"), std::pair("device_timeout", "3601")));

TEST(params, the_limits_are_inside) {
  for (const auto& spec : gaudi::base::param_table) {
    if (spec.max == 0) continue;
    EXPECT_TRUE(parse({{spec.name, std::to_string(spec.min)}})) << spec.name;
    EXPECT_TRUE(parse({{spec.name, std::to_string(spec.max)}})) << spec.name;
    EXPECT_FALSE(parse({{spec.name, std::to_string(spec.max + 1)}})) << spec.name;
  }
}

}  // namespace
