// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The tree that HLSIM_SYSFS asks for, as the provider reads /sys.
#include "device/sysfs.hpp"

#include "simulation.hpp"
#include "topo/distance.hpp"

namespace hlsim_test {
namespace {

namespace topo = gaudi::topo;

TEST(sysfs_tree, is_that_of_a_server) {
  const scratch_folder root;
  simulate({{"HLSIM_SYSFS", root.path()}, {"HLSIM_DEVICES", "8"}}, [&] {
    hlthunk_close(hlthunk_open_control(0, nullptr));
    const gaudi::device::sysfs names(root.path());
    EXPECT_EQ(names.bus_id_of_index(3), "0000:1c:00.0");
    EXPECT_EQ(names.bus_id_of_module(7), "0000:20:00.0");
    EXPECT_EQ(names.index_of_bus_id("0000:19:00.0"), 0);
    EXPECT_FALSE(names.bus_id_of_index(8));
    const auto place = [&](const char* bus_id) {
      return topo::place_of_function(bus_id, root.path());
    };
    const auto first = place("0000:19:00.0");
    EXPECT_EQ(first.numa_node, 0);
    EXPECT_EQ(place("0000:20:00.0").numa_node, 1);
    EXPECT_EQ(topo::between(first, place("0000:1a:00.0")), topo::distance::same_switch);
    EXPECT_EQ(topo::between(first, place("0000:1b:00.0")), topo::distance::host_bridge);
    EXPECT_EQ(topo::between(first, place("0000:1d:00.0")), topo::distance::system);
  });
}

TEST(sysfs_tree, stays_as_it_is_for_the_next_process) {
  const scratch_folder root, folder;
  const environment env{{"HLSIM_SYSFS", root.path()}, {"HLSIM_DEVICES", "1"}};
  const auto look = [] { hlthunk_close(hlthunk_open_control(0, nullptr)); };
  ASSERT_TRUE(succeeded(start(folder.path(), env, look)));
  const std::filesystem::path vendor = root.path() + "/bus/pci/devices/0000:19:00.0/vendor";
  const auto written = std::filesystem::last_write_time(vendor);
  ASSERT_TRUE(succeeded(start(folder.path(), env, look)));
  EXPECT_EQ(std::filesystem::last_write_time(vendor), written);
}

}  // namespace
}  // namespace hlsim_test
