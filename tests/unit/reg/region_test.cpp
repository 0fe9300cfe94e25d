// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "reg/region.hpp"

#include <gtest/gtest.h>
#include <rdma/fi_rma.h>

#include <memory>

namespace gaudi::reg {
namespace {

/// A registration of the core's in name only.
core::inner_mr host_mr() {
  static fi_ops ops{.size = sizeof(fi_ops),
                    .close =
                        [](fid_t f) {
                          delete reinterpret_cast<fid_mr*>(f);
                          return 0;
                        },
                    .bind = nullptr,
                    .control = nullptr,
                    .ops_open = nullptr,
                    .tostr = nullptr,
                    .ops_set = nullptr};
  auto mr = std::make_unique<fid_mr>();
  mr->fid.ops = &ops;
  return core::inner_mr(core::unique_fid<fid_mr>(mr.release()));
}

TEST(region, of_host_memory_lets_a_peer_do_what_it_was_registered_for) {
  region r;
  EXPECT_EQ(r.core_for(0), nullptr) << "the core does not know it";
  r.core = host_mr();
  r.access = FI_SEND | FI_REMOTE_READ;
  EXPECT_EQ(r.core_for(0), &r.core);
  EXPECT_EQ(r.core_for(FI_REMOTE_READ), &r.core);
  EXPECT_EQ(r.core_for(FI_REMOTE_WRITE), nullptr);
  EXPECT_EQ(r.core_for(FI_REMOTE_READ | FI_REMOTE_WRITE), nullptr);
}

}  // namespace
}  // namespace gaudi::reg
