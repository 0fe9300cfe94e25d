// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/info/nic_order.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "../topo/recorded_sysfs.hpp"
#include "fi/info/naming.hpp"

namespace {

using gaudi::base::params;
using gaudi::core::unique_info;
using gaudi::fi::in_order;
using gaudi::fi::nic_order;
using gaudi::topo::test::recorded_sysfs;
using testing::ElementsAre;
using testing::IsEmpty;

/// What a core provider answers with these domains, one entry each.
unique_info list_of(std::initializer_list<const char*> domains) {
  unique_info head;
  fi_info* last = nullptr;
  for (const char* name : domains) {
    fi_info* info = fi_allocinfo();
    gaudi::fi::replace(info->domain_attr->name, name);
    if (last)
      last->next = info;
    else
      head.reset(info);
    last = info;
  }
  return head;
}

std::vector<std::string> names_in(const unique_info& list) {
  std::vector<std::string> names;
  for (const fi_info* info = list.get(); info; info = info->next)
    names.emplace_back(info->domain_attr->name);
  return names;
}

params with_device(const char* device) {
  params p;
  p.device = device;
  return p;
}

// While no device is open.
nic_order order_for(const params& p, const std::filesystem::path& sysfs) {
  gaudi::device::device_registry none;
  return gaudi::fi::order_in_use({p, none}, sysfs);
}

TEST(order_in_use, is_that_of_the_chosen_device) {
  const recorded_sysfs machine("four_switches");
  for (const char* device : {"0000:cd:00.0", "7", "module:1", "7,0,module:3"}) {
    const auto order = order_for(with_device(device), machine.root());
    EXPECT_EQ(order.device.bus_id(), "0000:cd:00.0") << device;
    EXPECT_EQ(order.turn, 7U) << device;
  }
}

TEST(order_in_use, is_that_of_the_first_of_all) {
  const recorded_sysfs machine("four_switches");
  const auto first = order_for(with_device("0"), machine.root());
  ASSERT_TRUE(first.device.known());
  EXPECT_EQ(order_for(with_device("all"), machine.root()).device.bus_id(), first.device.bus_id());
}

TEST(order_in_use, is_none_while_any_of_several_devices_may_be_used) {
  const recorded_sysfs machine("four_switches");
  EXPECT_FALSE(order_for(params{}, machine.root()).device.known());
}

TEST(order_in_use, is_that_of_the_only_device) {
  recorded_sysfs machine;
  machine.add("gaudi 0 numa=0 pci0000:15/0000:15:01.0/0000:16:00.0");
  machine.add("nic mlx5_0 numa=1 pci0000:97/0000:97:01.0/0000:98:00.0");
  machine.add("nic mlx5_1 numa=0 pci0000:15/0000:15:02.0/0000:17:00.0");
  const auto order = order_for(params{}, machine.root());
  EXPECT_EQ(order.device.bus_id(), "0000:16:00.0");
  EXPECT_THAT(names_in(in_order(list_of({"mlx5_0", "mlx5_1"}), order)),
              ElementsAre("mlx5_1", "mlx5_0"));
}

TEST(order_in_use, is_none_for_a_device_that_is_not_there) {
  const recorded_sysfs machine("four_switches");
  for (const char* device : {"0000:1d:00.0", "8", "module:9", "nonsense"})
    EXPECT_FALSE(order_for(with_device(device), machine.root()).device.known()) << device;
}

TEST(in_order, puts_all_entries_of_the_nearest_nic_first) {
  const recorded_sysfs machine("four_switches");
  const auto order = order_for(with_device("0000:9a:00.0"), machine.root());  // index 4
  EXPECT_THAT(names_in(in_order(
                  list_of({"mlx5_0", "mlx5_5", "mlx5_7", "mlx5_0", "mlx5_6", "mlx5_5"}), order)),
              ElementsAre("mlx5_5", "mlx5_5", "mlx5_6", "mlx5_7", "mlx5_0", "mlx5_0"));
}

TEST(in_order, is_the_users_where_there_is_one) {
  const recorded_sysfs machine("four_switches");
  auto chosen = with_device("0000:9a:00.0");
  chosen.nics = {"mlx5_7", "mlx5_0"};
  const auto order = order_for(chosen, machine.root());
  EXPECT_THAT(names_in(in_order(list_of({"mlx5_0", "mlx5_7", "mlx5_0"}), order)),
              ElementsAre("mlx5_7", "mlx5_0", "mlx5_0"));
}

TEST(in_order, is_the_cores_where_nothing_is_known) {
  EXPECT_THAT(names_in(in_order(list_of({"b", "a", "b"}), nic_order{})),
              ElementsAre("b", "a", "b"));
  EXPECT_THAT(names_in(in_order(unique_info(), nic_order{})), IsEmpty());
}

TEST(in_order, keeps_interfaces_that_are_no_nics) {
  const recorded_sysfs machine("four_switches");
  const auto order = order_for(with_device("0"), machine.root());
  EXPECT_THAT(names_in(in_order(list_of({"lo", "mlx5_0", "lo"}), order)),
              ElementsAre("mlx5_0", "lo", "lo"));
}

}  // namespace
