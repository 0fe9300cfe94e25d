// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Whose memory an address is in, where there is one device.
#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include "many_devices.hpp"

namespace gaudi::device {
namespace {

TEST_F(many_devices, the_only_one_and_who_follows_it_own_their_memory_to_the_last_byte) {
  for (int i = 0; i < 2; ++i) {
    device& only = *open(0, listing("0"));
    const std::uint64_t address = allocate(only, 4096);
    EXPECT_EQ(all_.find_owner(address + 4095).owner, &only);
    EXPECT_EQ(all_.find_owner(address + 4096).owner, nullptr);
    EXPECT_TRUE(only.free(address));
    only.lose(-FI_EIO, "of the test");
  }
}

// Somebody else keeps it open meanwhile.
TEST_F(many_devices, one_owns_its_memory_when_it_is_opened_again_after_all_were_cleared) {
  const auto kept = open(0, listing("0"));
  all_.clear();
  EXPECT_EQ(open(0, listing("0")), kept);
  const std::uint64_t address = allocate(*kept, 4096);
  EXPECT_EQ(all_.find_owner(address).owner, kept.get());
  EXPECT_TRUE(kept->free(address));
}

}  // namespace
}  // namespace gaudi::device
