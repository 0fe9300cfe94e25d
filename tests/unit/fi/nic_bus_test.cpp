// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fi/info/nic_bus.hpp"

#include <gtest/gtest.h>

#include "../topo/recorded_sysfs.hpp"
#include "core/fid.hpp"
#include "fi/info/naming.hpp"

namespace {

using gaudi::core::unique_info;
using gaudi::fi::add_pci_addresses;
using gaudi::topo::test::recorded_sysfs;

/// An entry of libfabric's verbs, which has a NIC but not where it is.
class nic_bus : public testing::Test {
 protected:
  nic_bus() : info_(fi_allocinfo()) {
    gaudi::fi::replace(info_->domain_attr->name, "mlx5_0");
    nic_.bus_attr = &bus_;
    info_->nic = &nic_;
  }
  ~nic_bus() override { info_->nic = nullptr; }

  recorded_sysfs machine_;
  fi_bus_attr bus_{};
  fid_nic nic_{};
  unique_info info_;
};

TEST_F(nic_bus, gets_the_address_of_the_nic) {
  machine_.add("nic mlx5_0 numa=1 pci0000:97/0000:97:01.0/10a1:9b:1f.7");
  add_pci_addresses(info_.get(), machine_.root());
  ASSERT_EQ(bus_.bus_type, FI_BUS_PCI);
  EXPECT_EQ(bus_.attr.pci.domain_id, 0x10a1);
  EXPECT_EQ(bus_.attr.pci.bus_id, 0x9b);
  EXPECT_EQ(bus_.attr.pci.device_id, 0x1f);
  EXPECT_EQ(bus_.attr.pci.function_id, 7);
}

TEST_F(nic_bus, keeps_what_the_core_said) {
  machine_.add("nic mlx5_0 numa=1 pci0000:97/0000:97:01.0/0000:98:00.0");
  bus_.bus_type = FI_BUS_PCI;
  bus_.attr.pci.bus_id = 0x17;
  add_pci_addresses(info_.get(), machine_.root());
  EXPECT_EQ(bus_.attr.pci.bus_id, 0x17);
}

TEST_F(nic_bus, is_left_open_where_no_address_is_known_or_fits) {
  add_pci_addresses(info_.get(), machine_.root());
  EXPECT_EQ(bus_.bus_type, FI_BUS_UNKNOWN);
  machine_.add("nic mlx5_0 numa=0 pci10000:00/10000:00:01.0");
  add_pci_addresses(info_.get(), machine_.root());
  EXPECT_EQ(bus_.bus_type, FI_BUS_UNKNOWN);
  nic_.bus_attr = nullptr;
  add_pci_addresses(info_.get(), machine_.root());
}

}  // namespace
