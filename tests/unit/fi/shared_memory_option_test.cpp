// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// FI_OPT_SHARED_MEMORY_PERMITTED (fi_endpoint(3)), which aws-ofi-nccl sets to false because its
// flush has to pass the NIC.
#include "opened.hpp"

namespace gaudi::fi {
namespace {

constexpr int shared_memory_permitted = 11;  // since libfabric 1.19

template <class Value>
int set(fid_ep* ep, Value value) {
  return fi_setopt(&ep->fid, FI_OPT_ENDPOINT, shared_memory_permitted, &value, sizeof value);
}

// Here FI_GAUDI_IPC is auto: an endpoint would share memory with its peers.
TEST(shared_memory_option, is_not_accepted_where_it_would_not_be_obeyed) {
  const test::opened o;
  const auto ep = o.open_ep();
  EXPECT_EQ(set(ep.get(), true), 0);
  EXPECT_EQ(set(ep.get(), false), -FI_EOPNOTSUPP);
  EXPECT_EQ(set(ep.get(), 0), -FI_EINVAL) << "a bool";
}

}  // namespace
}  // namespace gaudi::fi
