// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "topo/distance.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "recorded_sysfs.hpp"
#include "topo/kernel_class.hpp"

namespace {

using gaudi::topo::between;
using gaudi::topo::distance;
using gaudi::topo::pci_place;
using gaudi::topo::place_of_function;
using gaudi::topo::place_of_nic;
using gaudi::topo::test::recorded_sysfs;
using testing::ElementsAre;
using testing::IsEmpty;

/// The NICs of a machine as the device at `bus_id` prefers them.
std::vector<std::string> preferred(const recorded_sysfs& machine, const std::string& bus_id,
                                   std::size_t turn = 0) {
  const auto names = gaudi::topo::rdma_devices(machine.root() / "class");
  std::vector<pci_place> places;
  for (const auto& name : names) places.push_back(place_of_nic(name, machine.root()));
  std::vector<std::string> sorted;
  for (const std::size_t i :
       gaudi::topo::by_distance(place_of_function(bus_id, machine.root()), turn, places))
    sorted.push_back(names[i]);
  return sorted;
}

TEST(pci_place, is_the_way_from_the_host_bridge) {
  const recorded_sysfs machine("four_switches");
  const auto place = place_of_function("0000:1a:00.0", machine.root());
  EXPECT_THAT(place.path, ElementsAre("pci0000:15", "0000:15:01.0", "0000:16:00.0", "0000:17:01.0",
                                      "0000:1a:00.0"));
  EXPECT_EQ(place.numa_node, 0);
  EXPECT_EQ(place.bus_id(), "0000:1a:00.0");
}

TEST(pci_place, of_a_nic_is_that_of_its_function) {
  const recorded_sysfs machine("four_switches");
  EXPECT_EQ(place_of_nic("mlx5_8", machine.root()).bus_id(), "0000:ce:00.1");
  EXPECT_EQ(place_of_nic("mlx5_8", machine.root()).numa_node, 1);
  EXPECT_EQ(place_of_nic("eno1", machine.root()).bus_id(), "0000:03:00.0");
}

TEST(pci_place, of_a_virtio_nic_is_that_of_the_function_above_it) {
  recorded_sysfs machine;
  machine.add("net eth0 numa=0 pci0000:00/0000:00:03.0/virtio0");
  EXPECT_EQ(place_of_nic("eth0", machine.root()).bus_id(), "0000:00:03.0");
}

TEST(pci_place, in_a_virtual_pci_domain_has_both_bridges) {
  recorded_sysfs machine;
  machine.add("nic mlx5_0 numa=0 pci0000:64/0000:64:00.5/pci10000:00/10000:00:02.0/10000:01:00.0");
  EXPECT_THAT(
      place_of_nic("mlx5_0", machine.root()).path,
      ElementsAre("pci0000:64", "0000:64:00.5", "pci10000:00", "10000:00:02.0", "10000:01:00.0"));
}

TEST(pci_place, is_unknown_for_what_is_not_on_pci) {
  recorded_sysfs machine;
  machine.add("nic rxe0 virtual/net/eth0");
  EXPECT_FALSE(place_of_nic("rxe0", machine.root()).known());
  EXPECT_FALSE(place_of_nic("mlx5_0", machine.root()).known());
  EXPECT_FALSE(place_of_function("0000:19:00.0", machine.root()).known());
  EXPECT_EQ(place_of_nic("rxe0", machine.root()).bus_id(), "");
}

TEST(distance, has_the_classes_of_nvidia_smi_topo) {
  const recorded_sysfs machine("four_switches");
  const auto gaudi = place_of_function("0000:19:00.0", machine.root());
  const auto to = [&](const char* nic) {
    return between(gaudi, place_of_nic(nic, machine.root()));
  };
  EXPECT_EQ(to("mlx5_1"), distance::same_switch);
  EXPECT_EQ(to("mlx5_2"), distance::numa_node);  // another host bridge
  EXPECT_EQ(to("mlx5_4"), distance::numa_node);
  EXPECT_EQ(to("mlx5_5"), distance::system);
  EXPECT_EQ(to("mlx5_9"), distance::unknown);
  const recorded_sysfs cascade("cascade");
  EXPECT_EQ(between(place_of_function("0000:2b:00.0", cascade.root()),
                    place_of_nic("mlx5_0", cascade.root())),
            distance::several_switches);
  const recorded_sysfs cloud("cloud");
  EXPECT_EQ(between(place_of_function("0000:00:10.0", cloud.root()),
                    place_of_nic("rdmap0s5", cloud.root())),
            distance::host_bridge);
}

TEST(distance, is_the_same_both_ways) {
  const recorded_sysfs machine("four_switches");
  std::vector<pci_place> all;
  for (const auto& name : gaudi::topo::rdma_devices(machine.root() / "class"))
    all.push_back(place_of_nic(name, machine.root()));
  for (const char* bus_id : {"0000:19:00.0", "0000:1a:00.0", "0000:9b:00.0"})
    all.push_back(place_of_function(bus_id, machine.root()));
  for (const auto& one : all)
    for (const auto& other : all) EXPECT_EQ(between(one, other), between(other, one));
}

TEST(by_distance, puts_the_nics_of_the_devices_switch_first_and_of_the_other_socket_last) {
  const recorded_sysfs machine("four_switches");
  EXPECT_THAT(preferred(machine, "0000:34:00.0"),
              ElementsAre("mlx5_2", "mlx5_3", "mlx5_0", "mlx5_1", "mlx5_4", "mlx5_5", "mlx5_6",
                          "mlx5_7", "mlx5_8"));
  EXPECT_THAT(preferred(machine, "0000:cd:00.0"),
              ElementsAre("mlx5_7", "mlx5_8", "mlx5_5", "mlx5_6", "mlx5_0", "mlx5_1", "mlx5_2",
                          "mlx5_3", "mlx5_4"));
}

TEST(by_distance, gives_each_device_of_a_server_a_nic_near_by_and_each_nic_as_many_devices) {
  const std::map<std::string, std::vector<std::string>> servers{
      {"four_switches",
       {"0000:19:00.0", "0000:1a:00.0", "0000:33:00.0", "0000:34:00.0", "0000:9a:00.0",
        "0000:9b:00.0", "0000:cc:00.0", "0000:cd:00.0"}},
      {"cascade",
       {"0000:2b:00.0", "0000:2c:00.0", "0000:2f:00.0", "0000:30:00.0", "0000:ac:00.0",
        "0000:ad:00.0", "0000:b0:00.0", "0000:b1:00.0"}},
      {"cloud",
       {"0000:00:10.0", "0000:00:11.0", "0000:00:12.0", "0000:00:13.0", "0000:00:14.0",
        "0000:00:15.0", "0000:00:16.0", "0000:00:17.0"}}};
  for (const auto& [server, devices] : servers) {
    const recorded_sysfs machine(server);
    std::map<std::string, int> users;
    for (std::size_t turn = 0; turn < devices.size(); ++turn)
      ++users[preferred(machine, devices[turn], turn).front()];
    for (const auto& [nic, count] : users)
      EXPECT_LE(count, server == "four_switches" ? 1 : 2) << server << ' ' << nic;
  }
}

TEST(by_distance, keeps_the_order_where_nothing_is_known) {
  const std::vector<pci_place> nics(3);
  EXPECT_THAT(gaudi::topo::by_distance(pci_place{}, 2, nics), ElementsAre(0U, 1U, 2U));
  EXPECT_THAT(gaudi::topo::by_distance(pci_place{}, 0, {}), IsEmpty());
}

TEST(by_distance, puts_nics_of_unknown_place_last) {
  recorded_sysfs machine("cloud");
  machine.add("nic a_soft_one virtual/net/eth0");
  EXPECT_EQ(preferred(machine, "0000:00:10.0").back(), "a_soft_one");
}

}  // namespace
